//! Sessions, without a server.

#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod succession;

use std::task::{Poll, Waker};

use super::*;
use crate::agent::Agent;
use crate::agent::tests::agent;
use crate::host::Host;
use crate::ide::{File, IdeContext, Outcome};
use crate::mcp::endings::LastText;
use crate::mcp::session::STREAM_GRACE;

/// As in the default limits.
const IDLE_TIME: Duration = Duration::from_secs(120);
const HOST_TIME: Duration = Duration::from_secs(3600);
const REACHABLE_TIME: Duration = Duration::from_secs(60);

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

fn begin_on_host(sessions: &Sessions) -> (Arc<Host>, SessionId) {
    let host = Arc::new(Host::new("/ssh:build:", &Limits::default()));
    let there = Agent { host: Some(host.clone()), ..gemini() };
    (host, begin(sessions, Client { agent: there.into(), ..client("") }))
}

fn open_review(sessions: &Sessions, session: &SessionId) -> ReviewId {
    open_review_of(sessions, session, "/a")
}

fn open_review_of(sessions: &Sessions, session: &SessionId, path: &str) -> ReviewId {
    sessions.open_review(session, path.to_owned(), String::new(), 0, None).unwrap();
    sessions.table().reviews.find(session, path).unwrap().id
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_stream_does_not_return_is_disconnected() {
    let (bridge, sessions) = sessions();
    let session = begin(&sessions, client(""));
    let stream = sessions.open_stream(&session, None);
    let review = open_review(&sessions, &session);
    let watched = sessions.clone();
    tokio::spawn(async move { watched.expire_forever().await });
    tokio::time::sleep(STREAM_GRACE).await; // nothing is due
    events(&bridge);
    drop(stream);
    tokio::time::sleep(STREAM_GRACE / 2).await;
    assert_eq!(events(&bridge), []);
    tokio::time::sleep(STREAM_GRACE).await;
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
    let asking = sessions.enter(session.as_str(), &gemini()).unwrap();
    sessions.active_file(&asking).await; // as a client of document 003
    drop(asking);
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
    let review = open_review(&sessions, &enter_unnamed(&sessions).session);
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
    let session = enter_unnamed(&sessions).session.clone();
    let review = open_review(&sessions, &session);
    advance(&sessions, 2 * IDLE_TIME).await;
    assert!(sessions.decide(review, Outcome::Rejected));
    advance(&sessions, IDLE_TIME / 2).await;
    let last_text = || sessions.close_review(&session, "/a", true);
    assert!(matches!(last_text(), Some(LastText::Rejected)));
    drop(enter_unnamed(&sessions)); // another request
    advance(&sessions, IDLE_TIME * 3 / 4).await;
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
    Some(next_numbered(stream)?.1)
}

fn next_numbered(stream: &StreamReader) -> Option<(u64, String)> {
    match stream.poll_next(Waker::noop()) {
        Poll::Ready(next) => next,
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cancelled_while_it_waits_for_its_turn_lets_none_go_first() {
    let (_, sessions) = sessions();
    let session = sessions.enter(begin(&sessions, client("")).as_str(), &gemini()).unwrap();
    let in_turn = || tokio::time::timeout(STREAM_GRACE, session.in_turn("/a"));
    let _first = in_turn().await.unwrap();
    assert!(in_turn().await.is_err() && in_turn().await.is_err()); // both are cancelled
}

#[tokio::test]
async fn nothing_is_left_of_the_name_of_a_file_after_its_requests() {
    let (_, sessions) = sessions();
    let id = begin(&sessions, client(""));
    let names = || sessions.table().sessions[&id].turns.len();
    let [one, other] = [(); 2].map(|()| sessions.enter(id.as_str(), &gemini()).unwrap());
    let turn = one.in_turn("/a").await;
    drop(other);
    assert_eq!(names(), 1);
    drop((turn, one));
    assert_eq!(names(), 0);
}

#[test]
fn a_review_opened_while_stopping_is_refused() {
    let (bridge, sessions) = sessions();
    let session = begin(&sessions, client(""));
    sessions.end_all();
    events(&bridge);
    let refused =
        sessions.open_review(&session, "/a".to_owned(), String::new(), 0, None).unwrap_err();
    assert_eq!(refused.to_string(), "the companion is stopping");
    assert_eq!(events(&bridge), []);
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
    let (_, session) = begin_on_host(&sessions);
    let stream = sessions.open_stream(&session, None).unwrap();
    let decided = open_review(&sessions, &session);
    let open = open_review_of(&sessions, &session, "/b");
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
    let (host, session) = begin_on_host(&sessions);
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
    assert_eq!(events(&bridge), [closed, Event::ClientsChanged]);
    assert_eq!(sessions.describe(), []);
}
