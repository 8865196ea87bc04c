//! Parses a request. A malformed or ambiguous request is denied here, before its credentials are
//! verified.

use std::net::IpAddr;

use condition::Question;
use identity::{Certificate, Credentials, LastElement, MalformedXfcc, UserCredentials};
use policy::canonical::{self, Buffers, PathInterpretations};
use policy::model::{Identity, XFCC};
use search::RequestBody;

use crate::reason::Reason;
use crate::tokens;

/// A request as Envoy passes it on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The method as received.
    pub method: &'a [u8],
    /// The host as received, with its port, if any.
    pub host: &'a [u8],
    /// The path with its query; normalized if Envoy does that (`normalize_path`).
    pub path: &'a [u8],
    /// The header lines, duplicates included. Names may be in any case. Pseudo-headers are ignored.
    pub headers: &'a [Header<'a>],
    /// The proxy's id of the request, for the body of a denial; may be empty.
    pub id: &'a [u8],
    /// The client's address, as text; empty if it is not known. Conditions (`source.ip`) and the
    /// role mappings of a search cluster use it.
    pub client: &'a [u8],
    /// The address at the other end of the proxy's connection, as text; empty if it is not known.
    /// No header of a client changes it. Only `trusted_proxies` of certificates depend on it.
    pub peer: &'a [u8],
    /// The certificate of that end, if any.
    pub certificate: Option<Certificate<'a>>,
    /// The body. Only requests to a search cluster use it.
    pub body: RequestBody<'a>,
    /// Whether its body and that of its response can be changed: inside Envoy, not over
    /// `ext_authz`. Required for a [`PartialBulk`](crate::PartialBulk).
    pub can_change_bodies: bool,
    /// Whether its proxy can only set headers of an allowed request, as over HTTP forward-auth. A
    /// request that must be changed otherwise is denied.
    pub sets_headers_only: bool,
    /// The question of AuthZEN that this request stands for; `None` for a request of a proxy.
    pub question: Option<&'a Question<'a>>,
    /// The user that the subject of this question claims to be: for logs, as in
    /// [`Attempted`](identity::Attempted).
    pub claimed_user: Option<&'a str>,
}

impl Request<'_> {
    /// Whether it is a gRPC call, as Envoy decides it: the content type is `application/grpc`,
    /// alone or with `+` and the encoding of the messages. `application/grpc-web` is not gRPC.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let mut lines = self.headers.iter();
        let line = lines.find(|line| line.name.eq_ignore_ascii_case(b"content-type"));
        line.and_then(|line| line.value.strip_prefix(b"application/grpc"))
            .is_some_and(|encoding| matches!(encoding.first(), None | Some(b'+')))
    }
}

/// A header line.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// The parts of a request on which the decision depends.
#[derive(Debug)]
pub struct ParsedRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The canonical host.
    pub host: &'a [u8],
    /// The canonical path, and the other paths that an application may read.
    pub paths: PathInterpretations<'a>,
    /// The credentials, not verified.
    pub credentials: Option<Credentials<'a>>,
    /// The certificate of the client, even if other credentials count.
    pub certificate: Option<Certificate<'a>>,
}

/// Buffers for the host and the interpretations of the path, reused by all requests of a thread.
#[derive(Debug, Default)]
pub struct ParseScratch {
    host: Vec<u8>,
    paths: Buffers,
}

/// Validates a request, and puts its host and its path into canonical form. Does not validate the
/// credentials: see [`Authorizer::credentials`](crate::Authorizer::credentials).
///
/// # Errors
/// If it is malformed or ambiguous.
pub fn parse<'a>(
    request: &Request<'a>,
    identity: &Identity,
    scratch: &'a mut ParseScratch,
) -> Result<ParsedRequest<'a>, Reason> {
    let ParseScratch { host, paths } = scratch;
    if !is_method(request.method) {
        return Err(Reason::InvalidMethod);
    }
    let paths =
        canonical::path(request.method, request.path, paths).map_err(Reason::InvalidPath)?;
    let host = canonical::host(request.host, host).map_err(Reason::InvalidHost)?;
    let (credentials, certificate) = find_credentials(request, identity)?;
    Ok(ParsedRequest { method: request.method, host, paths, credentials, certificate })
}

/// Validates a request to a search cluster, which reads the path itself. Returns its credentials.
///
/// # Errors
/// If its method, its host or its credentials are malformed or ambiguous.
pub fn parse_without_path<'a>(
    request: &Request<'a>,
    identity: &Identity,
) -> Result<Option<Credentials<'a>>, Reason> {
    if !is_method(request.method) {
        return Err(Reason::InvalidMethod);
    }
    canonical::host(request.host, &mut Vec::new()).map_err(Reason::InvalidHost)?;
    credentials(request, identity)
}

/// The well-formed credentials of a request, if it has any.
///
/// # Errors
/// If they are malformed or ambiguous.
pub(crate) fn credentials<'a>(
    request: &Request<'a>,
    identity: &Identity,
) -> Result<Option<Credentials<'a>>, Reason> {
    let (credentials, _) = find_credentials(request, identity)?;
    validate_credentials(credentials)?;
    Ok(credentials)
}

/// The credentials of a request, and the certificate of its client.
///
/// The `Authorization` header is not a list, so a second line is denied (RFC 9110, 11.6.2 and 5.3).
/// [`validate_credentials`] denies a second value in the same line. This header, an API key and a
/// token in another place exclude each other, because only one of them would count. Without any of
/// them, the certificate of the client counts. Where the policy requires both, both count.
fn find_credentials<'a>(
    request: &Request<'a>,
    identity: &Identity,
) -> Result<(Option<Credentials<'a>>, Option<Certificate<'a>>), Reason> {
    let key_header = identity.api_key_header().map(str::as_bytes);
    let (mut authorization, mut api_key, mut token) = (None, None, None);
    for header in request.headers {
        // Proxies write the name in lower case, which is compared faster.
        let is_authorization =
            header.name == b"authorization" || header.name.eq_ignore_ascii_case(b"authorization");
        if is_authorization && authorization.replace(header.value).is_some() {
            return Err(Reason::DuplicateAuthorization);
        }
        let is_key = key_header.is_some_and(|name| header.name.eq_ignore_ascii_case(name));
        // Envoy joins two lines with a comma.
        if is_key && (api_key.replace(header.value).is_some() || header.value.contains(&b',')) {
            return Err(Reason::SeveralCredentials);
        }
        if !identity.token_from.is_empty() {
            tokens::find(identity, (header.name, header.value), &mut token)?;
        }
    }
    let certificate = certificate(request, identity)?;
    let user = match (authorization, api_key, token) {
        (None, None, None) => None,
        (Some(value), None, None) => Some(UserCredentials::Authorization(value)),
        (None, Some(key), None) => Some(UserCredentials::ApiKey(key)),
        (None, None, Some(token)) => Some(UserCredentials::Token(token)),
        (_, _, _) => return Err(Reason::SeveralCredentials),
    };
    let requires_both = identity.combine_both.is_some();
    let credentials = match (user, certificate) {
        (None, certificate) => certificate.map(Credentials::Certificate),
        (Some(user), Some(certificate)) if requires_both => {
            Some(Credentials::Both(user, certificate))
        }
        (Some(user), _) => Some(user.into()),
    };
    Ok((credentials, certificate))
}

/// Whether a request has a token, or several, in another place than the `Authorization` header.
#[must_use]
pub fn has_token_elsewhere(headers: &[Header<'_>], identity: &Identity) -> bool {
    !identity.token_from.is_empty()
        && headers.iter().any(|Header { name, value }| {
            let mut token = None;
            tokens::find(identity, (name, value), &mut token).is_err() || token.is_some()
        })
}

/// The certificate of the client, where the policy reads it. A header with certificates is ignored
/// unless a trusted proxy has sent it: any client could write such a header.
///
/// # Errors
/// If the header of a trusted proxy cannot be read.
pub(crate) fn certificate<'a>(
    request: &Request<'a>,
    identity: &Identity,
) -> Result<Option<Certificate<'a>>, Reason> {
    if identity.certificates.is_none() {
        return Ok(None);
    }
    // Tools and tests name a certificate. No proxy has to be trusted for it.
    let is_named = matches!(request.certificate, Some(Certificate::Named(_)));
    let Some(proxies) = identity.trusted_proxies().filter(|_| !is_named) else {
        return Ok(request.certificate);
    };
    let peer = std::str::from_utf8(request.peer).ok();
    let peer = peer.and_then(|peer| peer.parse::<IpAddr>().ok()).map(|peer| peer.to_canonical());
    if !peer.is_some_and(|peer| proxies.iter().any(|proxies| proxies.contains(peer))) {
        return Ok(None);
    }
    let mut last = LastElement::default();
    let lines = request.headers.iter();
    for line in lines.filter(|line| line.name.eq_ignore_ascii_case(XFCC.as_bytes())) {
        last.add(line.value).map_err(|MalformedXfcc| Reason::MalformedXfcc)?;
    }
    Ok(last.get().map(Certificate::Xfcc))
}

/// Validates the value of the `Authorization` header: it has no control bytes, and is not two
/// values that a proxy has joined with a comma. (An API key with control bytes is a wrong key. In
/// another place than this header, a token with control bytes is a wrong token.)
///
/// A value that [`identity::Authenticator::authenticate`] accepts is valid, because it is a scheme,
/// spaces, and base64 or a token. So the value of a cached caller is not validated: this would take
/// 50 ns for a token of 900 bytes (November 2026). Any other value must be validated before it is
/// verified, and before it is denied for another reason.
pub(crate) fn validate_credentials(credentials: Option<Credentials<'_>>) -> Result<(), Reason> {
    let credentials = credentials.map(Credentials::of_user);
    let Some(Credentials::Authorization(value)) = credentials else { return Ok(()) };
    // A single pass without an early exit, so the compiler vectorizes it: tokens are long.
    let (comma, control) = value.iter().fold((false, false), |(comma, control), byte| {
        (comma | (*byte == b','), control | byte.is_ascii_control())
    });
    if comma && !may_have_commas(value) {
        return Err(Reason::DuplicateAuthorization);
    }
    if control { Err(Reason::ControlBytes) } else { Ok(()) }
}

/// Whether the credentials of a request are a token.
pub(crate) fn is_bearer(credentials: Option<Credentials<'_>>) -> bool {
    credentials.and_then(Credentials::token).is_some()
}

/// Whether the scheme of this value may have commas in its credentials, as Digest does (RFC 7616,
/// 3.4). Basic and Bearer credentials have none (RFC 7617, 2; RFC 6750, 2.1).
fn may_have_commas(value: &[u8]) -> bool {
    let scheme = value.split(|byte| *byte == b' ').next().unwrap_or_default();
    is_token(scheme)
        && ![&b"basic"[..], b"bearer"]
            .iter()
            .any(|supported| scheme.eq_ignore_ascii_case(supported))
}

/// Whether this is a token without lower-case letters. Methods are case-sensitive, and all
/// standard methods are in upper case (RFC 9110, 9.1). Envoy forwards `delete` over HTTP/2, and an
/// application that ignores case takes it for the `DELETE` that a `deny` rule names.
#[must_use]
pub fn is_method(text: &[u8]) -> bool {
    matches!(text, b"GET" | b"POST" | b"PUT" | b"DELETE" | b"HEAD" | b"PATCH" | b"OPTIONS")
        || (is_token(text) && !text.iter().any(u8::is_ascii_lowercase))
}

/// Whether this is a token (RFC 9110, 5.6.2).
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}
