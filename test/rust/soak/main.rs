//! Many clients for a long time: streams that break, an Emacs that is busy, servers that restart.
//! In the end nothing is left over, and every outcome has been received once. `make soak` runs it.
//!
//! Each client is a process of its own, which runs this program again: the server distinguishes
//! clients by their process, and all that is measured here is the server's. This process runs the
//! companion and, on the main thread, the stand-in for Lisp. The clients report over a pipe what they
//! do and what happens to them, and this process keeps a record of it.

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
mod clients;
mod emacs;
mod records;
mod run;
mod statistics;
mod usage;
mod watchdog;

use std::time::{Duration, Instant};

use self::run::{Phase, Run};
use self::statistics::Statistics;
use self::usage::Usage;
use self::watchdog::Watchdog;

/// By how much the memory in use may have grown in the end.
const GROWTH: usize = 1 << 20;
/// By how much it may differ between the last two rests, with the same number of clients. What
/// these hold differs: outcomes that they have not confirmed, sessions that they have abandoned,
/// and the buffers of connections, which grow with what passes through them.
const VARIATION: usize = 16 << 20;
/// By how much resident memory may have grown: the allocator keeps some of what was in use.
const RESIDENT_GROWTH: usize = 32 << 20;

fn main() {
    if client::is_client() {
        return client::run();
    }
    let number = |name: &str, usual: u64| -> u64 {
        std::env::var(name).map_or(usual, |text| text.parse().expect(name))
    };
    let clients = number("SOAK_SESSIONS", 64) as usize;
    let (calls, seed) = (number("SOAK_CALLS", 6000) as usize, number("SOAK_SEED", 1));
    let start = Instant::now();
    let watchdog = Watchdog::over(Duration::from_secs(number("SOAK_SECONDS", 240)));
    usage::keep_memory_together();

    let mut statistics = Statistics::default();
    // Once before anything is measured, since what is allocated at first use is not a leak.
    stop_in_use(2 * seed, &watchdog, &mut statistics);
    let before = Usage::now();
    stop_in_use(2 * seed + 1, &watchdog, &mut statistics);

    let mut run = Run::begin(clients, seed, &watchdog, &mut statistics);
    let phase = Phase { calls: calls.div_ceil(4), restarts: 2, pauses: 6, ..Phase::default() };
    for block in [None, Some(Duration::from_secs(10)), None, None] {
        run.work(Phase { deaths: usize::from(block.is_some()), block, ..phase });
        run.rest();
    }
    run.leave();
    let after = Usage::back_to(&before);

    println!("\nsoak, seed {seed}, {:.1} s", start.elapsed().as_secs_f32());
    statistics.print(&before, &after);
    statistics.check();
    assert!(statistics.calls >= calls && statistics.most_streams == clients);
    assert_eq!((after.threads, after.descriptors), (before.threads, before.descriptors));
    let [.., third, last] = statistics.memory[..] else { panic!("no phases") };
    for (before, after, growth) in [(before.memory, after.memory, GROWTH), (third, last, VARIATION)]
    {
        assert!(after.allocated <= before.allocated + growth, "{after} MiB after {before}");
        assert!(after.resident <= before.resident + RESIDENT_GROWTH, "{after} MiB after {before}");
    }
}

/// Stops a companion while all its clients work. They are few, since stopping takes half a second
/// at most, and all of them must be notified in that time.
fn stop_in_use(seed: u64, watchdog: &Watchdog, statistics: &mut Statistics) {
    let mut run = Run::begin(50, seed << 8, watchdog, statistics);
    run.work(Phase { calls: 200, restarts: 1, deaths: 1, ..Phase::default() });
    run.stop();
}
