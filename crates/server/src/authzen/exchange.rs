//! A request and its response (10.1). The numbers of sections are those of the AuthZEN
//! Authorization API 1.0.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Request as MappedRequest, Verdict};
use authzen::{Answer, Decider, Endpoint, Sought, answer};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    WWW_AUTHENTICATE,
};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use runtime::counters::ErrorKind;
use runtime::{DecisionContext, Received, ThreadAuthorizer, Via};
use serde_json::json;
use tokio::time::timeout;

use super::settings::PublicUrl;
use super::tokens::Tokens;
use crate::connections::OpenConnection;
use crate::page::{Page, not_allowed, text, with_type};

const MAX_BODY: usize = 1 << 20;
/// Maximum time for a client to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum time between two log lines about refused clients: they try again and again.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

const EVALUATION: &str = "/access/v1/evaluation";
const EVALUATIONS: &str = "/access/v1/evaluations";
const SEARCH_SUBJECT: &str = "/access/v1/search/subject";
const SEARCH_RESOURCE: &str = "/access/v1/search/resource";
const SEARCH_ACTION: &str = "/access/v1/search/action";
const METADATA: &str = "/.well-known/authzen-configuration";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers the requests of a listener.
pub(super) struct Answerer {
    pub(super) thread: ThreadAuthorizer,
    /// The tokens of those who may ask. `None` if TLS has verified a certificate of each client.
    pub(super) tokens: Option<Arc<Tokens>>,
    /// `https` if the listener speaks TLS.
    pub(super) scheme: &'static str,
    pub(super) url: Option<PublicUrl>,
    pub(super) last_refusal: Cell<Option<Instant>>,
}

impl Answerer {
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &OpenConnection,
    ) -> Response<Full<Bytes>> {
        let id = request.headers().get(REQUEST_ID).cloned();
        let mut page = self.page(request, id.as_ref(), connection).await;
        connection.set_waiting();
        if let Some(id) = id {
            page.headers_mut().insert(REQUEST_ID, id);
        }
        page.map(Full::from)
    }

    async fn page(
        &self,
        request: Request<Incoming>,
        id: Option<&HeaderValue>,
        connection: &OpenConnection,
    ) -> Page {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        // A client that looks for the endpoints may not have a token yet.
        if self.is_metadata(path) {
            return match head.method {
                Method::GET | Method::HEAD => self.metadata(&head.headers),
                _ => not_allowed("only GET and HEAD\n", "GET, HEAD"),
            };
        }
        if !self.may_ask(&head.headers) {
            return self.refuse();
        }
        let endpoint = match path {
            EVALUATION => Endpoint::Evaluation,
            EVALUATIONS => Endpoint::Evaluations,
            SEARCH_SUBJECT => Endpoint::Search(Sought::Subject),
            SEARCH_RESOURCE => Endpoint::Search(Sought::Resource),
            SEARCH_ACTION => Endpoint::Search(Sought::Action),
            _ => return text(StatusCode::NOT_FOUND, "there is no such endpoint\n"),
        };
        if head.method != Method::POST {
            return not_allowed("only POST\n", "POST");
        }
        if !is_json(&head.headers) {
            return text(StatusCode::BAD_REQUEST, "the content type is not `application/json`\n");
        }
        // A body whose announced length is too large is not read at all.
        if body.size_hint().lower() > MAX_BODY as u64 {
            return too_large();
        }
        connection.set_busy(0);
        let body = match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return too_large();
            }
            Ok(Err(_)) => return closing(text(StatusCode::BAD_REQUEST, "the body is not whole\n")),
            Err(_elapsed) => {
                return closing(text(StatusCode::REQUEST_TIMEOUT, "the body is not whole\n"));
            }
        };
        self.answer(endpoint, &body, id.map(HeaderValue::as_bytes).unwrap_or_default())
    }

    fn answer(&self, endpoint: Endpoint, body: &[u8], id: &[u8]) -> Page {
        let received = Received::now();
        let answered = self.thread.with_snapshot(|authorizer, scratch| {
            let mut record = |verdict: &Verdict<'_>, request: &MappedRequest<'_>, decided_as_of| {
                let context = DecisionContext {
                    authorizer,
                    request,
                    client: request.client,
                    received: Received { resumed_time: decided_as_of, ..received },
                    decided_at: Instant::now(),
                    traceparent: &[],
                    via: Via::Authzen,
                };
                self.thread.record(verdict, context);
            };
            let (now, record) = (received.resumed_time, &mut record);
            let mut decider = Decider { authorizer, scratch, now, id, record };
            Ok(answer(endpoint, body, &mut decider))
        });
        self.thread.record_latency(received, Instant::now());
        match answered {
            Ok(Ok(Answer(answer))) => json_page(answer),
            Ok(Err(malformed)) => {
                self.thread.counters().count_error(ErrorKind::Malformed);
                text(StatusCode::BAD_REQUEST, format!("{malformed}\n"))
            }
            Err(kind) => {
                self.thread.counters().count_error(kind);
                match kind {
                    ErrorKind::NotReady => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
                    ErrorKind::Malformed
                    | ErrorKind::Framing
                    | ErrorKind::Compressed
                    | ErrorKind::Unanswerable
                    | ErrorKind::Internal
                    | ErrorKind::Cancelled => {
                        text(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n")
                    }
                }
            }
        }
    }

    /// Whether this is the path of the metadata. If the public URL has a path, clients append it to
    /// the path of the metadata (9.2). A proxy may remove it, so both forms are accepted.
    fn is_metadata(&self, path: &str) -> bool {
        let suffix = path.strip_prefix(METADATA);
        suffix.is_some_and(|suffix| {
            suffix.is_empty() || self.url.as_ref().is_some_and(|url| url.path == suffix)
        })
    }

    /// The metadata (9.2). Without a public URL, its URLs begin with the host in the request. That
    /// suffices: they only have to match the URL that the client has used.
    fn metadata(&self, headers: &HeaderMap) -> Page {
        let mut values = headers.get_all(HOST).iter();
        let host = match (values.next().and_then(|host| host.to_str().ok()), values.next()) {
            (Some(host), None) if is_authority(host) => host,
            _ => return text(StatusCode::BAD_REQUEST, "the header `host` is not a host\n"),
        };
        let base = match &self.url {
            Some(url) => url.text.clone(),
            None => format!("{}://{host}", self.scheme),
        };
        let metadata = json!({
            "policy_decision_point": base,
            "access_evaluation_endpoint": format!("{base}{EVALUATION}"),
            "access_evaluations_endpoint": format!("{base}{EVALUATIONS}"),
            "search_subject_endpoint": format!("{base}{SEARCH_SUBJECT}"),
            "search_resource_endpoint": format!("{base}{SEARCH_RESOURCE}"),
            "search_action_endpoint": format!("{base}{SEARCH_ACTION}"),
        });
        json_page(metadata.to_string())
    }

    /// Whether the client may ask: the request has one `authorization` line, with a token of the
    /// file.
    fn may_ask(&self, headers: &HeaderMap) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.as_bytes().split_at_checked(BEARER.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(BEARER) && tokens.has(token.trim_ascii_start())
    }

    /// The response to a request without a token (11.3), whose rest is not read.
    fn refuse(&self) -> Page {
        let now = Instant::now();
        let last = self.last_refusal.get();
        if last.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL) {
            self.last_refusal.set(Some(now));
            tracing::warn!("a question of AuthZEN came without a token of `authzen-tokens`");
        }
        let mut page = text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
        let challenge = HeaderValue::from_static("Bearer realm=\"rolegate\"");
        page.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        closing(page)
    }
}

const BEARER: &[u8] = b"Bearer ";

/// Whether the content type is JSON, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Whether this is a host, with or without a port.
fn is_authority(host: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(is_character)
}

fn json_page(body: String) -> Page {
    with_type(StatusCode::OK, "application/json", body)
}

fn too_large() -> Page {
    let why = format!("the body has more than {MAX_BODY} bytes\n");
    closing(text(StatusCode::PAYLOAD_TOO_LARGE, why))
}

/// Ends the connection after the response, so that the rest of a request is not read.
fn closing(mut page: Page) -> Page {
    page.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    page
}
