//! Golden cases: the expected decisions of a policy, in a `cases.yaml` beside it.

mod read;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use condition::Question;
use serde_json::{Map, Value};

use crate::hints::HINTS;
use document::{Place, Problem, Reader};

/// A request with its expected outcome.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name, for readers.
    pub name: String,
    /// The request to send.
    pub request: Request,
    /// The expected outcome.
    pub expect: Expect,
    /// Its place in the file.
    pub at: Place,
}

/// The request of a [`Case`].
#[derive(Clone, Debug)]
pub struct Request {
    /// The HTTP method; `GET` if not set.
    pub method: String,
    /// The HTTP path with its query, raw. Parameters under the key `query` of a case are encoded
    /// and already appended.
    pub path: String,
    /// The HTTP host; `localhost` if not set.
    pub host: String,
    /// The body; empty if not set. Only requests to a search cluster use it.
    pub body: String,
    /// Headers in addition to the header with the credentials.
    pub headers: Vec<(String, String)>,
    /// The address of the client; unknown if not set.
    pub client: String,
    /// The credentials of the request.
    pub credentials: Credentials,
    /// The names of the client's certificate, in the form in which a policy writes them. They count
    /// as verified. `None` without a certificate.
    pub certificate: Option<Vec<String>>,
    /// The AuthZEN question that this request stands for; `None` if it is a request through a
    /// proxy.
    pub question: Option<AskedQuestion>,
    /// The time of the request, since the Unix epoch; now if not set.
    pub at: Option<Duration>,
}

/// The parts of a question of AuthZEN that conditions read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AskedQuestion {
    /// `resource: {…}`: the properties of the resource.
    pub resource: Map<String, Value>,
    /// `action: {…}`: the properties of the action.
    pub action: Map<String, Value>,
    /// `context: {…}`
    pub context: Map<String, Value>,
}

impl AskedQuestion {
    /// The question in the form that conditions read.
    #[must_use]
    pub fn parts(&self) -> Question<'_> {
        Question::Asked {
            resource_properties: &self.resource,
            action_properties: &self.action,
            context: &self.context,
        }
    }
}

/// The credentials of a request.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// None (`headers` may still contain an `Authorization` header).
    None,
    /// `basic: "user:password"`, sent in an `Authorization` header (RFC 7617).
    Basic(String),
    /// `bearer: token`, sent in an `Authorization` header (RFC 6750).
    Bearer(String),
    /// `api_key: key`, sent in the header of the policy's `identity.api_keys`.
    ApiKey(String),
    /// `claims: {…}`: the claims of an already verified token, as JSON.
    Claims(String),
    /// `user: name`: an already verified caller.
    User {
        /// The user name, with the prefix of its source.
        name: String,
        /// `groups: […]`: groups in addition to the groups that the policy gives the user.
        groups: Vec<Arc<str>>,
    },
}

/// The expected outcome. Fields that are `None` or empty are not checked.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// The HTTP status; 200 for an allowed request.
    pub status: u16,
    /// The deciding rule, as `role: rule`.
    pub rule: Option<String>,
    /// The reason as in the decision log, such as `invalid_path`.
    pub reason: Option<String>,
    /// Headers: of the upstream request if the request is allowed, else of the response. An empty
    /// value means that the header must be absent.
    pub headers: Vec<(String, String)>,
    /// Dynamic metadata of an allowed request, as texts. If the value of a key is a mapping, each
    /// of its values has a key such as `limit.unit`. An empty value means that the key must be
    /// absent.
    pub metadata: Vec<(String, String)>,
}

/// Parses the text of a `cases.yaml`.
///
/// # Errors
/// All problems in it, not just the first.
pub fn parse(file: &Path, text: &[u8]) -> Result<Arc<[Case]>, Vec<Problem>> {
    let mut reader = Reader::with_hints(file.into(), HINTS);
    let cases = reader
        .parse_nonempty(text, "write a list of cases")
        .map(|root| read::read_cases(&mut reader, &root));
    let mut problems = reader.finish();
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    if problems.is_empty() { Ok(cases.unwrap_or_default().into()) } else { Err(problems) }
}

/// Parses a time (RFC 3339). The result is the time since the Unix epoch; `None` if the text is not
/// a time, or is a time before the epoch.
#[must_use]
pub fn parse_time(text: &str) -> Option<Duration> {
    let time = text.parse::<jiff::Timestamp>().ok()?;
    let seconds = u64::try_from(time.as_second()).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.subsec_nanosecond()).ok()?))
}
