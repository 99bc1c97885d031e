//! Sessions, without a server.

mod handover;

use handover::OtherProcess;

use std::task::{Poll, Waker};

use super::*;
use crate::agent::Agent;
use crate::agent::tests::agent;
use crate::host::Host;
use crate::ide::{File, IdeContext, Notification, Outcome};
use crate::mcp::endings::LastText;
use crate::mcp::message::notification_json;
use crate::mcp::session::STREAM_GRACE;

/// As in the default limits.
const IDLE_TIME: Duration = Duration::from_secs(120);
const HOST_TIME: Duration = Duration::from_secs(3600);
const REACHABLE_TIME: Duration = Duration::from_secs(600);

/// The time between the beginnings of two sessions, which must differ.
const TICK: Duration = Duration::from_millis(1);

fn sessions() -> (Arc<Bridge>, Arc<Sessions>) {
    let bridge = Arc::new(Bridge::new(&Limits::default()));
    (bridge.clone(), Arc::new(Sessions::new(bridge, Limits::default())))
}

fn events(bridge: &Bridge) -> Vec<Event> {
    std::iter::from_fn(|| bridge.next_event()).collect()
}

fn gemini() -> Agent {
    agent("gemini")
}

fn client(name: &str) -> Client {
    let version = if name.is_empty() { "" } else { "1" };
    Client { agent: gemini().into(), name: name.to_owned(), version: version.to_owned() }
}

/// Begins a session of a client whose process is not known.
fn begin(sessions: &Sessions, client: Client) -> SessionId {
    sessions.open(client, Revision::NEWEST, Origin::default()).unwrap()
}

fn begin_from(sessions: &Sessions, process: u32) -> SessionId {
    let origin = Origin::of(Process::with_id(process));
    sessions.open(client(""), Revision::NEWEST, origin).unwrap()
}

/// Opens a session of this process, and its stream.
async fn open_here(sessions: &Arc<Sessions>) -> (SessionId, StreamReader) {
    open_from(sessions, std::process::id()).await
}

async fn open_from(sessions: &Arc<Sessions>, process: u32) -> (SessionId, StreamReader) {
    tokio::time::advance(TICK).await;
    let session = begin_from(sessions, process);
    let stream = sessions.open_stream(&session, None).unwrap();
    (session, stream)
}

fn open_review(sessions: &Sessions, session: &SessionId) -> ReviewId {
    sessions.open_review(session, "/a".to_owned(), String::new(), 0).unwrap()
}

#[test]
fn a_client_whose_stream_does_not_return_is_disconnected() {
    let (bridge, sessions) = sessions();
    let session = begin(&sessions, client(""));
    let stream = sessions.open_stream(&session, None);
    let review = open_review(&sessions, &session);
    events(&bridge);
    drop(stream);
    let lost = Instant::now();
    let deadline = sessions.expire(lost).unwrap();
    assert!(deadline <= lost + STREAM_GRACE);
    assert_eq!(events(&bridge), []);
    sessions.expire(lost + STREAM_GRACE);
    let closed = Event::CloseReview { review, call: None };
    assert_eq!(events(&bridge), [closed, Event::ClientsChanged]);
    assert_eq!(sessions.count(), 0);
    assert!(!sessions.decide(review, Outcome::Rejected));
    // It may still return.
    let _stream = sessions.open_stream(&session, None);
    assert_eq!(sessions.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_returning_client_receives_no_stale_context() {
    let (_, sessions) = sessions();
    let publish = |path: &str| {
        let file = File { path: path.to_owned(), is_active: Some(true), ..File::default() };
        sessions.publish_contexts(vec![(Place::Unknown, IdeContext::new(vec![file]))]);
    };
    let session = begin(&sessions, client(""));
    sessions.active_file(&session).await; // as a client of document 003
    let stream = sessions.open_stream(&session, None).unwrap();
    publish("/received");
    assert_eq!(received(&stream), 2);
    publish("/waits");
    drop(stream);
    advance(&sessions, STREAM_GRACE).await;
    publish("/while-away");
    for last_event in [None, Some(0)] {
        let back = sessions.open_stream(&session, last_event).unwrap();
        assert_eq!(received(&back), 0);
    }
    publish("/now");
    let back = sessions.open_stream(&session, None).unwrap();
    assert_eq!(received(&back), 2);
}

#[test]
fn a_stream_that_returns_in_time_keeps_its_reviews() {
    let (_, sessions) = sessions();
    let session = begin(&sessions, client(""));
    drop(sessions.open_stream(&session, None));
    let review = open_review(&sessions, &session);
    let _stream = sessions.open_stream(&session, None);
    assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_TIME), None);
    assert!(sessions.decide(review, Outcome::Rejected));
}

#[test]
fn an_idle_session_is_dropped_with_its_reviews() {
    let (bridge, sessions) = sessions();
    let session = begin(&sessions, client(""));
    let review = open_review(&sessions, &session);
    assert_eq!(sessions.count(), 1);
    events(&bridge);
    let busy = sessions.enter(session.as_str(), &gemini());
    assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_TIME), None);
    drop(busy);
    assert_eq!(sessions.expire(Instant::now() + 2 * IDLE_TIME), None);
    let closed = Event::CloseReview { review, call: None };
    assert_eq!(events(&bridge), [closed, Event::ClientsChanged]);
    assert_eq!(sessions.count(), 0);
    assert!(sessions.enter(session.as_str(), &gemini()).is_none());
}

#[test]
fn the_next_session_of_a_living_process_inherits() {
    let (bridge, sessions) = sessions();
    let open = || begin_from(&sessions, std::process::id());
    let old = open();
    drop(sessions.open_stream(&old, None));
    let decided = sessions.open_review(&old, "/decided".to_owned(), String::new(), 0).unwrap();
    let open_one = open_review(&sessions, &old);
    events(&bridge);
    sessions.expire(Instant::now() + 2 * IDLE_TIME);
    assert_eq!(events(&bridge), [Event::ClientsChanged]);
    assert!(sessions.decide(decided, Outcome::Rejected));
    // A session that never opens its stream is given nothing, though it is the newest.
    let (other, successor, _silent) = (begin(&sessions, client("")), open(), open());
    sessions.expire(Instant::now() + STREAM_GRACE);
    assert!(sessions.decide(open_one, Outcome::Rejected));
    let received = |session| {
        let reader = sessions.open_stream(session, None).unwrap();
        sessions.expire(Instant::now() + STREAM_GRACE);
        let next = || match reader.poll_next(Waker::noop()) {
            Poll::Ready(Some((_, message))) => Some(message.to_string()),
            _ => None,
        };
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    let rejected = |path| {
        let notification = Notification::DiffRejected { file_path: path, meta: None };
        notification_json(&notification)
    };
    assert_eq!(received(&successor), [rejected("/decided"), rejected("/a")]);
    assert_eq!(received(&other), [""; 0]);
    assert_eq!(received(&old), [""; 0]);
}

fn listen(sessions: &Arc<Sessions>, agent: Agent) -> EventReader {
    sessions.listen(agent.into(), Place::Unknown).unwrap()
}

fn enter_unnamed(sessions: &Arc<Sessions>) -> ActiveSession {
    let nowhere = || Box::pin(std::future::ready(Place::Unknown)) as _;
    sessions.enter_unnamed(&gemini().into(), Box::new(nowhere)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn reviews_of_an_unnamed_client_end_when_it_stops_listening() {
    let (bridge, sessions) = sessions();
    let review = open_review(&sessions, enter_unnamed(&sessions).session());
    drop(listen(&sessions, agent("qwen")));
    advance(&sessions, 2 * IDLE_TIME).await; // the client may be one that never listens
    drop((listen(&sessions, gemini()), listen(&sessions, gemini())));
    advance(&sessions, STREAM_GRACE / 2).await;
    let reader = listen(&sessions, gemini());
    advance(&sessions, STREAM_GRACE).await;
    sessions.interrupt_streams();
    drop(reader);
    advance(&sessions, STREAM_GRACE / 2).await;
    let reader = listen(&sessions, gemini());
    advance(&sessions, STREAM_GRACE).await;
    assert_eq!(sessions.describe()[0].reviews, [review]);
    drop(reader);
    events(&bridge);
    advance(&sessions, STREAM_GRACE).await;
    assert_eq!(events(&bridge), [Event::CloseReview { review, call: None }, Event::ClientsChanged]);
    advance(&sessions, IDLE_TIME).await;
    assert_eq!(sessions.describe(), []);
}

#[tokio::test(start_paused = true)]
async fn undelivered_outcomes_of_an_unnamed_client_are_kept_for_a_while() {
    let (_, sessions) = sessions();
    let session = enter_unnamed(&sessions).session().clone();
    let review = open_review(&sessions, &session);
    advance(&sessions, 2 * IDLE_TIME).await;
    assert!(sessions.decide(review, Outcome::Rejected));
    advance(&sessions, IDLE_TIME / 2).await;
    let last_text = || sessions.close_review(&session, "/a", true);
    assert!(matches!(last_text(), Some(LastText::Rejected)));
    advance(&sessions, IDLE_TIME).await;
    assert!(last_text().is_none());
}

/// Advances the clock.
async fn advance(sessions: &Sessions, time: Duration) {
    tokio::time::advance(time).await;
    sessions.expire(Instant::now());
}

fn received(stream: &StreamReader) -> usize {
    std::iter::from_fn(|| next(stream)).count()
}

fn next(stream: &StreamReader) -> Option<String> {
    match stream.poll_next(Waker::noop()) {
        Poll::Ready(next) => next.map(|(_, text)| text.to_string()),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn another_client_behind_the_same_proxy_inherits_nothing() {
    let (_, sessions) = sessions();
    let (one, stream) = open_here(&sessions).await;
    let review = open_review(&sessions, &one);
    drop(stream);
    let (_, other) = open_here(&sessions).await; // which begins at once
    let back = sessions.open_stream(&one, None).unwrap();
    assert!(sessions.decide(review, Outcome::Rejected));
    assert_eq!((received(&back), received(&other)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_successor_receives_the_text_omitted_for_the_proposer() {
    for decided_before in [true, false] {
        let (_, sessions) = sessions();
        let (lost, stream) = open_here(&sessions).await;
        let review = open_review(&sessions, &lost);
        let outcome = Outcome::Accepted { content: "text".into(), may_omit: true };
        let decide = || assert!(sessions.decide(review, outcome.clone()));
        if decided_before {
            decide();
            assert!(!next(&stream).unwrap().contains("text"));
        }
        drop(stream);
        let (_, successor) = open_here(&sessions).await;
        advance(&sessions, STREAM_GRACE).await;
        if !decided_before {
            decide();
        }
        assert!(next(&successor).unwrap().contains("text"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_session_may_close_reviews_of_the_lost_one() {
    let (_, sessions) = sessions();
    let (lost, stream) = open_here(&sessions).await;
    open_review(&sessions, &lost);
    let other = begin(&sessions, client(""));
    let (successor, successors_stream) = open_here(&sessions).await;
    let close = |session| sessions.close_review(session, "/a", true);
    assert!(close(&successor).is_none());
    drop((stream, successors_stream));
    assert!(close(&other).is_none());
    assert!(close(&successor).is_none()); // what it inherits without a stream would stay with it
    let _stream = sessions.open_stream(&successor, None);
    assert!(matches!(close(&successor), Some(LastText::Closed { by_proposer: false, .. })));
}

#[tokio::test(start_paused = true)]
async fn what_a_program_forwards_is_not_inherited_and_ends_though_it_lives() {
    let forwarder = OtherProcess::named("socat");
    let open = async |sessions| open_from(sessions, forwarder.process().id()).await;
    let (bridge, sessions) = sessions();
    let (one, stream) = open(&sessions).await;
    let review = open_review(&sessions, &one);
    drop(stream);
    let (other, _stream) = open(&sessions).await;
    assert!(sessions.close_review(&other, "/a", true).is_none());
    events(&bridge);
    advance(&sessions, IDLE_TIME).await;
    assert_eq!(events(&bridge), [Event::CloseReview { review, call: None }, Event::ClientsChanged]);
}

#[tokio::test(start_paused = true)]
async fn of_a_file_that_was_proposed_again_nothing_is_inherited() {
    let (bridge, sessions) = sessions();
    let (lost, stream) = open_here(&sessions).await;
    let decided = sessions.open_review(&lost, "/b".to_owned(), String::new(), 0).unwrap();
    assert!(sessions.decide(decided, Outcome::Rejected));
    let stale = open_review(&sessions, &lost);
    drop(stream);
    let (successor, stream) = open_here(&sessions).await;
    for path in ["/a", "/b"] {
        sessions.open_review(&successor, path.to_owned(), String::new(), 0).unwrap();
        sessions.close_review(&successor, path, true).unwrap();
    }
    events(&bridge);
    advance(&sessions, STREAM_GRACE).await;
    assert!(events(&bridge).contains(&Event::CloseReview { review: stale, call: None }));
    assert_eq!(received(&stream), 0);
}

#[tokio::test(start_paused = true)]
async fn on_stop_a_successor_receives_outcomes_of_the_lost_session() {
    let (_, sessions) = sessions();
    let (lost, stream) = open_here(&sessions).await;
    open_review(&sessions, &lost);
    drop(stream);
    let (_, successor) = open_here(&sessions).await;
    sessions.end_all();
    assert!(matches!(successor.poll_next(Waker::noop()), Poll::Ready(Some(_))));
    assert!(matches!(successor.poll_next(Waker::noop()), Poll::Ready(None)));
}

#[test]
fn a_review_opened_while_stopping_is_refused() {
    let (bridge, sessions) = sessions();
    let session = begin(&sessions, client(""));
    sessions.end_all();
    events(&bridge);
    let refused = sessions.open_review(&session, "/a".to_owned(), String::new(), 0).unwrap_err();
    assert_eq!(refused.to_string(), "the companion is stopping");
    assert_eq!(events(&bridge), []);
}

#[test]
fn a_process_that_only_began_the_session_is_not_its_client() {
    let (_, sessions) = sessions();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let session = begin_from(&sessions, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    drop(sessions.open_stream(&session, None));
    sessions.expire(Instant::now());
    assert!(sessions.enter(session.as_str(), &gemini()).is_some());
}

#[test]
fn a_process_that_ended_is_not_waited_for() {
    let (bridge, sessions) = sessions();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let session = begin_from(&sessions, child.id());
    drop(sessions.open_stream(&session, None));
    let review = open_review(&sessions, &session);
    events(&bridge);
    sessions.expire(Instant::now());
    assert_eq!(events(&bridge), []);
    child.kill().unwrap();
    child.wait().unwrap();
    sessions.expire(Instant::now());
    let closed = Event::CloseReview { review, call: None };
    assert_eq!(events(&bridge), [closed, Event::ClientsChanged]);
}

#[test]
fn sessions_are_described_and_can_be_disconnected() {
    let (bridge, sessions) = sessions();
    let origin = Origin::of(Process::with_id(std::process::id()));
    let first = sessions.open(client("cli"), Revision::NEWEST, origin).unwrap();
    let second = begin(&sessions, client(""));
    let stream = sessions.open_stream(&first, None);
    let (decided, open) = (
        sessions.open_review(&first, "/decided".to_owned(), String::new(), 0).unwrap(),
        open_review(&sessions, &first),
    );
    sessions.decide(decided, Outcome::Rejected);
    let [one, other] = &sessions.describe()[..] else { panic!("two sessions") };
    assert_eq!((one.client.as_str(), one.process), ("cli 1", Some(std::process::id())));
    assert_eq!((one.listens, &one.reviews[..], one.undelivered), (Some(true), &[open][..], 1));
    assert_eq!((other.listens, other.reviews.len(), other.undelivered), (None, 0, 0));
    drop(stream);
    assert_eq!(sessions.describe()[0].listens, Some(false));
    events(&bridge);
    assert!(sessions.disconnect(&one.key));
    let closed = Event::CloseReview { review: open, call: None };
    assert_eq!(events(&bridge), [closed, Event::ClientsChanged]);
    assert!(!sessions.disconnect(&one.key));
    assert!(sessions.enter(first.as_str(), &gemini()).is_none());
    assert!(sessions.enter(second.as_str(), &gemini()).is_some());
}

#[test]
fn undelivered_outcomes_survive_a_flood_of_sessions_of_another_agent() {
    let limits = Limits { sessions: 4, ..Limits::default() };
    let sessions = Arc::new(Sessions::new(Arc::new(Bridge::new(&Limits::default())), limits));
    let [waits, open] = [(); 2].map(|()| begin(&sessions, client("")));
    let decided = open_review(&sessions, &waits);
    sessions.decide(decided, Outcome::Rejected);
    open_review(&sessions, &open);
    let idle = begin(&sessions, client(""));
    let qwen = || Client { agent: agent("qwen").into(), ..client("") };
    let flood: Vec<_> = (0..5).map(|_| begin(&sessions, qwen())).collect();
    let described = sessions.describe();
    assert!(described.iter().any(|session| session.key == idle.key()));
    assert_eq!(described.len(), 4);
    // If none of the flood can be dropped, a session without undelivered outcomes is.
    open_review(&sessions, &flood[4]);
    begin(&sessions, qwen());
    let known = |id: &SessionId| sessions.enter(id.as_str(), &gemini()).is_some();
    assert_eq!([&waits, &open, &idle].map(known), [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn reviews_of_a_client_on_a_host_wait_while_the_way_there_is_interrupted() {
    let (bridge, sessions) = sessions();
    let host = Some(Arc::new(Host::new("/ssh:build:", &Limits::default())));
    let client = Client { agent: Agent { host, ..gemini() }.into(), ..client("") };
    let session = begin(&sessions, client);
    let stream = sessions.open_stream(&session, None).unwrap();
    let (decided, open) = (
        open_review(&sessions, &session),
        sessions.open_review(&session, "/b".to_owned(), String::new(), 0).unwrap(),
    );
    drop(stream);
    events(&bridge);
    advance(&sessions, HOST_TIME / 2).await;
    assert_eq!((sessions.count(), events(&bridge)), (0, vec![Event::ClientsChanged]));
    assert!(sessions.decide(decided, Outcome::Rejected));
    let stream = sessions.open_stream(&session, None).unwrap();
    assert_eq!(received(&stream), 1);
    drop(stream);
    advance(&sessions, HOST_TIME + STREAM_GRACE).await;
    assert!(events(&bridge).contains(&Event::CloseReview { review: open, call: None }));
    assert_eq!(sessions.describe(), []);
}

#[tokio::test(start_paused = true)]
async fn a_client_on_a_host_that_does_not_return_when_it_can_has_ended() {
    let (bridge, sessions) = sessions();
    let host = Arc::new(Host::new("/ssh:build:", &Limits::default()));
    let there = Agent { host: Some(host.clone()), ..gemini() };
    let client = Client { agent: there.into(), ..client("") };
    let session = begin(&sessions, client);
    drop(sessions.open_stream(&session, None).unwrap());
    let review = open_review(&sessions, &session);
    events(&bridge);
    let closed = Event::CloseReview { review, call: None };
    advance(&sessions, HOST_TIME / 2).await;
    host.set_reachable(true);
    advance(&sessions, REACHABLE_TIME / 2).await;
    host.set_reachable(false);
    advance(&sessions, REACHABLE_TIME).await;
    assert!(!events(&bridge).contains(&closed));
    host.set_reachable(true);
    advance(&sessions, REACHABLE_TIME).await;
    assert!(events(&bridge).contains(&closed));
    assert_eq!(sessions.describe(), []);
}
