//! What this process uses of the resources that may leak.

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
    /// The part of it that is in use; 0 where the allocator does not say. It must keep more, since
    /// what is in use is scattered.
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

    /// Waits until usage is no higher than `before`, since the last threads may take a moment to
    /// end.
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

/// Has all memory come from one arena. Otherwise each of up to eight per core would keep the most
/// that it ever had in use.
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
