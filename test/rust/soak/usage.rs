//! What this process has of what may leak.

use std::fmt;
use std::time::{Duration, Instant};

use crate::support::DEADLINE;

#[derive(Debug)]
pub struct Usage {
    pub threads: usize,
    pub descriptors: usize,
    pub memory: Memory,
}

/// In bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub resident: usize,
    /// What is in use of it; 0 where the allocator does not say. It has to keep more, for what is
    /// in use lies scattered.
    pub allocated: usize,
}

impl Usage {
    pub fn now() -> Usage {
        let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        Usage {
            threads: entries("/proc/self/task"),
            descriptors: entries("/proc/self/fd"),
            memory: Memory::now(),
        }
    }

    /// Waits until there is no more than `before`. The last of what ends may take a moment.
    pub fn back_to(before: &Usage) -> Usage {
        let start = Instant::now();
        loop {
            let now = Usage::now();
            let is_back = now.threads <= before.threads && now.descriptors <= before.descriptors;
            if is_back || start.elapsed() > DEADLINE {
                return now;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Memory {
    pub fn now() -> Memory {
        // First, as it gives back what it can.
        let allocated = allocated();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: usize = resident.trim().trim_end_matches(" kB").parse().unwrap();
        Memory { resident: kilobytes << 10, allocated }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let megabytes = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        write!(f, "{:.1} ({:.1})", megabytes(self.resident), megabytes(self.allocated))
    }
}

/// Has memory come from one place. Else each of up to eight for each core would keep of it what it
/// had in use at the most.
#[cfg(target_env = "gnu")]
pub fn keep_memory_together() {
    // Safety: it is safe to call from any thread.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

#[cfg(not(target_env = "gnu"))]
pub fn keep_memory_together() {}

#[cfg(target_env = "gnu")]
fn allocated() -> usize {
    // Safety: both are safe to call from any thread.
    unsafe {
        libc::malloc_trim(0);
        let info = libc::mallinfo2();
        info.uordblks + info.hblkhd
    }
}

#[cfg(not(target_env = "gnu"))]
fn allocated() -> usize {
    0
}
