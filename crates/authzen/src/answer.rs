//! Answers a request, whichever its endpoint.

use serde_json::json;

use crate::decide::Decider;
use crate::message::{Batch, Endpoint, Evaluation, Malformed, Search};
use crate::search;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(pub String);

/// Answers the body of a request.
///
/// # Errors
/// If it is malformed as a whole: no decision was made.
pub fn answer(
    endpoint: Endpoint,
    body: &[u8],
    decider: &mut Decider<'_>,
) -> Result<Answer, Malformed> {
    let answer = match endpoint {
        Endpoint::Evaluation => decider.answer_single(&Evaluation::parse(body)?)?,
        Endpoint::Evaluations => match Batch::parse(body)? {
            Ok(batch) => json!({ "evaluations": decider.decide_all(&batch) }),
            Err(single) => decider.answer_single(&single)?,
        },
        Endpoint::Search(sought) => search::answer(&Search::parse(sought, body)?, decider)?,
    };
    Ok(Answer(answer.to_string()))
}
