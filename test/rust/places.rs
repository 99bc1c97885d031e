//! Each client receives the contexts of the directory that it works in. Clients are processes of
//! their own, and the test stands in for Lisp.
#![cfg(target_os = "linux")]

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gemini_companion::ide::{File, IdeContext};
use gemini_companion::{Event, Limits, Place};
use serde_json::{Value, json};

use crate::process::Client;
use crate::support::{Session, Stream, TestCompanion, request, wait_for};

/// Two directories, by their canonical names.
fn directories() -> (tempfile::TempDir, [PathBuf; 2]) {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let directories = ["one", "other"].map(|name| root.join(name));
    directories.iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    (temporary, directories)
}

fn place(directory: &Path) -> Place {
    directory.to_str().into()
}

/// A context of one file.
fn looking_at(path: &str) -> IdeContext {
    IdeContext::new(vec![File { path: path.to_owned(), ..File::default() }])
}

/// The file in the next context, or nothing if that is empty.
fn next_path(stream: &mut Stream) -> Value {
    let (method, params) = stream.notification();
    assert_eq!(method, "ide/contextUpdate");
    params["workspaceState"]["openFiles"][0]["path"].clone()
}

#[test]
fn each_client_receives_the_context_of_its_directory_when_it_changes() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, other]) = directories();
    let (_one, in_one) = Client::initialize(&server, &one);
    let (_other, in_other) = Client::initialize(&server, &other);
    let anywhere = server.open_session(); // the test is Emacs itself, whose directory is not used
    let places = [place(&one), place(&other), Place::Unknown];
    let found = sessions.places();
    assert!(found.len() == 3 && places.iter().all(|place| found.contains(place)), "{found:?}");
    let publish = |files: [&str; 3]| {
        let contexts = places.iter().cloned().zip(files.map(looking_at));
        sessions.publish_contexts(contexts.collect());
    };
    publish(["/one/a", "/other/a", "/a"]);
    let mut streams = [&in_one, &in_other, &anywhere].map(|session| session.open_stream());
    assert_eq!(streams.each_mut().map(next_path), ["/one/a", "/other/a", "/a"]);
    publish(["/one/a", "/other/b", "/a"]);
    assert_eq!(next_path(&mut streams[1]), "/other/b");
    publish(["/one/a", "/other/b", "/c"]);
    assert_eq!(next_path(&mut streams[2]), "/c");
    publish(["/one/d", "/other/b", "/c"]);
    assert_eq!(next_path(&mut streams[0]), "/one/d");
    sessions.ping();
    for stream in &mut streams {
        assert_eq!(stream.next().unwrap().1["method"], "ping"); // and no context before it
    }
}

#[test]
fn a_client_that_changes_directory_receives_the_context_there() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, other]) = directories();
    let (mut client, session) = Client::initialize(&server, &one);
    let mut stream = session.open_stream();
    sessions.publish_contexts(vec![(place(&one), looking_at("/one/a"))]);
    assert_eq!(next_path(&mut stream), "/one/a");
    server.companion.bridge().next_event();
    client.go_to(&other);
    wait_for("the move to be seen", || (sessions.places() == [place(&other)]).then_some(()));
    assert_eq!(server.companion.bridge().next_event(), Some(Event::ClientsChanged));
    // It is not sent contexts of its former directory.
    sessions.publish_contexts(vec![(place(&one), looking_at("/one/b"))]);
    sessions.publish_contexts(vec![(place(&other), looking_at("/other/a"))]);
    assert_eq!(next_path(&mut stream), "/other/a");
    assert_eq!(sessions.describe()[0].place, place(&other));
}

/// The stream of `session` brings a ping, and no context before it.
fn assert_no_context(server: &TestCompanion, session: &Session) {
    let mut stream = session.open_stream();
    server.companion.sessions().ping();
    assert_eq!(stream.next().unwrap().1["method"], "ping");
}

#[test]
fn a_context_that_waits_for_a_client_that_has_moved_is_not_sent() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, other]) = directories();
    let (mut client, session) = Client::initialize(&server, &one);
    sessions.publish_contexts(vec![(place(&one), looking_at("/one/a"))]);
    client.go_to(&other);
    wait_for("the move to be seen", || (sessions.places() == [place(&other)]).then_some(()));
    assert_no_context(&server, &session);
}

#[test]
fn the_context_of_a_directory_that_clients_have_left_is_forgotten() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, other]) = directories();
    let (_client, _in_one) = Client::initialize(&server, &one);
    let (_other, _in_other) = Client::initialize(&server, &other);
    let contexts = [(place(&one), looking_at("/one/a")), (place(&other), looking_at("/other/a"))];
    sessions.publish_contexts(contexts.to_vec());
    assert!(sessions.disconnect(&sessions.describe()[0].key));
    sessions.publish_contexts(contexts[1..].to_vec());
    let (_back, session) = Client::initialize(&server, &one);
    assert_no_context(&server, &session);
}

#[test]
fn the_directory_of_a_process_is_known_after_its_end() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, _]) = directories();
    let (client, session) = Client::initialize(&server, &one);
    drop(client);
    let mut stream = session.open_stream();
    sessions.publish_contexts(vec![
        (Place::Unknown, looking_at("/a")),
        (place(&one), looking_at("/one/a")),
    ]);
    assert_eq!(next_path(&mut stream), "/one/a");
}

#[test]
fn readers_of_events_receive_the_context_of_their_directory() {
    let server = TestCompanion::start();
    let sessions = server.companion.sessions();
    let (_temporary, [one, other]) = directories();
    let head = server.head("GET", "/events", &[]);
    let mut reader = Client::start(&server, &one, format!("{head}\r\n"));
    reader.read_until(": connected");
    sessions.publish_contexts(vec![
        (place(&other), looking_at("/other/a")),
        (Place::Unknown, looking_at("/a")),
        (place(&one), looking_at("/one/a")),
    ]);
    let mut lines = (&mut reader.output).lines().map(Result::unwrap);
    let event = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(event["params"]["openFiles"][0]["path"], "/one/a");
}

#[test]
fn a_client_without_a_session_is_told_the_active_file_of_its_directory() {
    let wait = Duration::from_secs(20);
    let server = TestCompanion::with(Limits { first_context: wait, ..Limits::default() });
    let (_temporary, [one, other]) = directories();
    let head = server.head("GET", "/events", &[]);
    let mut reader = Client::start(&server, &one, format!("{head}\r\n"));
    reader.read_until(": connected");
    let active = File { path: "/one/a".to_owned(), is_active: Some(true), ..File::default() };
    let contexts = vec![(place(&one), IdeContext::new(vec![active]))];
    server.companion.sessions().publish_contexts(contexts);
    let call = request(1, "tools/call", json!({ "name": "getActiveFile" }));
    let head = server.head("POST", "/mcp", &[("Connection", "close")]);
    let text = format!("{head}Content-Length: {}\r\n\r\n{call}", call.len());
    let asked = Instant::now();
    // Where there is no reader, Emacs publishes nothing that could be awaited.
    for (directory, told) in
        [(&one, "Active file: /one/a"), (&other, "No file is currently active")]
    {
        let mut client = Client::start(&server, directory, text.clone());
        let answer = client.read_until("that is all").concat();
        assert!(answer.contains(told), "{answer}");
    }
    assert!(asked.elapsed() < wait);
}

#[test]
fn an_accept_tells_emacs_the_directory_of_the_client() {
    let server = TestCompanion::start();
    let (_temporary, [one, other]) = directories();
    let path = local!("/no/such/file");
    let arguments = json!({ "name": "acceptDiff", "arguments": { "filePath": path } });
    let accept = request(1, "tools/call", arguments);
    let asked = || match server.next_event() {
        Event::DecideReview { directory, .. } => directory,
        other => panic!("{other:?}"),
    };
    let (_client, session) = Client::initialize(&server, &one);
    let anywhere = server.open_session();
    for (session, directory) in [(&session, one.to_str()), (&anywhere, None)] {
        session.open_diff(path, "new");
        server.opened();
        let _answer = session.post_slowly(&[], &accept);
        assert_eq!(asked().as_deref(), directory);
    }
    // The directory of a client without a session is found for each call.
    server.unnamed_session().open_diff(path, "new");
    server.opened();
    let head = server.head("POST", "/mcp", &[]);
    let text = format!("{head}Content-Length: {}\r\n\r\n{accept}", accept.len());
    let _client = Client::start(&server, &other, text);
    assert_eq!(asked().as_deref(), other.to_str());
}
