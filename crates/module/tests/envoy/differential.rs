//! The same requests through two listeners of one Envoy: one calls the sidecar over ext_authz, the
//! other one authorizes inside Envoy. Status, headers and bodies must be the same, and so must be
//! what the application receives. `make differential REQUESTS=100000 SEED=1` compares more requests
//! than `make test` does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;
use testbed::client::{Answer, Connection, Version};
use testbed::envoy::{Listener, Module, Settings, Target};
use testbed::policies::{self, Example};
use testbed::rolegate::ANY_PORT;
use testbed::tokens::Signer;
use testbed::{App, Envoy, Rolegate};

use super::{PATIENT, library};

/// A number that the environment has, such as `REQUESTS`.
fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).unwrap_or_default();
    if value.is_empty() {
        default
    } else {
        value.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_and_the_sidecar_give_the_same_answers() {
    let signer = Signer::default();
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    let names = policies::names().unwrap();
    // Each example is used with and without `normalize_path`, over HTTP/1.1 and HTTP/2.
    let requests = number("REQUESTS", 1000).div_ceil(4 * names.len() as u64);
    let mut seeds = fastrand::Rng::with_seed(number("SEED", 1));
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let example = Example::signed_by(&name, &folder.path().join("policy"), &signer).unwrap();
        let app = App::start().await.unwrap();
        let rolegate =
            Rolegate::start(&program(), &example.file, Target::Tcp(ANY_PORT), folder.path(), &[])
                .await
                .unwrap();
        // A hash that takes long on a busy machine is no difference; the sidecar waits for as long
        // as Envoy does.
        let more = vec!["hash-timeout: 15s".to_owned()];
        let module =
            Module { folder: library(), policy: example.file.clone(), decisions: None, more };
        // The requests to a search cluster have bodies that count.
        let whole_bodies = example.loaded.policy.search.is_some();
        let listener = |name: &str, normalize_path, targets, module| {
            let with_request_body = whole_bodies.then_some(1 << 20);
            let timeout = PATIENT;
            let settings = Settings {
                normalize_path,
                whole_bodies,
                with_request_body,
                timeout,
                ..Settings::default()
            };
            Listener { name: name.to_owned(), targets, module, settings }
        };
        let listeners = [
            listener("public", false, vec![rolegate.listen.clone()], None),
            listener("inside", false, Vec::new(), Some(module.clone())),
            listener("public-normalized", true, vec![rolegate.listen.clone()], None),
            listener("inside-normalized", true, Vec::new(), Some(module)),
        ];
        let envoy = Envoy::start(folder.path(), app.address, &listeners).await.unwrap();
        for pair in envoy.addresses.chunks(2) {
            for version in [Version::Http1, Version::Http2] {
                let mut both = Both::open(pair[0], pair[1], version).await;
                let mut generated = Requests::new(&example, &signer, version, seeds.fork());
                for _ in 0..requests {
                    let status = both.compare(&generated.next()).await;
                    *statuses.entry(status).or_default() += 1;
                }
            }
        }
    }
    println!("{} requests got the same answers: {statuses:?}", statuses.values().sum::<u64>());
    for status in [200, 400, 401, 403] {
        assert!(statuses.contains_key(&status), "no request got {status}: {statuses:?}");
    }
}

/// The sidecar: cargo builds it with the tests of the workspace.
fn program() -> PathBuf {
    let named = std::env::var_os("ROLEGATE").map(PathBuf::from);
    let program = named.unwrap_or_else(|| library().with_file_name("rolegate"));
    assert!(program.is_file(), "no {}: run `cargo build --package rolegate`", program.display());
    program
}

/// A connection to each listener.
struct Both {
    addresses: [SocketAddr; 2],
    connections: [Connection; 2],
    version: Version,
}

impl Both {
    async fn open(sidecar: SocketAddr, inside: SocketAddr, version: Version) -> Self {
        let open = async |address| Connection::open(address, version).await.unwrap();
        let connections = [open(sidecar).await, open(inside).await];
        Self { addresses: [sidecar, inside], connections, version }
    }

    /// Sends a request to both, and compares the responses. Returns the status.
    async fn compare(&mut self, request: &Request) -> u16 {
        let mut seen = Vec::new();
        for at in 0..2 {
            let answer = self.send(at, request).await;
            seen.push((answer.status, headers(&answer), body(&answer)));
        }
        assert_eq!(seen[0], seen[1], "{request:?}");
        seen[0].0
    }

    /// Envoy closes the connection after some invalid requests.
    async fn send(&mut self, at: usize, request: &Request) -> Answer {
        let Request { method, path, host, headers, body } = request;
        for _ in 0..2 {
            if let Ok(answer) =
                self.connections[at].send(method, path, host, headers, body.as_bytes()).await
            {
                return answer;
            }
            self.connections[at] =
                Connection::open(self.addresses[at], self.version).await.unwrap();
        }
        panic!("no answer: {request:?}");
    }
}

/// The headers, but for those that differ in each response.
fn headers(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    // Envoy closes a connection of HTTP/1.1 on which it answers before the body has arrived, as
    // only the module may do.
    let differing = ["date", "x-envoy-upstream-service-time", "content-length", "connection"];
    let lines = answer.headers.iter().filter(|(name, _)| !differing.contains(&name.as_str()));
    // The message for a gRPC client; that of a search cluster is JSON.
    let value = |name: &str, value: &[u8]| match name {
        "grpc-message" => without_id(value).map_or_else(
            || String::from_utf8_lossy(value).split("; request: ").next().unwrap().into(),
            |body| body.to_string().into_bytes(),
        ),
        _ => value.to_vec(),
    };
    let mut lines: Vec<_> = lines
        .map(|(name, bytes)| (name.to_string(), value(name.as_str(), bytes.as_bytes())))
        .collect();
    lines.sort();
    lines
}

/// The body, but for what differs each time.
fn body(answer: &Answer) -> Value {
    without_id(&answer.body).unwrap_or_else(|| Value::from(answer.text()))
}

/// The same; `None` if it is not JSON.
fn without_id(body: &[u8]) -> Option<Value> {
    let mut body = serde_json::from_slice::<Value>(body).ok()?;
    if let Some(id) = body.get_mut("request_id") {
        *id = Value::from("an id");
    }
    if let Some(headers) = body.get_mut("headers").and_then(Value::as_object_mut) {
        // Envoy tells the application the timeout of the request only where a filter has not
        // answered yet.
        headers.remove("x-request-id");
        // Only `ext_authz` adds this header, to requests whose body it has sent along.
        headers.remove("x-envoy-auth-partial-body");
    }
    Some(body)
}

/// A request.
#[derive(Clone, Debug)]
struct Request {
    method: String,
    path: String,
    host: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Requests made from a seed, near what the policy allows.
struct Requests {
    random: fastrand::Rng,
    /// The golden cases.
    cases: Vec<Request>,
    credentials: Vec<String>,
    paths: Vec<String>,
    hosts: Vec<String>,
    /// Empty, but for a search cluster.
    bodies: Vec<String>,
    version: Version,
}

const METHODS: [&str; 7] = ["GET", "POST", "DELETE", "PUT", "HEAD", "PATCH", "get"];
const PIECES: [&str; 16] = [
    "/", "//", "/.", "/..", "%2f", "%2F", "%2e", ";a=b", "?q=1", "#f", "%00", "%zz", "\\",
    "people", "users", "*",
];
/// Envoy answers gRPC requests in gRPC.
const CONTENT_TYPES: [&str; 5] = [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc-web",
    "application/grpc; a=b",
    "application/json",
];
const NAMES: [&str; 8] = [
    "x-user",
    "X_User",
    "x.user",
    "x_roles",
    "cookie",
    "x-forwarded-for",
    "x-original-url",
    "x-request-id",
];

impl Requests {
    fn new(example: &Example, signer: &Signer, version: Version, random: fastrand::Rng) -> Self {
        let identity = &example.loaded.policy.identity;
        let credentials_header = |case: &policy::cases::Case| {
            testbed::golden::credentials_header(&case.request.credentials, identity, Some(signer))
                .ok()
                .flatten()
        };
        let lines = example.cases.iter().filter_map(credentials_header);
        let mut credentials: Vec<String> =
            lines.filter_map(|(name, value)| (name == "authorization").then_some(value)).collect();
        credentials.sort();
        credentials.dedup();
        let as_request = |case: &policy::cases::Case| {
            let mut headers = case.request.headers.clone();
            headers.extend(credentials_header(case));
            let (method, path, host) =
                (&case.request.method, &case.request.path, &case.request.host);
            let body = case.request.body.clone();
            Request {
                method: method.clone(),
                path: path.clone(),
                host: host.clone(),
                headers,
                body,
            }
        };
        let of_cases = |field: fn(&policy::cases::Case) -> &str| {
            let mut all: Vec<String> =
                example.cases.iter().map(|case| field(case).to_owned()).collect();
            all.sort();
            all.dedup();
            all
        };
        Self {
            random,
            cases: example.cases.iter().map(as_request).collect(),
            credentials,
            paths: of_cases(|case| &case.request.path),
            hosts: of_cases(|case| &case.request.host),
            bodies: of_cases(|case| &case.request.body),
            version,
        }
    }

    /// A golden case with a part of another one, or with something hostile, in some places.
    fn next(&mut self) -> Request {
        let random = &mut self.random;
        let Request { mut method, mut path, mut host, mut headers, mut body } =
            random.choice(&self.cases).unwrap().clone();
        if random.u8(..6) == 0 {
            path = random.choice(&self.paths).cloned().unwrap_or_default();
        }
        while random.u8(..5) == 0 {
            let piece = random.choice(PIECES).unwrap_or_default();
            let at = path.floor_char_boundary(random.usize(1..=path.len().max(1)));
            path.insert_str(at, piece);
        }
        // What the client of the test cannot send.
        path.retain(|character| !matches!(character, '#' | '\\') && character.is_ascii_graphic());
        if !path.starts_with('/') || path.starts_with("//") && self.version == Version::Http2 {
            path = format!("/{}", path.trim_start_matches('/'));
        }
        for _ in 0..random.u8(..3) {
            let name = random.choice(NAMES).unwrap_or_default();
            headers.push((name.to_lowercase(), format!("value-{}", random.u8(..))));
        }
        if random.u8(..10) == 0 {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            let content_type = random.choice(CONTENT_TYPES).unwrap_or_default();
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        if random.u8(..3) == 0 {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][random.usize(..8)] {
                let mut value = random.choice(&self.credentials).cloned().unwrap_or_default();
                match random.u8(..12) {
                    0 => value = value.to_lowercase(),
                    1 => value.truncate(value.floor_char_boundary(random.usize(..=value.len()))),
                    2 => value.push_str(", Basic YTpi"),
                    3 => value = format!("Digest {value}"),
                    _ => {}
                }
                headers.push(("authorization".to_owned(), value.trim().to_owned()));
            }
        }
        if random.u8(..10) == 0 {
            host = random.choice(&self.hosts).cloned().unwrap_or_default();
        }
        if random.u8(..10) == 0 {
            host = ["LOCALHOST", "localhost:80", "other.example", "a..b", "[::1]"]
                [random.usize(..5)]
            .to_owned();
        }
        if random.u8(..6) == 0 {
            method = random.choice(METHODS).unwrap_or_default().to_owned();
        }
        if random.u8(..6) == 0 {
            body = random.choice(&self.bodies).cloned().unwrap_or_default();
        }
        while !body.is_empty() && random.u8(..5) == 0 {
            let at = body.floor_char_boundary(random.usize(..body.len()));
            match random.u8(..3) {
                0 => body.truncate(at),
                1 => {
                    body.insert_str(at, ["\n", "\"", "{}", "salaries", "*", ","][random.usize(..6)])
                }
                _ => drop(body.remove(at)),
            }
        }
        Request { method, path, host, headers, body }
    }
}

/// The configurations that ship differ only in how they authorize, and in the access log.
#[test]
fn the_shipped_configuration_is_that_of_the_sidecar_but_for_the_filter() {
    let read = |name: &str| {
        let text =
            std::fs::read_to_string(testbed::repository().join("deploy/envoy").join(name)).unwrap();
        let documents = testbed::manifests::yaml_of(&text).unwrap();
        let mut document = documents.first().unwrap().clone();
        let resources = &mut document["static_resources"];
        let manager =
            &mut resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
        let filters = manager["http_filters"].as_array_mut().unwrap();
        assert_eq!(filters.len(), 2, "{name}");
        filters.remove(0);
        let clusters = resources["clusters"].as_array_mut().unwrap();
        clusters.retain(|cluster| cluster["name"] != "rolegate");
        document
    };
    let mut module = read("module.yaml");
    let manager = &mut module["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    assert!(manager["typed_config"].as_object_mut().unwrap().remove("access_log").is_some());
    assert_eq!(module, read("envoy.yaml"));
}
