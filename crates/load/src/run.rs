//! One run: threads that send what the plan says and write down what comes back.

use crate::measured::Measured;
use crate::plan::{Failed, Plan};

/// Does what the plan says.
///
/// # Errors
/// When the plan cannot be followed, or the server cannot be reached at all.
pub fn run(plan: &Plan) -> Result<Measured, Failed> {
    Err(Failed::Unreachable { target: plan.target.shown.clone(), reason: "not yet".to_owned() })
}
