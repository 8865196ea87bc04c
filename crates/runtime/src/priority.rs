//! Lowers the priority of background threads.
//!
//! `SCHED_IDLE` is not used, although it disturbs requests the least while processors have time left: a thread of
//! that class gets no time at all on a processor that others keep busy. It then keeps the kernel locks that it holds
//! (such as the lock of the address space, which every thread needs to get memory), and it does not even end:
//! processes took 7 s and more to exit, up to 30 s where tests kept both processors busy (November 2026, see
//! `benches/README.md`).

/// Niceness of the policy thread: a tenth of the scheduling weight of a worker thread.
pub const POLICY: i32 = 10;
/// Niceness of the threads that hash passwords: a third of the scheduling weight of a worker thread. A worker that wakes up
/// takes the processor from such a thread at once; from one of equal weight only when that has used up its time slice. Of the
/// turns of a thread that is busy for half of the time, beside one that always is, the slowest hundredth began 3.8 ms late at
/// equal weight, 0.12 ms at niceness 5, and 0.10 ms at 10 (Linux 6.18, November 2026). At 10, first sign-ins would get a tenth of
/// a processor that requests keep busy, and a slow hash then takes longer than clients wait.
pub const HASHING: i32 = 5;
/// Niceness of the background thread, which compiles: 1/68 of the weight of a worker thread, the lowest there is.
pub const BACKGROUND: i32 = 19;

/// Lowers the priority of the calling thread. If the system does not allow that, requests may have to wait longer;
/// nothing else changes.
#[cfg(target_os = "linux")]
pub fn lower(niceness: i32) {
    // In POSIX, niceness belongs to the process; in Linux, each thread has its own (nice(2)).
    if let Err(error) = rustix::process::nice(niceness) {
        tracing::debug!(%error, "a background thread keeps its priority");
    }
}

/// On other systems a priority applies to the whole process, so it is not changed.
#[cfg(not(target_os = "linux"))]
pub fn lower(_: i32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{BACKGROUND, lower};

    /// `nice(0)` returns the niceness of the calling thread.
    #[test]
    fn a_thread_lowers_its_own_priority_alone() {
        let before = rustix::process::nice(0).unwrap();
        let lowered = std::thread::spawn(|| {
            lower(BACKGROUND);
            rustix::process::nice(0).unwrap()
        });
        assert_eq!(lowered.join().unwrap(), 19);
        assert_eq!(rustix::process::nice(0).unwrap(), before);
    }
}
