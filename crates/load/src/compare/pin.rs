//! Which process runs on which cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of each part. They are the same for every scenario, so that ratios are comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// For Envoy and the authorization server: the budget of a pod.
    pub pod: Option<Vec<usize>>,
    /// For the application and the generator.
    pub outside: Option<Vec<usize>>,
}

/// How the cores are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Pin {
    /// Envoy and the server that it asks on one core, application and generator on others; with four cores or more each
    /// of these two has one of its own.
    #[default]
    Cores,
    /// As the kernel likes.
    None,
}

impl Pins {
    /// The assignment for this machine.
    #[must_use]
    pub fn new(pin: Pin) -> Self {
        Self::of(pin, &available())
    }

    /// The assignment for a machine with these cores.
    #[must_use]
    pub fn of(pin: Pin, cores: &[usize]) -> Self {
        let pod = if cores.len() >= 4 { 2 } else { 1 };
        if pin == Pin::None || cores.len() < 2 {
            return Self { pod: None, outside: None };
        }
        let (pod, outside) = cores.split_at(pod);
        Self { pod: Some(pod.to_vec()), outside: Some(outside.to_vec()) }
    }

    /// A description for the report.
    #[must_use]
    pub fn words(&self) -> String {
        let list = |of: &[usize]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match (&self.pod, &self.outside) {
            (Some(pod), Some(outside)) => format!(
                "Envoy and the server that it asks share core {}; application and generator share core {}",
                list(pod),
                list(outside)
            ),
            _ => "not pinned: the kernel places every process".to_owned(),
        }
    }
}

/// The cores that this process may use.
#[must_use]
pub fn available() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|it| set.is_set(*it)).collect()
}

/// Runs `what` while this thread is bound to these cores. A process that it starts inherits them from its first
/// instruction on.
pub fn on<T>(cores: Option<&[usize]>, what: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None).ok();
    if let Some(cores) = cores {
        bind(cores);
    }
    let done = what();
    if let Some(before) = before {
        // The previous cores were permitted before, so this does not fail.
        let _ = sched_setaffinity(None, &before);
    }
    done
}

fn bind(cores: &[usize]) {
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|it| **it < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    // If the system does not permit it, the kernel places the process. Ratios stay comparable.
    let _ = sched_setaffinity(None, &set);
}
