//! The variables of conditions.

use std::net::IpAddr;

use condition::{CallerClaims, CallerInputs, Constant, Fault, Headers, Question, RequestInputs};
use identity::{Certificate, MalformedCertificate, Subject, UnixTime};
use policy::model::SourceId;

use crate::request::{Header, Request};

/// The header lines of a request, as conditions see them.
#[derive(Clone, Copy, Debug)]
pub struct HeaderLines<'a>(pub &'a [Header<'a>]);

impl Headers for HeaderLines<'_> {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        let mut lines = self.0.iter().filter(|header| {
            header.name == name.as_bytes() || header.name.eq_ignore_ascii_case(name.as_bytes())
        });
        match (lines.next(), lines.next()) {
            (Some(line), None) => Ok(line.value),
            (Some(_), Some(_)) => Err(Fault::Repeated),
            (None, _) => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// The names of a client's certificate, as conditions read them.
///
/// # Errors
/// If there is no certificate, or it cannot be read.
pub fn certificate_names(certificate: Option<Certificate<'_>>) -> Result<Vec<Constant>, Fault> {
    let names = certificate.ok_or(Fault::Absent)?.names();
    let names = names.map_err(|MalformedCertificate| Fault::Malformed)?;
    Ok(names.iter().map(|name| Constant::Text((&**name).into())).collect())
}

/// The variables of a request, except its method, host and path. `names` are those of its
/// certificate.
#[must_use]
pub fn request_inputs<'a>(
    request: &Request<'a>,
    headers: &'a HeaderLines<'a>,
    names: &'a Result<Vec<Constant>, Fault>,
    now: UnixTime,
) -> RequestInputs<'a> {
    let query = request.path.iter().position(|byte| *byte == b'?');
    let query = query.and_then(|question_mark| request.path.get(question_mark + 1..));
    let client = std::str::from_utf8(request.client).ok();
    let seconds = i64::try_from(now.as_secs()).ok();
    RequestInputs {
        query: Some(query.unwrap_or_default()),
        headers: Some(headers),
        time: seconds.and_then(|seconds| condition::time(seconds, now.subsec_nanos())),
        client: client.and_then(|client| client.parse::<IpAddr>().ok()),
        certificate: Some(names.as_deref().map_err(|fault| *fault)),
        question: Some(request.question.unwrap_or(&Question::None)),
        ..RequestInputs::default()
    }
}

/// The variables of a caller, except its roles. `subject` is `None` for an anonymous caller.
#[must_use]
pub fn caller_inputs(subject: Option<&Subject>) -> CallerInputs<'_> {
    let Some(subject) = subject else { return CallerInputs::default() };
    let scheme = subject.source.map(|source| match source {
        SourceId::BASIC => "basic",
        SourceId::API_KEYS => "api_key",
        SourceId::CERTIFICATES => "certificate",
        _ => "bearer",
    });
    CallerInputs {
        user: Some(&subject.user),
        roles: Vec::new(),
        groups: subject.groups.iter().map(|group| &**group).collect(),
        issuer: subject.issuer.as_deref(),
        scheme,
        claims: match subject.claims.as_object() {
            Some(claims) => CallerClaims::Known(claims),
            None if subject.issuer.is_some() => CallerClaims::Unknown,
            None => CallerClaims::None,
        },
    }
}
