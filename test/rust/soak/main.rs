//! Many clients for a long time: streams that break, an Emacs that is busy, servers that restart.
//! Afterwards nothing is left over, and every outcome was received once. `make soak` runs it.
//!
//! Each client is a process of its own, this program run again: that is how the server tells them
//! from each other, and so all that is measured here is the server's. This process is the
//! companion and, on the test's thread, the stand-in for Lisp. Its clients
//! report over a pipe what they do and what happens to them, which it keeps a ledger of.

#[allow(dead_code, reason = "the other tests need more of it")]
#[path = "../support.rs"]
mod support;
#[allow(dead_code, reason = "the other tests need more of it")]
#[path = "../wire.rs"]
mod wire;

#[allow(dead_code, reason = "the other tests need more of it")]
#[path = "../agents.rs"]
mod agents;

mod client;
mod crowd;
mod emacs;
mod ledger;
mod life;
mod tally;
mod usage;
mod watch;

use std::time::{Duration, Instant};

use self::life::{Life, Quarter};
use self::tally::Tally;
use self::usage::Usage;
use self::watch::Watch;
use crate::support::raise_descriptors;

/// How much more memory may be in use in the end than before.
const GROWTH: usize = 1 << 20;
/// How much more at the last rest than at the one before it, with as many clients of the same
/// companion. What they hold differs: outcomes that they have not confirmed, what they left behind
/// in sessions before, and the buffers of connections, which grew with what came through them.
const VARIATION: usize = 16 << 20;
/// How much more may be resident: the allocator keeps some of what was in use in between.
const RESIDENT_GROWTH: usize = 32 << 20;

fn main() {
    if client::is_wanted() {
        return client::run();
    }
    let number = |name: &str, usual: u64| -> u64 {
        std::env::var(name).map_or(usual, |text| text.parse().expect(name))
    };
    let clients = number("SOAK_SESSIONS", 500) as usize;
    let (calls, seed) = (number("SOAK_CALLS", 20_000) as usize, number("SOAK_SEED", 1));
    let start = Instant::now();
    let watch = Watch::over(Duration::from_secs(number("SOAK_SECONDS", 240)));
    // Two connections of each client, the pipe to it, and as much again for what ends slowly.
    raise_descriptors(6 * clients as u64 + 1024);
    usage::keep_memory_together();

    let mut tally = Tally::default();
    // The first time, for what is there only from first use on is no leak.
    stop_in_use(2 * seed, &watch, &mut tally);
    let before = Usage::now();
    stop_in_use(2 * seed + 1, &watch, &mut tally);

    let mut life = Life::begin(clients, seed, &watch, &mut tally);
    let quarter =
        Quarter { calls: calls.div_ceil(4), restarts: 2, pauses: 6, ..Quarter::default() };
    for block in [None, Some(Duration::from_secs(10)), None, None] {
        life.work(Quarter { deaths: usize::from(block.is_some()), block, ..quarter });
        life.rest();
    }
    life.leave();
    let after = Usage::back_to(&before);

    println!("\nsoak, seed {seed}, {:.1} s", start.elapsed().as_secs_f32());
    tally.print(&before, &after);
    tally.check();
    assert!(tally.calls >= calls && tally.most_streams == clients);
    assert_eq!((after.threads, after.descriptors), (before.threads, before.descriptors));
    let [.., third, last] = tally.memory[..] else { panic!("no quarters") };
    for (before, after, growth) in [(before.memory, after.memory, GROWTH), (third, last, VARIATION)]
    {
        assert!(after.allocated <= before.allocated + growth, "{after} MiB after {before}");
        assert!(after.resident <= before.resident + RESIDENT_GROWTH, "{after} MiB after {before}");
    }
}

/// Stops a companion while all its clients work. They are few: it takes half a second at most, and
/// all of them must be notified of that.
fn stop_in_use(seed: u64, watch: &Watch, tally: &mut Tally) {
    let mut life = Life::begin(50, seed << 8, watch, tally);
    life.work(Quarter { calls: 200, restarts: 1, deaths: 1, ..Quarter::default() });
    life.stop();
}
