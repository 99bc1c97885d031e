//! Who is at the other end: clients with a front of their own, where their users decide, and other
//! users of this machine.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use gemini_companion::ide::{File, IdeContext};
use serde_json::{Value, json};

use crate::process::{CLIENT, Client};
use crate::support::{Session, TestCompanion, request};

fn initialize(server: &TestCompanion) -> String {
    let body = request(0, "initialize", json!({ "protocolVersion": "2025-06-18" }));
    let head = server.head("POST", "/mcp", &[]);
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn tools(session: &Session) -> Vec<String> {
    let list = session.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_process_that_speaks_acp_is_offered_no_tools_of_diffs() {
    let server = TestCompanion::start();
    let here = std::env::current_dir().unwrap();
    for (argument, own) in
        [("--acp", true), ("--experimental-acp", true), ("--acpx", false), ("x--acp", false)]
    {
        let (_client, session) = Client::initialize_with(&server, &here, &[argument]);
        let described = || {
            let all = server.companion.sessions().describe();
            all.into_iter().find(|it| session.id.starts_with(&it.key)).unwrap()
        };
        assert!(!described().knows_tools);
        let names = tools(&session);
        if own {
            assert_eq!(names, ["getActiveFile"], "{argument}");
        } else {
            let all = ["openDiff", "closeDiff", "getActiveFile", "acceptDiff", "rejectDiff"];
            assert_eq!(names, all, "{argument}");
        }
        assert_eq!(described().has_own_front, own, "{argument}");
        assert!(described().knows_tools);
        assert_eq!(described().agent, "gemini");
    }
}

#[test]
fn a_connection_of_another_user_is_refused() {
    // Safety: the call has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("only root can be another user");
    }
    let server = TestCompanion::start();
    let connect = |user: u32| {
        let output = Command::new("bash")
            .args(["-c", CLIENT])
            .env("PORT", server.companion.port().to_string())
            .env("REQUEST", initialize(&server))
            .stdin(std::process::Stdio::null())
            .current_dir("/")
            .uid(user)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(connect(0).contains("200 OK"));
    let refused = connect(65_533);
    assert!(!refused.contains("HTTP"), "{refused}");
    assert_eq!(server.companion.sessions().describe().len(), 1);
}

#[test]
fn clients_learn_that_the_user_trusts_a_workspace_and_nothing_else_of_it() {
    let server = TestCompanion::start();
    let mut stream = server.open_session().open_stream();
    let context = || IdeContext::new(vec![File { path: "/a".to_owned(), ..File::default() }]);
    let mut publish = |context| {
        server.publish_context(context);
        let (method, params) = stream.notification();
        assert_eq!(method, "ide/contextUpdate");
        params["workspaceState"]["isTrusted"].clone()
    };
    assert_eq!(publish(context()), Value::Null);
    assert_eq!(publish(context().trusted()), true);
    assert_eq!(publish(context()), Value::Null);
}
