//! Sessions of which the process of the client is known: who inherits from whom.

use super::handover::TICK;
use super::*;
use crate::ide::Decision;
use crate::mcp::message::notification_json;
use crate::process::Sleeper;

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

#[test]
fn the_next_session_of_a_living_process_inherits() {
    let (bridge, sessions) = sessions();
    let open = || begin_from(&sessions, std::process::id());
    let old = open();
    drop(sessions.open_stream(&old, None));
    let decided = open_review_of(&sessions, &old, "/decided");
    let open_one = open_review(&sessions, &old);
    events(&bridge);
    let late = Instant::now() + 2 * IDLE_TIME;
    assert!(sessions.expire(late) > Some(late)); // not at once
    assert_eq!(events(&bridge), [Event::ClientsChanged]);
    assert!(sessions.decide(decided, Outcome::Rejected));
    // A session that never opens its stream is given nothing, though it is the newest.
    let (other, successor, _silent) = (begin(&sessions, client("")), open(), open());
    sessions.expire(Instant::now() + STREAM_GRACE);
    assert!(sessions.decide(open_one, Outcome::Rejected));
    let received = |session| {
        let reader = sessions.open_stream(session, None).unwrap();
        sessions.expire(Instant::now() + STREAM_GRACE);
        std::iter::from_fn(|| next(&reader)).collect::<Vec<_>>()
    };
    let rejected = |path| {
        let decision = Decision { file_path: path, content: None, meta: None };
        notification_json("ide/diffRejected", &decision)
    };
    assert_eq!(received(&successor), [rejected("/decided"), rejected("/a")]);
    assert_eq!(received(&other), [""; 0]);
    assert_eq!(received(&old), [""; 0]);
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
        let outcome = Outcome::Accepted { content: "text".to_owned().into(), may_omit: true };
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
    let decided = open_review_of(&sessions, &lost, "/b");
    let other = begin(&sessions, client(""));
    let (successor, successors_stream) = open_here(&sessions).await;
    let close = |session| sessions.close_review(session, "/a", true);
    assert!(close(&successor).is_none());
    drop((stream, successors_stream));
    assert!(close(&other).is_none());
    assert!(close(&successor).is_none()); // what it inherits without a stream would stay with it
    let _stream = sessions.open_stream(&successor, None);
    assert!(sessions.decide(decided, Outcome::accepted("edited".to_owned())));
    let last = sessions.close_review(&successor, "/b", true);
    assert!(matches!(last, Some(LastText::Accepted(Some(text))) if *text == "edited"));
    assert!(matches!(close(&successor), Some(LastText::Closed { by_proposer: false, .. })));
}

#[tokio::test(start_paused = true)]
async fn what_a_program_forwards_is_not_inherited_and_ends_though_it_lives() {
    let forwarder = Sleeper::named("socat");
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
    let decided = open_review_of(&sessions, &lost, "/b");
    assert!(sessions.decide(decided, Outcome::Rejected));
    let stale = open_review(&sessions, &lost);
    drop(stream);
    let (successor, stream) = open_here(&sessions).await;
    for path in ["/a", "/b"] {
        open_review_of(&sessions, &successor, path);
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
fn a_process_that_only_began_the_session_is_not_its_client() {
    let (_, sessions) = sessions();
    let process = Sleeper::named("sleep");
    let session = begin_from(&sessions, process.process().id());
    drop(process);
    drop(sessions.open_stream(&session, None));
    sessions.expire(Instant::now());
    assert!(sessions.enter(session.as_str(), &gemini()).is_some());
}

#[test]
fn a_process_that_ended_is_not_waited_for() {
    let (bridge, sessions) = sessions();
    let process = Sleeper::named("sleep");
    let session = begin_from(&sessions, process.process().id());
    drop(sessions.open_stream(&session, None));
    let review = open_review(&sessions, &session);
    events(&bridge);
    sessions.expire(Instant::now());
    assert_eq!(events(&bridge), []);
    drop(process);
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
    let decided = open_review_of(&sessions, &first, "/decided");
    let open = open_review(&sessions, &first);
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
