//! What Envoy's log says of a policy that cannot start.

use std::io;

/// The message about a thread or the like that the system does not give.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
pub(crate) fn cannot_start(error: io::Error) -> String {
    format!("rolegate cannot start: {}", runtime::start_error(&error, "`hash-threads`"))
}
