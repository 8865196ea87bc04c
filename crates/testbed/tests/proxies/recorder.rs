//! Servers that record what they receive.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use load::app::{self, Answer};
use testbed::proxy::Kind;
use tokio::net::TcpListener;
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;

/// A request as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case, in the order of the lines.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A server that records each request, and answers it with a function.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    /// Its own, so that it can be stopped with all that it does. `None` while it is dropped.
    server: Option<Runtime>,
}

/// Longer than a proxy waits, by its configuration. Traefik has none, and waits 30 s.
const fn silence(kind: Kind) -> Duration {
    match kind {
        Kind::Nginx | Kind::Haproxy | Kind::Caddy => Duration::from_secs(3),
        Kind::Traefik => Duration::from_secs(33),
    }
}

impl Received {
    /// The values of a header, a line each.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(line, _)| line == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    fn new(head: &Parts, body: &[u8]) -> Self {
        let headers = head.headers.iter().map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Self {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }
}

impl Recorder {
    pub(crate) async fn start(
        answer: impl Fn(&Received) -> Answer + Clone + Send + Sync + 'static,
    ) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&received);
        let server = runtime::Builder::new_multi_thread().worker_threads(6).enable_all().build();
        let server = server.unwrap();
        let (send, address) = oneshot::channel();
        server.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            let served = app::serve(listener, std::future::pending(), move |head: &Parts, body| {
                let request = Received::new(head, &body);
                record.lock().unwrap().push(request.clone());
                answer(&request)
            });
            served.await.unwrap();
        });
        Self { address: address.await.unwrap(), received, server: Some(server) }
    }

    /// What it has received since the last call.
    pub(crate) fn take(&self) -> Vec<Received> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

/// Closes its listener and its connections, as a killed process does.
impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }
}

/// The names of method, host, path and client address in what a proxy asks.
pub(crate) fn names(kind: Kind) -> [&'static str; 4] {
    match kind {
        Kind::Nginx | Kind::Haproxy => {
            ["x-original-method", "x-original-host", "x-original-uri", "x-real-ip"]
        }
        Kind::Caddy | Kind::Traefik => {
            ["x-forwarded-method", "x-forwarded-host", "x-forwarded-uri", "x-forwarded-for"]
        }
    }
}

/// The answer of the authorization service. Everybody may do everything but what has `admin` in its
/// path, as long as they say one name, and to anybody `/public` is allowed. `x-answer` names
/// another answer.
pub(crate) fn decide(kind: Kind, asked: &Received) -> Answer {
    let lines = names(kind).map(|name| asked.values(name));
    let uri = match &lines[2][..] {
        [uri] if lines.iter().all(|line| line.len() == 1 && !line[0].is_empty()) => *uri,
        _ => return with_status(400),
    };
    match asked.values("x-answer")[..] {
        [] => {}
        ["silence"] => {
            std::thread::sleep(silence(kind));
            return with_status(200);
        }
        [status] => return with_status(status.parse().unwrap()),
        _ => return with_status(400),
    }
    match asked.values("authorization")[..] {
        _ if uri.contains("admin") => with_status(403),
        [] if uri == "/public" => allowed("", ""),
        [] => with_status(401),
        [name] => allowed(name, "guest"),
        _ => with_status(400),
    }
}

/// The application's answer.
pub(crate) fn arrived() -> Answer {
    app::json("{}".into())
}

fn allowed(user: &str, roles: &str) -> Answer {
    let mut answer = with_status(200);
    for (name, value) in [("x-user", user), ("x-roles", roles), ("x-identity", "")] {
        answer.headers_mut().insert(name, value.parse().unwrap());
    }
    answer
}

fn with_status(status: u16) -> Answer {
    let mut answer: Answer = Response::default();
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    if status == 401 {
        for challenge in ["Basic realm=\"people\"", "Bearer"] {
            answer.headers_mut().append("www-authenticate", challenge.parse().unwrap());
        }
    }
    answer
}
