//! What must hold of a policy: the golden cases beside it, in `cases.yaml`.

mod json;
mod read;
mod time;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::problem::{Place, Problem};
use crate::report::Report;
use crate::yaml;

/// One thing that must hold.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it says, for a reader.
    pub name: String,
    /// What is asked.
    pub request: Request,
    /// What must come.
    pub expect: Expect,
    /// Where it stands.
    pub at: Place,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The HTTP method; `GET` if not set.
    pub method: String,
    /// The HTTP path with its query, raw.
    pub path: String,
    /// The HTTP host; `localhost` if not set.
    pub host: String,
    /// Header lines beside those that the proof makes.
    pub headers: Vec<(String, String)>,
    /// What proves who asks.
    pub proof: Proof,
    /// The clock, as time since the Unix epoch; now if not set.
    pub at: Option<Duration>,
}

/// What proves who asks.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Nothing (`headers` may still carry an `Authorization` of its own).
    None,
    /// `basic: "user:password"`, put into an `Authorization` header as RFC 7617 says.
    Basic(String),
    /// `bearer: token`, put into an `Authorization` header as RFC 6750 says.
    Bearer(String),
    /// `claims: {…}`: a token that has already been verified, as JSON text.
    Claims(String),
}

/// What must come. What is `None` or empty is not looked at.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The HTTP status; an allowed request is 200.
    pub status: u16,
    /// The rule that decided, as `role: rule`.
    pub rule: Option<String>,
    /// The reason, as in logs, such as `invalid_path`.
    pub reason: Option<String>,
    /// Headers: of the request as the upstream gets it where it is allowed, else of the answer. An empty value says that
    /// the header must not be there.
    pub headers: Vec<(String, String)>,
}

/// Reads the text of a `cases.yaml`.
///
/// # Errors
/// Every problem in it, not the first.
pub fn parse(file: &Path, text: &[u8]) -> Result<Arc<[Case]>, Vec<Problem>> {
    let mut report = Report::new(file.into());
    let cases = yaml::parse(text, &mut report).map(|root| read::cases(&mut report, &root));
    let mut problems = report.finish();
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    if problems.is_empty() { Ok(cases.unwrap_or_default().into()) } else { Err(problems) }
}
