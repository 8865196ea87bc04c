//! What the worst path costs that a search finds, for policies whose globs are made to be hard to
//! match: the decision about it, beside that about a harmless path of the same length.
//!
//! A client chooses its path, so this ratio says by how much one can make its requests dearer. The
//! search climbs: from a random path by small changes, of which the costlier ones are kept. It has
//! a seed and a bounded number of rounds; what is costly is timed, as the least of several times,
//! so two runs find different paths of about the same cost. Only the steps of matching are the same
//! everywhere: they are bounded in the engine's own tests.
//!
//! Criterion then times both paths; the worst ratio of each policy is a note.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that fails ends, and says what it found"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::note::note;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use document::Place;
use engine::{AccessRequest, Decision, Engine};
use generator::Rng;
use policy::Policy;
use policy::model::{Role, Rule};
use policy::pattern::{Actions, Glob, Pattern, Segment};

/// No segment of a canonical path is longer.
const SEGMENT: usize = 4096;
/// What Envoy lets through.
const PATH: usize = 60 << 10;

/// Patterns of `deny` rules, and the parts that paths are made of.
struct Hostile {
    name: &'static str,
    patterns: Vec<String>,
    before: &'static str,
    parts: Vec<&'static str>,
    /// How long its paths are.
    length: usize,
}

fn hostiles() -> Vec<Hostile> {
    let each =
        |count, pattern: fn(usize) -> String| -> Vec<String> { (0..count).map(pattern).collect() };
    let words = ["error", "warn", "aaa", "debug", "trace", "fatal"];
    let words = words.map(|word| format!("/*{word}*")).to_vec();
    let hostile = |name, patterns, parts: &[&'static str]| Hostile {
        name,
        patterns,
        before: "/",
        parts: parts.to_vec(),
        length: SEGMENT,
    };
    vec![
        hostile(
            "words",
            words.clone(),
            &["z", "a", "aaa", "error", "erro", "warn", "debu", "fatal"],
        ),
        Hostile {
            length: PATH,
            ..hostile("words, 60 KiB", words, &["z", "a", "aaa", "error", "erro", "warn"])
        },
        hostile("few", vec!["/*aaaaaaab*".into(), "/*abab*ac*".into()], &["a", "b", "aaaa", "ab"]),
        hostile(
            "nested",
            each(60, |n| format!("/*{}*", "a".repeat(n + 1))),
            &["a", "b", "aaaaaaaa", "z"],
        ),
        hostile(
            "same first",
            each(300, |n| format!("/*a*b{n}*")),
            &["a", "b", "b1", "b299", "b12", "z"],
        ),
        hostile(
            "many",
            each(10_000, |n| format!("/*w{n:05}*x{}*", n % 100)),
            &["w", "w0", "w01", "w02345", "x7", "x", "9"],
        ),
        hostile(
            "logs",
            each(10_000, |n| format!("/logs-{n:05}-*.gz")),
            &["logs-00001-", "logs-", "0", ".gz", "z"],
        ),
        hostile(
            "triplets",
            each(40, |n| format!("/*{n:02}*%4{}*", n % 10)),
            &["%40", "4", "0", "%44", "z"],
        ),
        Hostile {
            before: "/a0b1/",
            ..hostile(
                "nodes",
                each(100, |n| format!("/*{}*/*b{n}*a*", ["a", "0", "b", "1"][n % 4])),
                &["a", "b", "b7", "b12", "z"],
            )
        },
        hostile(
            "segments",
            each(8, |n| format!("{}/*a{n}*", "/*a*".repeat(n))),
            &["a", "/", "a/", "/a7", "z"],
        ),
    ]
}

impl Hostile {
    /// Denies everybody the patterns, and allows everything else: whatever is not found shows in
    /// the answer.
    fn engine(&self) -> Engine {
        let at = Place::start_of(std::path::Path::new("policy.yaml"));
        let rule = |resources| Rule {
            name: "rule".into(),
            actions: Actions::Any,
            scopes: Vec::new(),
            resources,
            when: None,
            at: at.clone(),
        };
        let everything = Pattern { absolute: true, segments: Vec::new(), open_ended: true };
        let role = Role {
            name: "anyone".into(),
            extends: Vec::new(),
            allow: vec![rule(vec![everything])],
            deny: vec![rule(self.patterns.iter().map(|text| pattern(text)).collect())],
            when: None,
            at: at.clone(),
        };
        Engine::compile(&Policy { roles: vec![role].into(), ..Policy::default() })
    }

    fn denies(&self, path: &str) -> bool {
        self.patterns.iter().any(|text| pattern(text).matches(path.as_bytes(), None))
    }

    /// Parts in this order, and again from the start, up to the length.
    fn path(&self, order: &[usize]) -> String {
        let mut path = self.before.to_owned();
        for part in order.iter().cycle() {
            let part = self.parts[*part];
            if path.len() + part.len() > self.length {
                break;
            }
            path.push_str(part);
        }
        path.push_str(&"z".repeat(self.length - path.len()));
        path
    }

    /// As long, with segments where the others have theirs, of a character that no pattern has.
    fn harmless(&self) -> String {
        let segments = self.before.matches('/').count();
        let before = if segments > 1 { self.before } else { "/" };
        format!("{before}{}", "~".repeat(self.length - before.len()))
    }

    /// The worst of so many paths.
    fn worst(&self, engine: &Engine, evaluations: usize) -> String {
        let mut rng = Rng::new(7);
        let parts = self.parts.len();
        let mut best: (Duration, Vec<usize>) = (Duration::ZERO, vec![0]);
        for number in 0..evaluations {
            let order = if number < parts {
                vec![number]
            } else if number < evaluations / 4 {
                (0..1 + rng.below(60)).map(|_| rng.below(parts)).collect()
            } else {
                changed(&best.1, parts, &mut rng)
            };
            let cost = least(engine, &self.path(&order), 5);
            if cost >= best.0 {
                // A path that was only disturbed when it was timed does not stay the best.
                let again = least(engine, &self.path(&order), 20);
                let known = least(engine, &self.path(&best.1), 20);
                best = if again >= known { (again, order) } else { (known, best.1) };
            }
        }
        self.path(&best.1)
    }
}

/// With some parts copied to somewhere else, put in, taken out, or changed.
fn changed(order: &[usize], parts: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order = order.to_vec();
    for _ in 0..1 + rng.below(6) {
        let (from, to) = (rng.below(order.len()), rng.below(order.len()));
        match rng.below(4) {
            0 => order[to] = rng.below(parts),
            1 => order.insert(to, rng.below(parts)),
            2 if order.len() > 1 => drop(order.remove(to)),
            2 => {}
            _ => {
                let end = (from + 1 + rng.below(20)).min(order.len());
                let copied = order[from..end].to_vec();
                order.splice(to..to, copied);
            }
        }
    }
    order.truncate(4_000);
    order
}

fn pattern(text: &str) -> Pattern {
    let segments = text.strip_prefix('/').unwrap().split('/');
    let glob = |part: &str| Segment::Glob(Glob(part.split('*').map(Into::into).collect()));
    Pattern { absolute: true, segments: segments.map(glob).collect(), open_ended: false }
}

fn decide(engine: &Engine, path: &str) -> Decision {
    let request = AccessRequest {
        action: b"GET",
        scope: b"api.example.com",
        resource: black_box(path.as_bytes()),
    };
    engine.decide(engine.anonymous(), None, request)
}

/// The least of so many times.
fn least(engine: &Engine, path: &str, times: usize) -> Duration {
    let time = || {
        let start = Instant::now();
        let _ = black_box(decide(engine, path));
        start.elapsed()
    };
    (0..times).map(|_| time()).min().unwrap_or_default()
}

fn hostile(criterion: &mut Criterion) {
    // As criterion decides it: `cargo test` leaves `--bench` out.
    let given = |flag| std::env::args().any(|argument| argument == flag);
    let testing = given("--test") || !given("--bench");
    for hostile in hostiles() {
        let engine = hostile.engine();
        let evaluations = if testing {
            20
        } else if hostile.length > SEGMENT {
            600
        } else {
            2_000
        };
        let worst = hostile.worst(&engine, evaluations);
        let harmless = hostile.harmless();
        assert_eq!(worst.len(), harmless.len());
        for path in [&worst, &harmless] {
            assert_eq!(
                matches!(decide(&engine, path), Decision::Denied(_)),
                hostile.denies(path),
                "{path}"
            );
        }
        let times = if testing { 1 } else { 200 };
        let [worst_time, harmless_time] =
            [&worst, &harmless].map(|path| least(&engine, path, times).as_secs_f64());
        let ratio = worst_time / harmless_time;
        let name = hostile.name;
        let shown: String = worst.chars().take(60).collect();
        println!(
            "hostile/{name}: {ratio:.2} ({:.1} and {:.1} µs): {shown}…",
            worst_time * 1e6,
            harmless_time * 1e6
        );
        note(&format!("hostile/{}/ratio", name.replace(',', "")), "ratio", ratio).unwrap();
        let mut group = criterion.benchmark_group(format!("hostile/{}", name.replace(',', "")));
        for (kind, path) in [("worst", &worst), ("harmless", &harmless)] {
            group.bench_function(BenchmarkId::from_parameter(kind), |bencher| {
                bencher.iter(|| decide(&engine, path));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20);
    targets = hostile
}
criterion_main!(benches);
