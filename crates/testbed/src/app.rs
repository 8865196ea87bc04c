//! The test application behind the proxy. It stores nothing and echoes each request in its
//! response. After [`App::trust`] it answers only requests with a valid identity header.

mod verified;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::request::Parts;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::verified::Trusted;
use crate::process::Failed;

/// The application: on a free loopback port, until it is dropped.
#[derive(Debug)]
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<io::Result<()>>,
}

/// The state that the application's connections share.
#[derive(Debug, Default)]
struct State {
    /// The requests so far.
    requests: AtomicU64,
    /// The requests so far with [`MUST_NOT_ARRIVE`].
    forbidden: AtomicU64,
    /// The keys that verify the identity header, if the application requires it.
    trusted: OnceLock<Trusted>,
}

/// Requests with this header must never reach the application. Tests set it on requests that must
/// be denied.
pub const MUST_NOT_ARRIVE: &str = "x-must-not-arrive";

/// A request with this header is answered as a search cluster answers a bulk request, all of whose
/// items it performs.
pub const ANSWER_AS_CLUSTER: &str = "x-answer-as-cluster";

impl App {
    /// Starts it.
    pub async fn start() -> Result<Self, Failed> {
        let listener =
            TcpListener::bind("127.0.0.1:0").await.map_err(|error| Failed::io("app", &error))?;
        let address = listener.local_addr().map_err(|error| Failed::io("app", &error))?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(load::app::serve(
            listener,
            std::future::pending(),
            move |head: &Parts, body: Bytes| answer(head, &body, &shared),
        ));
        Ok(Self { address, state, serving })
    }

    /// From now on answers with 401 unless the header `x-identity` is a token for this audience,
    /// signed with a key of this JWK Set.
    pub fn trust(&self, keys: &str, audience: &str) -> Result<(), Failed> {
        let trusted = Trusted::new(keys, audience)?;
        self.state.trusted.set(trusted).map_err(|_| Failed::new("app", "it trusts keys already"))
    }

    /// The number of requests that have reached it.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// The number of these that had [`MUST_NOT_ARRIVE`].
    pub fn forbidden(&self) -> u64 {
        self.state.forbidden.load(Ordering::SeqCst)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn answer(head: &Parts, body: &Bytes, state: &State) -> load::app::Answer {
    state.requests.fetch_add(1, Ordering::SeqCst);
    if head.headers.contains_key(MUST_NOT_ARRIVE) {
        state.forbidden.fetch_add(1, Ordering::SeqCst);
    }
    let trusted = state.trusted.get();
    let identity = match trusted.map(|trusted| trusted.verify(&head.headers)).transpose() {
        Ok(identity) => identity,
        Err(why) => {
            let mut refusal = json_answer(&json!({ "refused": why.to_string() }));
            *refusal.status_mut() = http::StatusCode::UNAUTHORIZED;
            return refusal;
        }
    };
    if head.headers.contains_key(ANSWER_AS_CLUSTER) {
        return json_answer(&results(body));
    }
    json_answer(&json!({
        "identity": identity,
        "method": head.method.as_str(),
        "path": head.uri.to_string(),
        "headers": headers(&head.headers),
        "body": String::from_utf8_lossy(body),
        "people": ["alice", "bob"],
    }))
}

fn json_answer(body: &Value) -> load::app::Answer {
    load::app::json(body.to_string().into())
}

/// The response of a search cluster to a bulk request, as far as it is valid.
fn results(body: &[u8]) -> Value {
    let lines = body.split(|byte| *byte == b'\n');
    let mut lines =
        lines.filter_map(|line| serde_json::from_slice::<Map<String, Value>>(line).ok());
    let mut items = Vec::new();
    while let Some((operation, action)) = lines.next().and_then(|line| line.into_iter().next()) {
        if operation != "delete" {
            lines.next();
        }
        let (index, id) = (action.get("_index"), action.get("_id"));
        let item = json!({ "_index": index, "_id": id, "result": "performed", "status": 201 });
        items.push(json!({ operation: item }));
    }
    json!({ "took": 1, "errors": false, "items": items })
}

/// Each header name with the list of its values, so that duplicate lines are visible.
fn headers(headers: &http::HeaderMap) -> Value {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let values = |name| headers.get_all(name).iter().map(text).collect::<Value>();
    headers.keys().map(|name| (name.to_string(), values(name))).collect()
}
