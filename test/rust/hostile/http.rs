//! Requests that are invalid as HTTP, from clients with the right token, a wrong one, or none.

mod requests;

use std::sync::Mutex;
use std::time::Duration;

use gemini_companion::Event;
use rand::RngExt;
use rand::rngs::SmallRng;

use self::requests::{FORBIDDEN, generate};
use super::{Check, Counts, check_event, check_reply, ensure, excerpt, label, ping};
use crate::support::{DEADLINE, TestCompanion};
use crate::wire::{Next, Reply, Wire};

/// How long to wait for a reply to a request that may be incomplete.
const QUIET: Duration = Duration::from_millis(60);

struct Case {
    kind: &'static str,
    bytes: Vec<u8>,
    pace: Pace,
    /// How many replies must come, for a complete request.
    replies: usize,
    /// Their possible statuses; any if this is empty.
    expected: &'static [u16],
    bodiless: bool,
    authorised: bool,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    AtOnce,
    ByteByByte,
    InPieces,
    /// Hangs up at once, without reading a reply.
    HangUp,
}

impl Case {
    /// A case that may get any reply, or none.
    fn loose(kind: &'static str, authorised: bool, bytes: Vec<u8>) -> Case {
        let expected: &[u16] = &[];
        Case { kind, bytes, pace: Pace::AtOnce, replies: 0, expected, bodiless: false, authorised }
    }

    /// A case that must get a reply with one of the `expected` statuses.
    fn strict(
        kind: &'static str,
        authorised: bool,
        bytes: Vec<u8>,
        expected: &'static [u16],
    ) -> Case {
        Case { replies: 1, expected, ..Case::loose(kind, authorised, bytes) }
    }
}

#[test]
fn no_http_request_harms_the_server() {
    let server = TestCompanion::start();
    let healthy = server.open_session();
    let _stream = healthy.open_stream();
    let target = Target { server: &server, session: Mutex::default() };
    super::run_cases("HTTP", 1500, 1_000_000, |_, random, counts| {
        let case = generate(&server, &target.session(), random);
        let outcome = run(&server, &case, random, counts).and_then(|()| {
            while let Some(event) = server.companion.bridge().next_event() {
                check_event(&event)?;
                let forbidden =
                    matches!(&event, Event::OpenReview { path, .. } if path == FORBIDDEN);
                ensure(!forbidden, || "somebody without the token proposed a change".to_owned())?;
            }
            ping(&server, &healthy.id)
        });
        if case.bytes.starts_with(b"DELETE") {
            *target.session.lock().unwrap() = None;
        }
        let Case { kind, pace, bytes, .. } = &case;
        outcome.map_err(|reason| format!("{kind}, {pace:?}: {reason}\nafter {}", excerpt(bytes)))
    });
}

/// The session that requests name; a new one after a DELETE.
struct Target<'a> {
    server: &'a TestCompanion,
    session: Mutex<Option<String>>,
}

impl Target<'_> {
    fn session(&self) -> String {
        let mut session = self.session.lock().unwrap();
        session.get_or_insert_with(|| self.server.open_session().id).clone()
    }
}

fn run(server: &TestCompanion, case: &Case, random: &mut SmallRng, counts: &Counts) -> Check {
    let replies = exchange(server, case, random)?;
    for reply in &replies {
        check_reply(server, reply, case.authorised, case.bodiless)?;
        let expected = case.expected.is_empty() || case.expected.contains(&reply.status);
        ensure(expected, || format!("{} instead of {:?}", reply.status, case.expected))?;
        counts.add(case.kind, label(reply));
    }
    if replies.is_empty() {
        counts.add(case.kind, "closed");
    }
    Ok(())
}

/// Sends a request and reads replies until the server closes the connection, which it must.
fn exchange(server: &TestCompanion, case: &Case, random: &mut SmallRng) -> Check<Vec<Reply>> {
    let mut wire = Wire::connect(server.companion.port()).map_err(|error| error.to_string())?;
    // An error is fine: the server may have refused the request before it has read everything.
    let _ = match case.pace {
        Pace::AtOnce => wire.send(&case.bytes),
        Pace::ByteByByte => case.bytes.iter().try_for_each(|byte| wire.send(&[*byte])),
        Pace::InPieces => {
            let size = case.bytes.len() / 5 + 1;
            case.bytes.chunks(size).try_for_each(|piece| {
                std::thread::sleep(Duration::from_millis(random.random_range(0..4)));
                wire.send(piece)
            })
        }
        Pace::HangUp => {
            let _ = wire.send(&case.bytes);
            return Ok(Vec::new());
        }
    };
    let (mut replies, mut finished) = (Vec::new(), false);
    loop {
        let missing = replies.len() < case.replies;
        if !missing && case.replies > 0 && !finished {
            wire.finish();
            finished = true;
        }
        let patience = if missing || finished { DEADLINE } else { QUIET };
        match wire.reply(patience, case.bodiless) {
            Next::Got(reply) => {
                replies.push(reply);
                if replies.last().is_some_and(Reply::is_stream) {
                    return Ok(replies);
                }
                ensure(replies.len() < 50, || "replies without end".to_owned())?;
            }
            Next::End | Next::Cut if missing => {
                return Err(format!("closed after {} of {} replies", replies.len(), case.replies));
            }
            Next::End | Next::Cut => return Ok(replies),
            Next::Silent if missing || finished => return Err("a hang".to_owned()),
            Next::Silent => {
                wire.finish();
                finished = true;
            }
        }
    }
}
