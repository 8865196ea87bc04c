//! One request in, one verdict out: read, identify, decide, answer. No I/O, no async, no Envoy type.

use identity::{FetchedKeys, PasswordCheck, PasswordChecked, Refusal, Subject, Time};
use policy::problem::Problem;

/// A request, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, byte for byte.
    pub method: &'a [u8],
    /// The host, with its port and in its own case.
    pub host: &'a [u8],
    /// The path with its query, raw.
    pub path: &'a [u8],
    /// The header lines, duplicates and all. Names in any case; pseudo-headers may be among them and count for nothing.
    pub headers: &'a [Header<'a>],
    /// What the proxy calls the request, for the body of a refusal; may be empty.
    pub id: &'a [u8],
}

/// A header line.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A compiled policy with its keys and caches: a snapshot. It never changes.
#[derive(Debug)]
pub struct Authorizer {}

/// Buffers that one thread uses again for each request, so that a known caller's request allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {}

/// What came of a request.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// It is decided.
    Decided(Verdict<'a>),
    /// A password must be hashed first: run it off the request threads, then call [`Authorizer::resume`].
    Pending(PasswordCheck),
}

/// The answer to a request.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// It may go on, changed like this.
    Allowed(Allowed<'a>),
    /// It may not.
    Refused(Refused<'a>),
}

/// How an allowed request is changed before it goes on.
#[derive(Debug)]
pub struct Allowed<'a> {
    /// Headers to overwrite: names in lower case, values without control characters.
    pub set: &'a [(Box<str>, String)],
    /// Headers to remove.
    pub remove: &'a [&'a str],
    /// The rule that allowed it, as `role: rule`.
    pub rule: &'a str,
    /// Who asked; `None` is an anonymous caller.
    pub user: Option<&'a str>,
}

/// How a refused request is answered.
#[derive(Debug)]
pub struct Refused<'a> {
    /// Why.
    pub reason: Reason,
    /// Headers of the answer: `www-authenticate` (one a method), `content-type`.
    pub headers: &'a [(Box<str>, String)],
    /// The body of the answer.
    pub body: &'a str,
    /// The `deny` rule that decided, as `role: rule`, if one did.
    pub rule: Option<&'a str>,
    /// Who asked, where that is known.
    pub user: Option<&'a str>,
}

/// Why a request is refused. A closed list: the name and the status of each are for logs, metrics and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The request cannot be judged: 400.
    InvalidPath(policy::canonical::PathError),
    /// More than one `Authorization`: 400.
    DuplicateAuthorization,
    /// No proof, where `anyone` does not suffice: 401.
    NoProof,
    /// A proof that does not verify: 401.
    BadProof(Refusal),
    /// Nothing allows it: 403.
    NotAllowed,
    /// A `deny` rule says no: 403.
    Denied,
}

impl Authorizer {
    /// Compiles a loaded policy.
    ///
    /// # Errors
    /// Every problem of its keys and hashes.
    pub fn compile(
        loaded: &policy::Loaded,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let _ = (loaded, fetched, previous);
        todo!()
    }

    /// Judges a request.
    pub fn check<'a>(&'a self, request: &Request<'a>, scratch: &'a mut Scratch, now: Time) -> Outcome<'a> {
        let _ = (request, scratch, now);
        todo!()
    }

    /// Judges a request whose password has been hashed.
    pub fn resume<'a>(
        &'a self,
        request: &Request<'a>,
        checked: PasswordChecked,
        scratch: &'a mut Scratch,
        now: Time,
    ) -> Verdict<'a> {
        let _ = (request, checked, scratch, now);
        todo!()
    }

    /// Judges a request by a caller that is taken as verified; `None` is an anonymous one.
    pub fn check_as<'a>(
        &'a self,
        request: &Request<'a>,
        subject: Option<Subject>,
        scratch: &'a mut Scratch,
    ) -> Verdict<'a> {
        let _ = (request, subject, scratch);
        todo!()
    }
}
