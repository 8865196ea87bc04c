//! Lower priorities for threads whose work nobody waits for.
//!
//! `SCHED_IDLE` is not used, although it disturbs requests the least where there is room: a thread of that class gets nothing
//! at all on a processor that others keep busy. It then holds the locks of the kernel that it has (such as that of the
//! address space, which every thread needs to get memory), and it does not even end: processes took 7 s and more to exit, up
//! to 30 s where tests kept both processors busy (November 2026, see `benches/README.md`).

/// Niceness of the thread that keeps the policy current: a tenth of the weight of a request thread.
pub(crate) const POLICY: i32 = 10;
/// Niceness of the thread that compiles: a 68th of it, the lowest there is.
pub(crate) const BACKGROUND: i32 = 19;

/// Makes this thread nicer. Where the system does not allow that, nothing changes but how long requests may wait.
#[cfg(target_os = "linux")]
pub(crate) fn lower(niceness: i32) {
    // POSIX says that this is for the whole process; Linux has a value of its own for each thread (nice(2)).
    if let Err(error) = rustix::process::nice(niceness) {
        tracing::debug!(%error, "a background thread keeps its priority");
    }
}

/// Elsewhere a priority is one for the whole process: it stays as it is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lower(_: i32) {}

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
