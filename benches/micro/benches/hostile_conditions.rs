//! What the worst request costs that a search finds, for thoughtless conditions: the decision about
//! it, beside that about a harmless request of the same size.
//!
//! The policy's author writes the conditions, within the limits of the language; a client chooses
//! 64 KiB of its request, and lists of claims. The search chooses both, by climbing: a list of
//! choices is read as a condition and a request, small changes are made to it, and the costlier
//! ones are kept. It has a seed, and ends after a number of seconds: what is costly is timed, so
//! two runs find different requests of about the same cost. Only the steps of evaluation are the
//! same everywhere: they are bounded in the tests of `condition`.
//!
//! The worst ratio and time of each kind are notes.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that fails ends, and says what it found"
)]

use std::cell::Cell;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use benches::note::note;
use condition::{CallerClaims, CallerInputs, Fault, Headers, RequestInputs};
use document::MapFiles;
use engine::{AccessRequest, ConditionInputs, Engine};
use generator::Rng;
use serde_json::{Value, json};

/// The bytes of a request that its client chooses.
const SIZE: usize = 64 << 10;
/// The bytes of claims that a token of 16 KiB has.
const CLAIMS: usize = 12_000;
/// Header lines that the server accepts.
const LINES: usize = 9_000;

/// A kind of conditions.
struct Kind {
    name: &'static str,
    /// The number of rules with such a condition that match the request.
    rules: usize,
    condition: fn(&mut Choices<'_>) -> String,
}

const KINDS: [Kind; 9] = [
    Kind { name: "text", rules: 1, condition: |choices| choices.text_test() },
    Kind { name: "regex", rules: 1, condition: |choices| choices.regex() },
    Kind {
        name: "text in exists",
        rules: 1,
        condition: |choices| format!("claims.a.exists(x, {})", choices.text_test()),
    },
    Kind {
        name: "text of items",
        rules: 1,
        condition: |choices| {
            let text = choices.text();
            format!("[[{text}, {text}]].exists(l, l.exists(x, claims.a.exists(y, x == y)))")
        },
    },
    Kind {
        name: "query in exists",
        rules: 1,
        condition: |_| "claims.a.exists(x, x == request.query['q'])".to_owned(),
    },
    Kind {
        name: "header in exists",
        rules: 1,
        condition: |_| "claims.a.exists(x, x == request.headers['x-b'])".to_owned(),
    },
    Kind {
        name: "claims",
        rules: 1,
        condition: |choices| {
            let many = vec!["x == y"; 1 + choices.below(40)].join(" && ");
            let inner = choices.one_of(&["x == y", "x in claims.a", "size(x) == 1", &many]);
            let path = "request.path == '/b' || ";
            format!("{path}claims.a.exists(x, claims.a.all(y, {inner} && request.path == '/a'))")
        },
    },
    Kind { name: "100 rules", rules: 100, condition: |choices| choices.text_test() },
    Kind {
        name: "1000 rules of claims",
        rules: 1_000,
        condition: |choices| {
            let wanted = choices.one_of(&["1", "'b'", "[1]", "claims.a"]);
            format!("request.path == '/a' && claims.a.exists(x, x == {wanted})")
        },
    },
];

/// A list of choices, read from its start.
struct Choices<'c> {
    list: &'c [usize],
    next: usize,
}

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.next += 1;
        self.list[(self.next - 1) % self.list.len()] % end
    }

    fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn text(&mut self) -> String {
        let text = self.one_of(&["request.headers['x-a']", "request.query['q']"]);
        format!("{text}{}", self.one_of(&["", ".lowerAscii()", ".lowerAscii().lowerAscii()"]))
    }

    fn text_test(&mut self) -> String {
        let text = self.text();
        match self.below(7) {
            0 => format!("{text}.contains('{}')", self.one_of(&["aaaab", "ab", "z%"])),
            1 => format!("{text} == 'a'"),
            2 => format!("size({text}) == 1"),
            3 => format!("timestamp({text}) < request.time"),
            4 => format!("duration({text}) < duration('1h')"),
            5 => format!("ip({text}) == source.ip"),
            _ => format!("{text}.matches('{}')", self.one_of(&["a.*b$", "^(a|b)+c", "a+b"])),
        }
    }

    fn regex(&mut self) -> String {
        let count = 1 + self.below(300);
        let pattern = match self.below(5) {
            0 => format!("a[ab]{{{count}}}c"),
            1 => format!("(a|b)*a.{{0,{count}}}c"),
            2 => format!("(?i)(\\\\\\\\pL{{1,{}}}c)+$", 1 + count / 20),
            3 => format!("([ab]+a){{{}}}c", 1 + count / 10),
            _ => format!("a(.{{{}}}|b.*c)+d", 1 + count / 4),
        };
        format!("request.headers['x-a'].matches('{pattern}')")
    }
}

/// What a client chooses.
struct Request {
    headers: Vec<(String, String)>,
    query: String,
    claims: Value,
}

impl Headers for Request {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        let mut lines = self.headers.iter().filter(|(line, _)| line == name);
        match (lines.next(), lines.next()) {
            (Some((_, value)), None) => Ok(value.as_bytes()),
            (Some(_), Some(_)) => Err(Fault::Repeated),
            (None, _) => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.headers.len()
    }
}

impl Request {
    fn hostile(choices: &mut Choices<'_>) -> Self {
        let parts: Vec<&str> = (0..1 + choices.below(4))
            .map(|_| choices.one_of(&["a", "b", "A", "é", "0h", "1.5s", "ab", "aaaab", "1:"]))
            .collect();
        // A text that repeats itself shows a pattern few states.
        let mut order = Rng::new(9);
        let mut header = String::new();
        while header.len() < SIZE {
            header.push_str(parts[order.below(parts.len())]);
        }
        let pair = choices.one_of(&["%&", "&", "%61=1&", "a=1&", "z+&", "r"]);
        let query =
            pair.repeat((SIZE - SIZE / 4) / pair.len()) + "&q=" + &parts.concat().repeat(2_000);
        let line = |number: usize| (format!("x-{}", number % 10), String::new());
        let headers = match choices.below(3) {
            0 => (0..LINES).map(line).collect(),
            _ => vec![("x-a".to_owned(), header)],
        };
        let lists = choices.below(3);
        let item = match choices.below(5) {
            0 => json!(1),
            1 => json!("a"),
            2 => json!([1, 1, 1, 1]),
            3 => (0..30).fold(json!(1), |inner, _| json!([inner])),
            _ => json!("a".repeat(60)),
        };
        let length = CLAIMS / (item.to_string().len() + 1);
        let length = if lists == 0 { length } else { length.min(1 + choices.below(length)) };
        Self { headers, query, claims: json!({ "a": vec![item; length] }) }
    }

    /// As large, but without what conditions read.
    fn harmless() -> Self {
        let headers = vec![("x-other".to_owned(), "~".repeat(SIZE))];
        Self { headers, query: String::new(), claims: json!({ "other": "~".repeat(CLAIMS) }) }
    }

    /// The least of so many times: of a decision, and of what is computed once for a caller.
    fn time(&self, engine: &Engine, times: usize) -> (Duration, Duration) {
        let roles = engine.roles_of("alice", [], []);
        let caller = CallerInputs {
            user: Some("alice"),
            claims: CallerClaims::Known(self.claims.as_object().unwrap()),
            ..CallerInputs::default()
        };
        let start = Instant::now();
        let of_caller = engine.caller_conditions(&roles, caller);
        let new_caller = start.elapsed();
        let inputs = ConditionInputs {
            request: RequestInputs {
                query: Some(self.query.as_bytes()),
                headers: Some(self),
                time: "2026-06-01T08:00:00Z".parse().ok(),
                client: "10.1.2.3".parse().ok(),
                ..RequestInputs::default()
            },
            caller: of_caller.as_ref(),
            ..ConditionInputs::default()
        };
        let request = AccessRequest { action: b"GET", scope: b"api.example.com", resource: b"/a" };
        let time = || {
            // As a server bounds it.
            let steps_left = Cell::new(10 * condition::MAX_STEPS);
            let inputs = ConditionInputs { steps_left: Some(&steps_left), ..inputs };
            let start = Instant::now();
            let _ = black_box(engine.decide_with(&roles, None, black_box(request), &inputs));
            start.elapsed()
        };
        let first = time();
        // A decision of seconds needs no second time.
        let times = if first > Duration::from_millis(50) { 0 } else { times };
        ((0..times).map(|_| time()).fold(first, Duration::min), new_caller)
    }
}

/// An engine with so many rules that deny under this condition; each has another text.
fn engine(kind: &Kind, condition: &str) -> Option<Engine> {
    let mut text =
        "version: 1\nidentity: { basic: { verify: false } }\nroles:\n  authenticated:\n    \
                    allow: ['GET /**']\n    deny:\n"
            .to_owned();
    for rule in 0..kind.rules {
        let when = format!("{condition} && user != 'u{rule}'");
        let when = when.replace("x ==", &format!("{rule} != 2000 && x =="));
        let _ = writeln!(text, "      - {{ rule: \"GET /**\", when: \"{when}\" }}");
    }
    let loaded = policy::load(&MapFiles::new("policy.yaml", text), Path::new("policy.yaml"));
    // Not every pattern is accepted.
    Some(Engine::compile(&loaded.ok()?.policy))
}

fn measure(kind: &Kind, list: &[usize], times: usize) -> Option<(f64, String)> {
    let mut choices = Choices { list, next: 0 };
    let condition = (kind.condition)(&mut choices);
    let request = Request::hostile(&mut choices);
    let engine = engine(kind, &condition)?;
    let (decision, new_caller) = request.time(&engine, times);
    let (harmless, _) = Request::harmless().time(&engine, times);
    let shown = format!(
        "{:.3} ms, harmless {:.4} ms, new caller {:.3} ms: {condition}",
        decision.as_secs_f64() * 1e3,
        harmless.as_secs_f64() * 1e3,
        new_caller.as_secs_f64() * 1e3
    );
    Some(((decision + new_caller).as_secs_f64() * 1e3, shown))
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (seconds, rounds) = if is_bench { (8, 400) } else { (0, 3) };
    for kind in KINDS {
        let mut rng = Rng::new(7);
        let start = Instant::now();
        let mut best: (f64, String, Vec<usize>) = (0.0, String::new(), vec![0]);
        for round in 0..rounds {
            if round >= 3 && start.elapsed() > Duration::from_secs(seconds) {
                break;
            }
            let mut list = best.2.clone();
            if round < rounds / 3 {
                list = (0..16).map(|_| rng.below(1_000)).collect();
            } else {
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(list.len());
                    list[at] = rng.below(1_000);
                }
            }
            if let Some((cost, shown)) = measure(&kind, &list, 3)
                && cost > best.0
            {
                best = (cost, shown, list);
            }
        }
        let (cost, shown) = measure(&kind, &best.2, 20).unwrap();
        println!("hostile conditions/{}: {shown}", kind.name);
        note(&format!("hostile conditions/{}", kind.name), "ms", cost).unwrap();
    }
}
