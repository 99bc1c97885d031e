//! The status and the error of each kind of request.

use serde_json::{Value, json};

use crate::support::{TestCompanion, notification, request};

#[test]
fn initialize_offers_a_revision_that_both_sides_support() {
    let server = TestCompanion::start();
    for (asked, offered) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2024-11-05"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
    ] {
        let response = server.initialize(asked);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type").as_deref(), Some("application/json"));
        assert!(response.header("mcp-session-id").is_some_and(|id| id.len() >= 32));
        let result = &response.json()["result"];
        assert_eq!(result["protocolVersion"], offered);
        assert_eq!(result["capabilities"], json!({ "tools": {} }));
        assert_eq!(result["serverInfo"]["name"], "gemini-companion");
    }
    assert_eq!(server.companion.sessions().count(), 6);
}

#[test]
fn initialize_may_lack_parameters_but_not_have_invalid_ones() {
    let server = TestCompanion::start();
    assert_eq!(server.post(&[], &request(1, "initialize", json!({}))).status, 200);
    let wrong = request(1, "initialize", json!({ "protocolVersion": 7 }));
    assert_eq!(server.post(&[], &wrong).error_code(), -32602);
    let session = server.open_session();
    assert_eq!(session.post(&request(1, "initialize", json!({}))).status, 400);
}

#[test]
fn guards_come_before_everything_else() {
    let server = TestCompanion::start();
    for method in ["GET", "POST", "DELETE", "OPTIONS", "PUT"] {
        for path in ["/mcp", "/events", "/", "/mcp/../secret"] {
            let status = |changes: &[(&str, &str)]| {
                let response = server.request(method, path, changes, "{");
                assert!(response.json()["error"]["message"].is_string());
                assert!(!response.body.contains(&server.companion.token("gemini").unwrap()));
                response.status
            };
            assert_eq!(status(&[("Authorization", "")]), 401, "{method} {path}");
            assert_eq!(status(&[("Authorization", "Bearer wrong")]), 401, "{method} {path}");
            assert_eq!(status(&[("Host", "evil.example")]), 403, "{method} {path}");
            assert_eq!(status(&[("Origin", "http://localhost")]), 403, "{method} {path}");
        }
    }
    let refused = server.post(&[("Authorization", "")], "");
    assert_eq!(refused.header("www-authenticate").as_deref(), Some("Bearer"));
}

#[test]
fn a_request_must_name_this_server_and_show_a_token() {
    let server = TestCompanion::start();
    let port = server.companion.port();
    let status = |changes: &[(&str, &str)]| server.request("PUT", "/mcp", changes, "").status;
    for name in ["127.0.0.1", "localhost", "LocalHost", "host.docker.internal"] {
        assert_eq!(status(&[("Host", &format!("{name}:{port}"))]), 405, "{name}");
    }
    let own = format!("127.0.0.1:{port}");
    for name in ["127.0.0.1", "127.0.0.1:1", "localhost", &format!("evil.example:{port}")] {
        assert_eq!(status(&[("Host", name)]), 403, "{name}");
    }
    assert_eq!(status(&[("Host", &format!("[::1]:{port}"))]), 403);
    assert_eq!(status(&[("Host", &own), ("Host", &own)]), 403);
    for origin in ["null", "http://127.0.0.1:4711", "https://example.com"] {
        assert_eq!(status(&[("Origin", origin)]), 403, "{origin}");
    }
    for (target, expected) in [(&*own, 405), ("evil.example:4711", 403)] {
        let target = format!("http://{target}/mcp");
        assert_eq!(server.request("PUT", &target, &[], "").status, expected, "{target}");
    }
    let token = server.companion.token("gemini").unwrap();
    let bearer = format!("Bearer {token}");
    assert_eq!(status(&[("Authorization", &format!("bearer {token}"))]), 405);
    let (longer, shorter) = (format!("{bearer}2"), &bearer[..bearer.len() - 1]);
    for wrong in ["Bearer wrong!", &longer, shorter, &token, "Basic x", "Bearer "] {
        assert_eq!(status(&[("Authorization", wrong)]), 401, "{wrong}");
    }
    assert_eq!(status(&[("Authorization", &bearer), ("Authorization", "Bearer x")]), 401);
}

#[test]
fn unknown_paths_and_methods_are_refused() {
    let server = TestCompanion::start();
    assert_eq!(server.request("POST", "/", &[], "").status, 404);
    for method in ["PUT", "PATCH", "OPTIONS"] {
        let response = server.request(method, "/mcp", &[], "");
        assert_eq!(response.status, 405);
        assert_eq!(response.header("allow").as_deref(), Some("GET, POST, DELETE"));
    }
}

#[test]
fn media_types_are_checked() {
    let server = TestCompanion::start();
    let ping = request(1, "ping", json!({}));
    assert_eq!(server.post(&[("Accept", "application/json")], &ping).status, 406);
    assert_eq!(server.post(&[("Accept", "text/html")], &ping).status, 406);
    assert_eq!(server.post(&[("Content-Type", "text/plain")], &ping).status, 415);
    assert_eq!(server.post(&[("Content-Type", "")], &ping).status, 415);
    assert_eq!(server.post(&[("Content-Type", "application/jsonp")], &ping).status, 415);
    assert_eq!(
        server.post(&[("Content-Type", "Application/JSON; charset=utf-8")], &ping).status,
        200
    );
    for (accept, status) in [
        ("Application/*;q=0.5,TEXT/*", 200),
        ("*/*", 200),
        ("", 200),
        ("text/event-stream, application/json;q=0, text/html", 406),
        ("*/*, application/json; q=0", 406),
        ("text/event-stream, application/*;q=0.0, */*;q=0.1", 406),
    ] {
        assert_eq!(server.post(&[("Accept", accept)], &ping).status, status, "{accept}");
    }
    let two = [("Accept", "application/json"), ("Accept", "text/event-stream")];
    assert_eq!(server.post(&two, &ping).status, 200);
    assert_eq!(server.request("GET", "/mcp", &[("Accept", "application/json")], "").status, 406);
}

#[test]
fn requests_need_a_known_session() {
    let server = TestCompanion::start();
    let ping = request(1, "ping", json!({}));
    // Without a session, only the methods of document 004 are served.
    for (method, status) in [("ping", 200), ("tools/list", 200), ("x", 400)] {
        assert_eq!(server.post(&[], &request(1, method, json!({}))).status, status, "{method}");
    }
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned();
    for (body, status) in [
        (notification("notifications/initialized"), 202),
        (notification("notifications/cancelled"), 202),
        (response, 202),
        (format!("[{ping}]"), 400),
    ] {
        assert_eq!(server.post(&[], &body).status, status, "{body}");
    }
    assert_eq!(server.request("GET", "/mcp", &[], "").status, 400);
    assert_eq!(server.request("DELETE", "/mcp", &[], "").status, 400);
    let unknown = [("Mcp-Session-Id", "0123456789abcdef")];
    assert_eq!(server.post(&unknown, &ping).status, 404);
    assert_eq!(server.request("GET", "/mcp", &unknown, "").status, 404);
    assert_eq!(server.request("DELETE", "/mcp", &unknown, "").status, 404);
}

#[test]
fn a_deleted_session_is_unknown() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let named = [("Mcp-Session-Id", session.id.as_str())];
    assert_eq!(server.request("DELETE", "/mcp", &named, "").status, 200);
    assert_eq!(session.post(&request(1, "ping", json!({}))).status, 404);
    assert_eq!(server.companion.sessions().count(), 0);
}

#[test]
fn a_revision_in_a_header_must_be_that_of_the_session() {
    let server = TestCompanion::start();
    let session = server.open_session();
    let ping = request(1, "ping", json!({}));
    let naming =
        |version| [("Mcp-Session-Id", session.id.as_str()), ("MCP-Protocol-Version", version)];
    for (version, status) in [("2025-06-18", 200), ("2026-07-28", 400), ("x", 400)] {
        assert_eq!(server.post(&naming(version), &ping).status, status, "{version}");
    }
    // Even if it supports the revision, it must be that of the session.
    assert_eq!(server.post(&naming("2025-11-25"), &ping).status, 400);
    assert_eq!(server.request("GET", "/mcp", &naming("2025-11-25"), "").status, 400);
    assert_eq!(server.request("DELETE", "/mcp", &naming("2025-11-25"), "").status, 400);
    assert_eq!(server.request("DELETE", "/mcp", &naming("2025-06-18"), "").status, 200);
}

#[test]
fn messages_get_the_errors_of_json_rpc() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for (body, status, code) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("{}", 400, -32600),
        ("[]", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":-7,"method":"resources/list"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602),
    ] {
        let response = session.post(body);
        assert_eq!((response.status, response.error_code()), (status, code), "{body}");
    }
}

#[test]
fn notifications_and_responses_are_accepted_silently() {
    let server = TestCompanion::start();
    let session = server.open_session();
    for body in [
        notification("notifications/initialized"),
        notification("notifications/of-some-other-kind"),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string(),
    ] {
        let response = session.post(&body);
        assert_eq!((response.status, response.body.as_str()), (202, ""), "{body}");
    }
}

#[test]
fn all_tools_are_listed_with_their_schemas() {
    let server = TestCompanion::start();
    let answer = server.open_session().request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["openDiff", "closeDiff", "getActiveFile", "acceptDiff", "rejectDiff"]);
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["filePath", "newContent"]));
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["filePath"]));
    // The servers with which `make bench` compares ours offer the same tools.
    let compared: Value = serde_json::from_str(include_str!("../bench/tools.json")).unwrap();
    assert_eq!(answer["result"], compared);
}
