//! What conditions cost: a decision whose rule has none, one comparison or three, alone and among
//! 10,000 rules with conditions. The caller is known, as in a running server.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails ends")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use condition::{CallerClaims, CallerInputs, Fault, Headers, RequestInputs, Timestamp};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use document::MapFiles;
use engine::{AccessRequest, ConditionInputs, Decision, Engine, PatternSubject};

/// The condition of a rule: the number of comparisons, and the text.
const CONDITIONS: [(&str, &str); 6] = [
    ("none", ""),
    ("header", "request.headers['x-level'] == '2'"),
    ("address", "cidr('10.0.0.0/8').containsIP(source.ip)"),
    ("hour", "request.time.getHours('Europe/Berlin') in [8, 9, 10, 11, 12]"),
    ("claim", "claims.tenant == path.id"),
    (
        "three",
        "request.headers['x-level'] == '2' && cidr('10.0.0.0/8').containsIP(source.ip) \
         && request.time.getHours('Europe/Berlin') in [8, 9, 10, 11, 12]",
    ),
];

/// The header lines of a usual request.
struct Lines([(&'static [u8], &'static [u8]); 12]);

impl Headers for Lines {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        let mut lines = self.0.iter().filter(|(line, _)| *line == name.as_bytes());
        match (lines.next(), lines.next()) {
            (Some((_, value)), None) => Ok(value),
            (Some(_), Some(_)) => Err(Fault::Repeated),
            (None, _) => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

const LINES: Lines = Lines([
    (b":authority", b"api.example.com"),
    (b":path", b"/v1/area-7/acme"),
    (b":method", b"GET"),
    (b":scheme", b"http"),
    (b"accept", b"*/*"),
    (b"authorization", b"Bearer example"),
    (b"user-agent", b"example/1.0"),
    (b"x-forwarded-for", b"10.1.2.3"),
    (b"x-forwarded-proto", b"http"),
    (b"x-level", b"2"),
    (b"x-request-id", b"1f2c83c5-4f6c-4b6e-9d8f-2f5b1f0c7a11"),
    (b"x-envoy-expected-rq-timeout-ms", b"15000"),
]);

fn policy(rules: usize, when: &str) -> policy::Policy {
    let mut text = "version: 1\nroles:\n  authenticated:\n    allow:\n".to_owned();
    for rule in 0..rules {
        let _ = match when {
            "" => writeln!(text, "      - GET /v1/area-{rule}/{{id}}"),
            when => {
                let level = format!("x-level'] == '{}", if rule == 7 { 2 } else { rule + 3 });
                let when = when.replace("x-level'] == '2", &level);
                writeln!(
                    text,
                    "      - {{ rule: \"GET /v1/area-{rule}/{{id}}\", when: \"{when}\" }}"
                )
            }
        };
    }
    text += "identity: { basic: { verify: false } }\n";
    policy::load(&MapFiles::new("policy.yaml", text), Path::new("policy.yaml")).unwrap().policy
}

fn decisions(criterion: &mut Criterion) {
    let claims: serde_json::Value = serde_json::json!({ "tenant": "acme" });
    let time: Timestamp = "2026-06-01T08:00:00Z".parse().unwrap();
    for rules in [10, 10_000] {
        for (name, when) in CONDITIONS {
            let engine = Engine::compile(&policy(rules, when));
            let roles = engine.roles_of("alice", [], []);
            let caller = CallerInputs {
                user: Some("alice"),
                claims: CallerClaims::Known(claims.as_object().unwrap()),
                ..CallerInputs::default()
            };
            let caller = engine.caller_conditions(&roles, caller);
            let inputs = ConditionInputs {
                request: RequestInputs {
                    query: Some(b""),
                    headers: Some(&LINES),
                    time: Some(time),
                    client: "10.1.2.3".parse().ok(),
                    ..RequestInputs::default()
                },
                caller: caller.as_ref(),
                steps_left: None,
            };
            let mut group = criterion.benchmark_group(format!("conditions/{name}"));
            group.bench_function(BenchmarkId::from_parameter(rules), |bencher| {
                bencher.iter(|| {
                    let request = black_box(AccessRequest {
                        action: b"GET",
                        scope: b"api.example.com",
                        resource: b"/v1/area-7/acme",
                    });
                    let subject = Some(PatternSubject::named(b"alice"));
                    let decision = engine.decide_with(&roles, subject, request, &inputs);
                    assert!(matches!(decision, Decision::Allowed(_)), "{name}");
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
