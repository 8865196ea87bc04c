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

/// Lets this thread have a processor only when no other wants it (`SCHED_IDLE`, sched(7)): whoever wakes takes it at
/// once, where a thread with little weight would keep it until the next tick of the clock, milliseconds later.
///
/// There is no way back, so what must be done at all costs is not done by this thread alone.
#[cfg(target_os = "linux")]
pub(crate) fn stand_aside() {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    };
    use thread_priority::{ThreadPriority, ThreadSchedulePolicy};

    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
        tracing::debug!(?error, "the thread that stands aside only stands behind");
        stand_behind();
    }
}

/// Elsewhere a priority is one for the whole process: it stays as it is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn stand_behind() {}

/// As [`stand_behind`].
#[cfg(not(target_os = "linux"))]
pub(crate) fn stand_aside() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use thread_priority::ThreadSchedulePolicy;
    use thread_priority::unix::{NormalThreadSchedulePolicy, thread_schedule_policy};

    use super::stand_aside;

    /// No privilege is needed for it.
    #[test]
    fn a_thread_stands_aside_alone() {
        let before = thread_schedule_policy().unwrap();
        let policy = std::thread::spawn(|| {
            stand_aside();
            thread_schedule_policy().unwrap()
        });
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert_eq!(policy.join().unwrap(), idle);
        assert_eq!(thread_schedule_policy().unwrap(), before);
        assert_ne!(before, idle);
    }
}
