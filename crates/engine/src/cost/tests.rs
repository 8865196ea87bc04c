//! The cost of a decision is linear in the length of the path, for every policy and every path. The
//! tests count steps, so they do not fail on a slow machine.

use std::path::Path;

use document::Place;
use generator::Rng;
use policy::Policy;
use policy::model::{Role, Rule};
use policy::pattern::{Actions, Glob, Pattern, Scope, Segment};

use super::count;
use crate::{AccessRequest, Engine};

/// A policy, the parts from which hostile paths are made, and one part that occurs in no pattern.
struct Hostile {
    name: &'static str,
    scopes: Vec<&'static str>,
    patterns: Vec<String>,
    before: &'static str,
    parts: Vec<String>,
}

fn each(count: usize, pattern: impl Fn(usize) -> String) -> Vec<String> {
    (1..=count).map(pattern).collect()
}

fn hostile(name: &'static str, patterns: Vec<String>, parts: &[&str]) -> Hostile {
    let parts = parts.iter().map(|part| (*part).to_owned()).collect();
    Hostile { name, scopes: Vec::new(), patterns, before: "/", parts }
}

fn hostiles() -> Vec<Hostile> {
    let words = ["error", "warn", "aaa", "debug", "trace", "fatal"];
    let word = |n: usize| words[n % words.len()];
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 20).unwrap());
    vec![
        hostile(
            "pieces",
            each(6, |n| format!("/*{}*", word(n))),
            &["z", "a", "aaa", "error", "erro", "warn"],
        ),
        hostile("one piece", vec!["/*aaab*".into()], &["a", "b", "aaa"]),
        hostile(
            "lengths",
            each(60, |n| format!("/*{}{}*", "a".repeat(n), n % 7)),
            &["a", "0", "1", "6"],
        ),
        hostile("nested", each(60, |n| format!("/*{}*", "a".repeat(n))), &["a", "b", "aaaaaaaa"]),
        hostile(
            "nested, then more",
            each(60, |n| format!("/*{}*b{n}*", "a".repeat(n))),
            &["a", "b1", "b60", "b"],
        ),
        hostile(
            "same longest",
            each(300, |n| format!("/*longest*{}*", n)),
            &["longest", "1", "300", "0"],
        ),
        hostile("same first", each(300, |n| format!("/*a*b{n}*")), &["a", "b", "b1", "b299"]),
        hostile(
            "same last",
            each(300, |n| format!("/*{}{n}*x*", letter(n))),
            &["a1", "b2", "x", "c13"],
        ),
        hostile(
            "several",
            each(90, |n| format!("/*{}*{}*{}*", letter(n), letter(n / 3), letter(n / 7))),
            &["a", "b", "ccc", "tsr"],
        ),
        hostile(
            "ends",
            each(60, |n| format!("/{}*{}", "a".repeat(n), "b".repeat(61 - n))),
            &["a", "b", "aaaa", "bbbb"],
        ),
        hostile("ends and middle", each(60, |n| format!("/a*m{n}*b")), &["a", "m", "m1", "b"]),
        hostile(
            "triplets",
            each(40, |n| format!("/*{:02}%4{}*", n, n % 10)),
            &["%40", "4", "0", "%44", "40%40"],
        ),
        hostile(
            "triplet ends",
            each(40, |n| format!("/%40*{}0", "%40".repeat(n))),
            &["%40", "4", "0"],
        ),
        Hostile {
            before: "/aaa0/",
            ..hostile(
                "nodes",
                each(400, |n| format!("/*{}*/*{}*{}*", n % 10, letter(n), n / 20)),
                &["a", "b", "0", "9"],
            )
        },
        Hostile {
            before: "/x1/",
            ..hostile(
                "nodes with few",
                each(40, |n| format!("/*{}*/*ab*c*", ["x", "1", "x1", "/"][n % 3])),
                &["ab", "c", "a"],
            )
        },
        Hostile {
            before: "/zabc/",
            ..hostile(
                "users",
                vec!["/*a*/{user}".into(), "/*b*/{user}".into(), "/{id}/{user}".into()],
                &["alice", "z"],
            )
        },
        Hostile {
            scopes: vec!["*.test", "*.a.test", "*.a.a.test", "a.a.a.test"],
            ..hostile("scopes", each(12, |n| format!("/*{}*", letter(n))), &["a", "b", "c"])
        },
        hostile(
            "segments",
            each(8, |n| format!("{}/*{}*", "/*a*".repeat(n), letter(n))),
            &["a", "/", "a/", "b"],
        ),
        hostile("literals", each(40, |n| format!("/{}", "a".repeat(n * 20))), &["a", "b"]),
    ]
}

impl Hostile {
    fn engine(&self) -> Engine {
        let at = Place::start_of(Path::new("policy.yaml"));
        let scope = |text: &&str| {
            text.strip_prefix("*.")
                .map_or_else(|| Scope::Exact((*text).into()), |suffix| Scope::Below(suffix.into()))
        };
        // One rule for each scope, so that each scope has its own patterns.
        let scopes: Vec<Vec<Scope>> = std::iter::once(Vec::new())
            .chain(self.scopes.iter().map(|text| vec![scope(text)]))
            .collect();
        let allow = scopes.into_iter().map(|scopes| Rule {
            name: "rule".into(),
            actions: Actions::Any,
            scopes,
            resources: self.patterns.iter().map(|text| pattern(text)).collect(),
            when: None,
            at: at.clone(),
        });
        let role = Role {
            name: "anyone".into(),
            extends: Vec::new(),
            allow: allow.collect(),
            deny: Vec::new(),
            when: None,
            at: at.clone(),
        };
        Engine::compile(&Policy { roles: vec![role].into(), ..Policy::default() })
    }

    /// The total size of all patterns: the bound on the part of a decision's cost that does not
    /// grow with the path.
    fn size(&self) -> u64 {
        let pieces: usize = self.patterns.iter().map(|text| text.split(['*', '/']).count()).sum();
        u64::try_from(pieces * (1 + self.scopes.len())).unwrap()
    }

    /// Repeats the parts in this order up to this length.
    fn path(&self, order: &[usize], length: usize) -> String {
        let mut path = self.before.to_owned();
        for part in order.iter().cycle() {
            let part = &self.parts[*part];
            if path.len() + part.len() > length {
                return path;
            }
            path.push_str(part);
        }
        path
    }

    fn harmless(&self, length: usize) -> String {
        format!("/{}", "~".repeat(length - 1))
    }
}

fn pattern(text: &str) -> Pattern {
    let segments = text.strip_prefix('/').unwrap().split('/').map(|part| match part {
        "{user}" => Segment::User,
        _ if part.starts_with('{') => Segment::Any(part.into()),
        _ if part.contains('*') => Segment::Glob(Glob(part.split('*').map(Into::into).collect())),
        _ => Segment::Literal(part.into()),
    });
    Pattern { absolute: true, segments: segments.collect(), open_ended: false }
}

fn steps(engine: &Engine, path: &str) -> u64 {
    count(|| {
        let request =
            AccessRequest { action: b"GET", scope: b"a.a.a.test", resource: path.as_bytes() };
        let _ = engine.decide(
            engine.anonymous(),
            Some(crate::PatternSubject::named(b"alice")),
            request,
        );
    })
}

/// The steps of a pass for each byte of the path: up to two of the automaton, one for the piece
/// found, and one for the waiting step on which it is tried. Harmless bytes take one.
const PER_BYTE: u64 = 4;

/// Random orders of the parts, and each part alone.
fn orders(hostile: &Hostile, rng: &mut Rng) -> Vec<Vec<usize>> {
    let parts = hostile.parts.len();
    let mut orders: Vec<Vec<usize>> = (0..parts).map(|part| vec![part]).collect();
    orders.extend(
        (0..20).map(|_| (0..1 + rng.below(40)).map(|_| rng.below(parts)).collect::<Vec<_>>()),
    );
    orders
}

#[test]
fn twice_the_length_is_twice_the_cost_at_most() {
    let mut rng = Rng::new(1);
    for hostile in hostiles() {
        let engine = hostile.engine();
        for order in orders(&hostile, &mut rng) {
            // Long enough for every piece of the policy to occur several times.
            let [once, twice] =
                [16 << 10, 32 << 10].map(|length| steps(&engine, &hostile.path(&order, length)));
            let [harmless, harmless_twice] =
                [16 << 10, 32 << 10].map(|length| steps(&engine, &hostile.harmless(length)));
            let name = hostile.name;
            assert!(twice <= 2 * once + hostile.size(), "{name}, {order:?}: {once}, then {twice}");
            assert!(
                twice <= PER_BYTE * (32 << 10) + 2 * hostile.size(),
                "{name}, {order:?}: {twice}"
            );
            assert!(harmless_twice <= 2 * harmless, "{name}: {harmless}, then {harmless_twice}");
        }
    }
}

/// Hill climbing from a random path to ever more costly ones, within the length limit of a segment.
#[test]
fn no_path_that_is_found_by_climbing_costs_more_than_its_length_and_the_policy() {
    const LENGTH: usize = 4096;
    for hostile in hostiles() {
        let engine = hostile.engine();
        let mut rng = Rng::new(1);
        let mut best: (u64, Vec<usize>) =
            (0, (0..600).map(|_| rng.below(hostile.parts.len())).collect());
        for _ in 0..300 {
            let mut order = best.1.clone();
            for _ in 0..1 + rng.below(20) {
                let (from, to, length) =
                    (rng.below(order.len()), rng.below(order.len()), rng.below(30));
                let part = rng.below(hostile.parts.len());
                for place in 0..length {
                    let copied = order[(from + place) % order.len()];
                    let length = order.len();
                    order[(to + place) % length] = if from % 2 == 0 { copied } else { part };
                }
            }
            let cost = steps(&engine, &hostile.path(&order, LENGTH));
            if cost >= best.0 {
                best = (cost, order);
            }
        }
        let most = PER_BYTE * u64::try_from(LENGTH).unwrap() + 4 * hostile.size();
        assert!(best.0 <= most, "{}: {} steps, not {most}", hostile.name, best.0);
    }
}
