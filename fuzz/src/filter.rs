//! The module's filter in a fake Envoy: headers of any shape, and what happens to streams in any
//! order. What it decides must be what `Authorizer::check_inline` decides about the same headers.
//!
//! A line `name: value` is a header of the next stream, or with the name `@body` a line of its
//! body. A line with `!` is what happens; see [`Run::happen`].

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use authorizer::{Authorizer, BulkErrors, Header, Request, RequestBody, Scratch, Verdict};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::FetchedKeys;
use rolegate::Authorization;
use rolegate::abi::hooks;
use rolegate::fake::{self, FakeStream, Host, RouteConfig};

use crate::memory::{KEYS, Memory};

/// `{SHA}` costs nothing to verify.
const POLICY: &str = r#"version: 1
identity:
  basic: { realm: fuzz, users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }, bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } }
  jwt: [{ issuer: "https://fuzz.example", audiences: [fuzz], keys: { file: jwks.json }, claims: { user: sub, roles: /roles } }]
roles:
  anyone: { allow: [GET /open] }
  reader: { allow: ["GET /reports/**"], deny: [GET /reports/secret] }
grants: { reader: { users: [ann] } }
search: { folder: cluster, hosts: [search.example], bulk: per-item }
allow_response: { set_headers: { x-user: "{user}", x-roles: "{roles}", x-rule: "{rule}" }, remove_headers: [authorization] }
"#;
/// The role files of the search cluster of that policy.
const CLUSTER: [(&str, &[u8]); 2] = [
    (
        "cluster/roles.yml",
        br#"_meta: { type: roles, config_version: 2 }
logs:
  cluster_permissions: [cluster_composite_ops]
  index_permissions: [{ index_patterns: ["logs-*"], allowed_actions: [crud, create_index, "indices:admin/mapping/put"] }]
"#,
    ),
    (
        "cluster/roles_mapping.yml",
        b"_meta: { type: rolesmapping, config_version: 2 }\nlogs: { users: [ann] }\n",
    ),
];
/// The policy of a route.
const OTHER: &str = "version: 1\nroles: { anyone: { allow: [GET /other] } }\n";

/// The most streams at a time, and the most events of a run.
const STREAMS: usize = 8;
const EVENTS: usize = 256;
/// How long a decision may take on a busy machine.
const PATIENT: Duration = Duration::from_secs(30);

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

/// What does not change from run to run.
struct World {
    host: Host<Authorization>,
    own: RouteConfig<Authorization>,
    disabled: RouteConfig<Authorization>,
    foreign: [usize; 4],
    policy: Authorizer,
    other: Authorizer,
    /// What a value such as `$jwt` stands for.
    credentials: [(&'static [u8], String); 4],
}

/// The decision about a stream.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// The headers that the application receives.
    Allowed(Lines),
    /// The same, and the body: some items of a bulk request.
    AllowedInPart(Lines, Vec<u8>),
    /// Status, headers and body.
    Denied(u32, Lines, Vec<u8>),
}

/// A stream, and what has happened to it.
struct Seen {
    stream: FakeStream<'static, Authorization>,
    expected: Decision,
    /// What must be added to the response, if it is allowed in part.
    errors: Option<Arc<BulkErrors>>,
    /// Whether the response has arrived.
    answered: bool,
    /// The headers, the policy that decides if it is one, and the body that has not arrived yet.
    headers: Lines,
    policy: Option<&'static Authorizer>,
    body: Vec<u8>,
    /// Whether its end has arrived.
    complete: bool,
    forwarded: bool,
    /// Whether only what Envoy does has happened: then its decision is known.
    ordered: bool,
    begun: bool,
}

/// What is under way.
struct Run {
    world: &'static World,
    headers: Lines,
    streams: Vec<Seen>,
    ordered: bool,
}

/// `SECURITY.md`, S7 and S26: the filter forwards what the policy allows, changed as it says, and
/// nothing else, whatever happens to streams and whenever they end.
pub fn filter(data: &[u8]) {
    thread_local! {
        // Never dropped: a filter is not, before Envoy ends.
        static WORLD: &'static World = Box::leak(Box::new(World::new()));
    }
    let world = WORLD.with(|world| *world);
    let errors = "rolegate.error.internal";
    let before = world.host.metric(errors);
    let mut run = Run { world, headers: Vec::new(), streams: Vec::new(), ordered: true };
    let mut events = 0;
    for line in data.split(|byte| *byte == b'\n') {
        let Some(happening) = line.strip_prefix(b"!") else {
            run.header(line);
            continue;
        };
        for event in happening.iter().take(EVENTS.saturating_sub(events)) {
            events += 1;
            run.happen(*event);
            run.streams.iter().for_each(Seen::check);
        }
    }
    for seen in &run.streams {
        seen.stream.end();
        seen.check();
    }
    assert!(
        !run.ordered || world.host.metric(errors) == before,
        "an internal error: {:?}",
        fake::logged()
    );
    drop(fake::logged());
}

impl Run {
    fn header(&mut self, line: &[u8]) {
        let colon =
            line.iter().skip(1).position(|byte| *byte == b':').map_or(line.len(), |at| at + 1);
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        let meant = self.world.credentials.iter().find(|(name, _)| *name == value);
        let value = meant.map_or(value, |(_, credentials)| credentials.as_bytes());
        self.headers.push((name.to_vec(), value.to_vec()));
    }

    fn happen(&mut self, event: u8) {
        let Self { world, headers, streams, ordered } = self;
        if let b'n' | b'o' | b'x' | b'f' | b'a' | b'u' = event {
            if streams.len() < STREAMS {
                streams.push(world.stream(std::mem::take(headers), event));
            }
            return;
        }
        let number = streams.len();
        let Some(seen) = streams.last_mut() else { return };
        match event {
            // Headers arrive: the only ones, or before a body.
            b'h' | b'H' => seen.begin(event == b'H'),
            // A part of the body arrives, all the rest of it, or that and trailers.
            b'c' | b'b' | b't' => seen.more(event),
            // The response arrives: that of a cluster, another one, or an error.
            b'r' | b'R' | b'v' => seen.answer(event),
            // What schedulers have committed arrives.
            b'd' => drop(seen.stream.deliver_events()),
            // Another thread gets time to commit.
            b'w' => std::thread::sleep(Duration::from_micros(200)),
            // The decision is made.
            b's' => settle(streams),
            // The client leaves.
            b'e' => seen.stream.end(),
            // Another stream is next.
            b'p' => streams.rotate_left(1.min(number)),
            // An event that perhaps nobody has committed.
            b'0'..=b'9' => {
                (seen.ordered, *ordered) = (false, false);
                seen.stream.scheduled(u64::from(event - b'0'));
            }
            _ => {}
        }
    }
}

/// Delivers events until each stream that has arrived is decided or has ended.
fn settle(streams: &[Seen]) {
    let until = Instant::now() + PATIENT;
    loop {
        let delivered: usize = streams.iter().map(|seen| seen.stream.deliver_events()).sum();
        if streams
            .iter()
            .all(|seen| !seen.begun || !seen.complete || seen.decided() || seen.stream.ended())
        {
            return;
        }
        assert!(Instant::now() < until, "a stream is never decided");
        if delivered == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Seen {
    fn begin(&mut self, end_of_stream: bool) {
        self.ordered &= !self.begun;
        if let (false, Some(policy)) = (self.begun, self.policy) {
            self.complete = end_of_stream;
            let body = if end_of_stream { &[][..] } else { &self.body };
            let upgrades = |(name, value): &(Vec<u8>, Vec<u8>)| {
                name == b"upgrade"
                    || name == b":protocol"
                    || (name == b":method" && value == b"CONNECT")
            };
            let is_seen = end_of_stream || !self.headers.iter().any(upgrades);
            let body = if is_seen { RequestBody::Whole(body) } else { RequestBody::Unavailable };
            (self.expected, self.errors) = expected(policy, &self.headers, body);
        }
        let ended = self.stream.ended();
        let status = self.stream.request_headers(end_of_stream);
        self.forwarded |= status == hooks::CONTINUE;
        self.begun |= !ended;
    }

    fn more(&mut self, event: u8) {
        // After the end nothing more arrives, and before the headers nothing.
        self.ordered &= self.begun && !self.complete;
        let rest = std::mem::take(&mut self.body);
        let (part, rest) =
            if event == b'c' { rest.split_at(rest.len() / 2) } else { (&*rest, &[][..]) };
        let mut status = self.stream.request_body(part, event == b'b');
        if event == b't' && status != hooks::CONTINUE {
            status = self.stream.request_trailers();
        }
        self.body = rest.to_vec();
        self.complete |= event != b'c';
        assert!(status != hooks::CONTINUE || self.begun, "a body is forwarded");
        self.forwarded |= status == hooks::CONTINUE;
    }

    /// A response arrives once, to a request that was forwarded whole.
    fn answer(&mut self, event: u8) {
        if !self.ordered
            || !self.allowed()
            || !self.complete
            || self.answered
            || self.stream.ended()
        {
            return;
        }
        self.answered = true;
        let (status, body) = match event {
            b'r' => (&b"200"[..], self.response()),
            b'R' => (&b"200"[..], b"{\"items\":[]}".to_vec()),
            _ => (&b"503"[..], b"no".to_vec()),
        };
        let (first, rest) = body.split_at(body.len() / 2);
        self.stream.response_headers(&[(b":status", status), (b"content-length", b"1")], false);
        self.stream.response_body(first, false);
        self.stream.response_body(rest, true);
        let expected = match &self.errors {
            Some(errors) if status == b"200" => {
                errors.add_to(&body).map(|body| (&b"200"[..], body))
            }
            _ => Some((status, body)),
        };
        let headers = self.stream.answer_headers();
        let sent = headers.iter().find(|(name, _)| name == b":status").map(|(_, value)| &**value);
        match expected {
            Some((status, body)) => assert_eq!((sent, self.stream.answer()), (Some(status), body)),
            None => assert_eq!(sent, Some(&b"502"[..]), "another response is passed on"),
        }
    }

    /// The response to the items that were forwarded.
    fn response(&self) -> Vec<u8> {
        let of = |count: usize| {
            format!("{{\"took\":1,\"items\":[{}]}}", vec!["{}"; count].join(",")).into_bytes()
        };
        let is_response = |body: &Vec<u8>| {
            self.errors.as_ref().is_none_or(|errors| errors.add_to(body).is_some())
        };
        (0..EVENTS).map(of).find(is_response).unwrap_or_default()
    }

    fn allowed(&self) -> bool {
        self.forwarded || self.stream.resumed() > 0
    }

    fn decided(&self) -> bool {
        self.allowed() || self.stream.sent().is_some()
    }

    fn check(&self) {
        let Self { stream, expected, ordered, .. } = self;
        let sent = stream.sent();
        let allowed = self.allowed();
        let is_denied = matches!(expected, Decision::Denied(..));
        assert!(!allowed || !is_denied, "it is forwarded, not {expected:?}");
        if *ordered {
            assert!(!allowed || sent.is_none(), "it is forwarded and answered");
            assert!(stream.resumed() <= 1, "it is forwarded twice");
            match expected {
                Decision::AllowedInPart(headers, body) if allowed => {
                    assert_eq!((&stream.headers(), &stream.forwarded()), (headers, body));
                }
                Decision::Allowed(headers) if allowed => assert_eq!(&stream.headers(), headers),
                _ => {}
            }
            if let Some(sent) = sent {
                assert_eq!(&Decision::Denied(sent.status, sent.headers, sent.body), expected);
            }
        }
        assert_eq!(stream.late_commits(), 0, "an event is committed to a stream that has ended");
        assert!(!stream.ended() || stream.schedulers() == 0, "a scheduler is not deleted");
    }
}

impl World {
    fn new() -> Self {
        let fuzz = "it is a fuzzer's own";
        let config = |policy: &str| {
            let Ok(folder) = tempfile::tempdir() else { failed("no temporary folder") };
            let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes);
            let made = std::fs::create_dir(folder.path().join("cluster"));
            let written = made.and_then(|()| write("policy.yaml", policy.as_bytes()));
            let written = written.and_then(|()| write("jwks.json", KEYS));
            let files = CLUSTER.iter().map(|(name, bytes)| write(name, bytes));
            let written = written.and_then(|()| files.collect::<Result<Vec<()>, _>>());
            assert!(written.is_ok(), "{fuzz}: {written:?}");
            let config = format!(
                r#"{{"policy": "{}", "decision-log": "all", "decision-log-file": "/dev/null", "metadata": true,
                "poll-interval": "1h", "hash-timeout": "60s", "hash-threads": 2}}"#,
                folder.path().display()
            );
            (folder, config.into_bytes())
        };
        // The last good policy is kept when the folders are removed below.
        let ((_folder, one), (_other, two)) = (config(POLICY), config(OTHER));
        let Some(host) = Host::load(b"rolegate", &one) else { failed("the filter is rejected") };
        let Some(own) = Host::route(b"", &two) else { failed("the route is rejected") };
        let Some(disabled) = Host::route(b"", br#"{"disabled": true}"#) else {
            failed("it is rejected")
        };
        let basic = |both: &str| format!("Basic {}", STANDARD.encode(both));
        let credentials = [
            (&b"$ann"[..], basic("ann:password")),
            (b"$bob", basic("bob:password")),
            (
                b"$jwt",
                token(
                    r#"{"iss":"https://fuzz.example","aud":"fuzz","sub":"eve","roles":["reader"],"exp":4000000000}"#,
                ),
            ),
            (
                b"$old",
                token(
                    r#"{"iss":"https://fuzz.example","aud":"fuzz","sub":"eve","roles":["reader"],"exp":1000000000}"#,
                ),
            ),
        ];
        let (policy, other) = (authorizer(POLICY), authorizer(OTHER));
        Self { host, own, disabled, foreign: [0; 4], policy, other, credentials }
    }

    /// A stream with these headers: without a route's configuration (`n`), with a policy of its own
    /// (`o`), without authorization (`x`), with a configuration that is not ours (`f`), or one that
    /// ends when it is decided (`a`).
    fn stream(&'static self, headers: Lines, how: u8) -> Seen {
        let (own, headers): (Lines, Lines) =
            headers.into_iter().partition(|(name, _)| name.starts_with(b"@"));
        let (source, body): (Lines, Lines) =
            own.into_iter().partition(|(name, _)| name == b"@source");
        let body: Vec<u8> =
            body.into_iter().flat_map(|(_, line)| [&*line, b"\n"].concat()).collect();
        let lines: Vec<(&[u8], &[u8])> =
            headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let Some(mut stream) = self.host.stream(&lines) else { failed("a stream is not accepted") };
        for (_, address) in source {
            stream = stream.with_source_address(&address);
        }
        let (policy, fixed) = match how {
            b'o' => (Some(&self.other), None),
            b'x' => (None, Some(Decision::Allowed(headers.clone()))),
            b'f' => (None, Some(Decision::Denied(503, Vec::new(), Vec::new()))),
            _ => (Some(&self.policy), None),
        };
        let stream = match how {
            b'o' => stream.with_route(&self.own),
            b'x' => stream.with_route(&self.disabled),
            b'f' => stream.with_foreign_route(&self.foreign),
            b'a' => stream.ending_at_once(),
            b'u' => stream.ending_at_once_unheard(),
            b'p' => stream.with_last_part_apart(),
            _ => stream,
        };
        // Known when the headers arrive: nothing is decided before.
        let expected = fixed.unwrap_or(Decision::Denied(0, Vec::new(), Vec::new()));
        let (complete, forwarded, begun) = (false, false, false);
        let (errors, answered) = (None, false);
        Seen {
            stream,
            expected,
            errors,
            answered,
            headers,
            policy,
            body,
            complete,
            forwarded,
            ordered: true,
            begun,
        }
    }
}

/// What is decided about a request with these headers.
fn expected(
    authorizer: &Authorizer,
    headers: &Lines,
    body: RequestBody<'_>,
) -> (Decision, Option<Arc<BulkErrors>>) {
    let lines: Vec<Header<'_>> =
        headers.iter().map(|(name, value)| Header { name, value }).collect();
    let last = |name: &[u8]| {
        lines.iter().rfind(|line| line.name == name).map_or(&b""[..], |line| line.value)
    };
    let request = Request {
        method: last(b":method"),
        host: last(b":authority"),
        path: last(b":path"),
        id: last(b"x-request-id"),
        headers: &lines,
        body,
        can_change_bodies: true,
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let verdict = authorizer.check_inline(&request, &mut scratch, now);
    let line = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    match verdict {
        Verdict::Allowed(allowed) => {
            let mut after = headers.clone();
            for header in allowed.set() {
                after.retain(|(name, _)| *name != header.0.as_bytes());
                after.extend((!header.1.is_empty()).then(|| line(header)));
            }
            for name in allowed.remove() {
                after.retain(|(each, _)| *each != name.as_bytes());
            }
            let Some(bulk) = allowed.cluster.as_ref().and_then(|cluster| cluster.bulk.clone())
            else {
                return (Decision::Allowed(after), None);
            };
            let has_length = after.iter().any(|(name, _)| name == b"content-length");
            after.retain(|(name, _)| name != b"accept-encoding" && name != b"accept");
            after.push(line(("accept", "application/json")));
            if has_length {
                after.retain(|(name, _)| name != b"content-length");
                after.push(line(("content-length", &bulk.body.len().to_string())));
            }
            (Decision::AllowedInPart(after, bulk.body.to_vec()), Some(bulk.errors))
        }
        Verdict::Denied(denied) => {
            let headers =
                denied.headers.iter().map(|header| line((header.name, &header.value))).collect();
            let body = denied.body.as_bytes().to_vec();
            (Decision::Denied(u32::from(denied.reason.status()), headers, body), None)
        }
    }
}

fn authorizer(policy: &str) -> Authorizer {
    let others = [("jwks.json", KEYS), CLUSTER[0], CLUSTER[1]];
    let loaded = Memory::new(policy.as_bytes(), &others).load();
    let Ok(loaded) = loaded else { failed("a policy does not load") };
    let Ok((authorizer, _)) = Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None)
    else {
        failed("a policy does not compile")
    };
    authorizer
}

/// A token with these claims, signed with the key of [`KEYS`].
fn token(claims: &str) -> String {
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"h"}"#);
    let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[b'k'; 32]), text.as_bytes());
    format!("Bearer {text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[expect(clippy::panic, reason = "a fuzzer that does not start tests nothing, so it must fail")]
fn failed(why: &str) -> ! {
    panic!("{why}: {:?}", fake::logged())
}
