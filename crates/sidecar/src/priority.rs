//! Work that nobody waits for stands behind work that somebody waits for.

/// How much less weight this thread has than one that answers requests: 10 is about a tenth.
#[cfg(target_os = "linux")]
const BEHIND: i32 = 10;

/// Lets this thread have a processor only when the threads that answer leave one, or a tenth of it. Where the system
/// does not allow that, nothing changes but how long requests may wait.
#[cfg(target_os = "linux")]
pub(crate) fn stand_behind() {
    // POSIX says that this is for the whole process; Linux has a value of its own for each thread (nice(2)).
    if let Err(error) = rustix::process::nice(BEHIND) {
        tracing::debug!(%error, "the thread that loads policies keeps its priority");
    }
}

/// Elsewhere a priority is one for the whole process: it stays as it is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn stand_behind() {}
