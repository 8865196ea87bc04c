//! The exit codes of the process.

use std::process::ExitCode;

/// The exit codes of `rolegate`; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success; for `explain`: the request is allowed; for `who-can`: somebody may make it; for
    /// `what-can`: the caller may do something; for `diff`: there is no difference; for
    /// `replay`: no answer would change; for `import`: a policy is printed; for
    /// `lint-envoy`: nothing is unsafe, broken or slow.
    Success = 0,
    /// `explain`: the request is denied. `who-can`: nobody may make it. `what-can`: no rule allows
    /// anything. `health`: the server is not ready. `diff`: there is a difference. `replay`: an answer
    /// would change. `import`: something cannot be expressed. `bundle verify`: no given key has signed the bundle.
    /// `lint-envoy`: something is unsafe, broken or slow.
    Denied = 1,
    /// The arguments or the settings are not valid.
    Arguments = 2,
    /// The policy, a bundle, the cases beside the policy, or a configuration of Envoy, cannot be read or do not compile.
    Policy = 3,
    /// `test`: a case failed.
    Case = 4,
    /// The process could not do its work, for example because a port is in use.
    Failed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // The enum has no fields and is `repr(u8)`: the cast gives its value.
        Self::from(exit as u8)
    }
}
