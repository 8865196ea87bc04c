//! Which process runs on which cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of each part. They are the same for every scenario, so that ratios are comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pins {
    /// For the authorization service: one core.
    pub(crate) server: Option<Vec<usize>>,
    /// For Envoy: one core.
    pub(crate) envoy: Option<Vec<usize>>,
    /// For the application and the generator.
    pub(crate) outside: Option<Vec<usize>>,
}

impl Pins {
    /// The assignment for this machine: Envoy and the authorization service share one core, or have
    /// one each if there are at least four; application and load generator use the others.
    pub(crate) fn new() -> Self {
        Self::of(&available())
    }

    fn of(cores: &[usize]) -> Self {
        let (server, envoy, outside) = match cores {
            [server, envoy, outside @ ..] if outside.len() >= 2 => (server, envoy, outside),
            [both, outside @ ..] if !outside.is_empty() => (both, both, outside),
            _ => return Self { server: None, envoy: None, outside: None },
        };
        Self {
            server: Some(vec![*server]),
            envoy: Some(vec![*envoy]),
            outside: Some(outside.to_vec()),
        }
    }

    /// A description for the report.
    pub(crate) fn words(&self) -> String {
        let list = |of: &[usize]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (Some(server), Some(envoy), Some(outside)) = (&self.server, &self.envoy, &self.outside)
        else {
            return "Not pinned: the kernel places every process".to_owned();
        };
        let pod = if server == envoy {
            format!("Envoy and the server that it asks share core {}", list(server))
        } else {
            format!(
                "The server that Envoy asks has core {}, Envoy core {}",
                list(server),
                list(envoy)
            )
        };
        format!("{pod}; application and generator share core {}", list(outside))
    }
}

/// The cores that this process may use.
pub(crate) fn available() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Runs `what` while this thread is bound to these cores. A process that it starts inherits them
/// from its first instruction on.
pub(crate) fn on<T>(cores: Option<&[usize]>, what: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None).ok();
    if let Some(cores) = cores {
        let mut set = CpuSet::new();
        cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
        // If the system does not permit it, the kernel places the process. Ratios stay comparable.
        let _ = sched_setaffinity(None, &set);
    }
    let done = what();
    if let Some(before) = before {
        // The previous cores were permitted before, so this does not fail.
        let _ = sched_setaffinity(None, &before);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_out_alike() {
        let nothing = Pins { server: None, envoy: None, outside: None };
        assert_eq!(Pins::of(&[3]), nothing);
        let pins = |server, envoy, outside: &[usize]| Pins {
            server: Some(vec![server]),
            envoy: Some(vec![envoy]),
            outside: Some(outside.to_vec()),
        };
        assert_eq!(Pins::of(&[0, 1]), pins(0, 0, &[1]));
        assert_eq!(Pins::of(&[0, 1, 2]), pins(0, 0, &[1, 2]));
        assert_eq!(Pins::of(&[0, 1, 2, 3]), pins(0, 1, &[2, 3]));
    }
}
