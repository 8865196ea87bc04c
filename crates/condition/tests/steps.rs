//! Evaluation ends after a number of steps, whatever a client sends.

use std::cell::Cell;
use std::sync::Arc;

use condition::{
    Attribute, CallerClaims, CallerInputs, CallerParts, Condition, Constant, Expression, Fault,
    Headers, Inputs, NamedConditions, Placeholders, RequestInputs, evaluate, holds,
};
use serde_json::{Value, json};

/// The header `x-a`, among so many lines.
struct Lines(String, usize);

impl Headers for Lines {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        if name == "x-a" { Ok(self.0.as_bytes()) } else { Err(Fault::Absent) }
    }

    fn count(&self) -> usize {
        self.1
    }
}

/// The longest header that Envoy sends by default, and the lines that it may send.
const LONG: usize = 60 << 10;
const LINES: usize = 10_000;

fn parse(text: &str) -> Arc<Expression> {
    let condition = Condition::parse(&text.into(), &NamedConditions::default());
    condition.unwrap_or_else(|error| panic!("{text}: {error:?}")).expression
}

/// The fault of a condition, for a header or a query of this length and these claims.
fn fault(text: &str, length: usize, claims: &Value) -> Option<Fault> {
    let lines = Lines("a".repeat(length), if length > 100 { LINES } else { 10 });
    let query = format!("{}&q=a", "%&".repeat(length / 2));
    let caller = CallerInputs {
        user: Some(&lines.0),
        issuer: Some(&lines.0),
        claims: CallerClaims::Known(claims.as_object().unwrap()),
        ..CallerInputs::default()
    };
    let request = RequestInputs {
        path: lines.0.as_bytes(),
        headers: Some(&lines),
        query: Some(query.as_bytes()),
        time: "2026-06-01T08:00:00Z".parse().ok(),
        client: "10.0.0.1".parse().ok(),
        ..RequestInputs::default()
    };
    let inputs = Inputs { request, caller: Some(&caller), ..Inputs::default() };
    evaluate(&parse(text), &inputs).err()
}

/// What reads a text takes steps for its length. A list of claims takes it often.
#[test]
fn texts_in_exists_are_bounded() {
    let claims = json!({ "a": vec!["b"; 100] });
    for test in [
        "request.headers['x-a'] == x",
        "request.headers['x-a'] < x",
        "request.headers['x-b'] == x",
        "'x-a' in request.headers && x == 'c'",
        "request.query['q'] == x",
        "request.path == x",
        "user.contains('b')",
        "user.startsWith(issuer)",
        "user > issuer",
        "user == issuer",
        "user.matches('b+')",
        "size(user) == 1",
        "user.lowerAscii() == x",
        "timestamp(user) < request.time",
        "duration(user) < duration('1h')",
        "ip(user) == source.ip",
        "[user] == [issuer]",
    ] {
        let text = format!("claims.a.exists(x, !({test}) && x == 'c')");
        assert_eq!(fault(&text, LONG, &claims), Some(Fault::TooLong), "{test}");
        assert_ne!(fault(&text, 10, &claims), Some(Fault::TooLong), "{test}");
    }
}

/// An item that an `exists` looks at is copied.
#[test]
fn texts_that_are_items_are_bounded() {
    let claims = json!({ "a": vec!["b"; 100] });
    for test in [
        "[user.lowerAscii()].exists(x, claims.a.exists(y, x == y))",
        "claims.a.exists(x, x in [user.lowerAscii()])",
        "[[user.lowerAscii()]].exists(x, claims.a.exists(y, y in x))",
    ] {
        assert_eq!(fault(test, LONG, &claims), Some(Fault::TooLong), "{test}");
        assert_eq!(fault(test, 10, &claims), None, "{test}");
    }
}

#[test]
fn comparisons_of_large_claims_are_bounded() {
    let test = "claims.a.exists(x, x != claims.b)";
    for (item, small) in [
        (json!(vec![1; 200]), json!(vec![1; 3])),
        (json!({ "c": vec!["1"; 200] }), json!({ "c": "1" })),
        (json!("b".repeat(20_000)), json!("b")),
    ] {
        let large = json!({ "a": vec![&item; 100], "b": item });
        assert_eq!(fault(test, 0, &large), Some(Fault::TooLong), "{item}");
        assert_eq!(fault(test, 0, &json!({ "a": vec![&small; 100], "b": small })), None);
    }
    let many = vec!["x == 'a'"; 60].join(" || ");
    let test = format!("claims.a.exists(x, {many})");
    assert_eq!(fault(&test, 0, &json!({ "a": vec![1; 1_000] })), Some(Fault::TooLong));
    assert_eq!(fault(&test, 0, &json!({ "a": vec![1; 10] })), None);
}

/// The text of a client decides which states a matcher needs, and of some patterns each byte needs
/// a new one.
#[test]
fn a_pattern_with_many_states_reads_short_texts_only() {
    for (pattern, is_short) in [
        ("a[ab]{30}c", true),
        ("foo.{0,50}bar", true),
        ("^a+$", false),
        ("^[a-z]{1,63}([.][a-z]{1,63}){1,4}$", false),
        ("(?i)(bot|crawler|spider|preview|monitor)", false),
        ("^[a-z0-9._-]{1,64}@[a-z.-]{1,255}$", false),
        (r"^\\pL+ \\d+$", false),
    ] {
        let text = format!("request.headers['x-a'].matches('{pattern}')");
        let wanted = is_short.then_some(Fault::TooLong);
        assert_eq!(fault(&text, LONG, &json!({})), wanted, "{pattern}");
        assert_eq!(fault(&text, 90, &json!({})), None, "{pattern}");
    }
}

/// 10 MB of one header.
#[test]
fn one_test_of_a_long_header_is_bounded() {
    let text = "request.headers['x-a'].contains('b')";
    assert_eq!(fault(text, 10_000_000, &json!({})), Some(Fault::TooLong));
    assert_eq!(fault(text, LONG, &json!({})), None);
}

/// Whatever operators are around it: an operand that has no value must not make a condition false,
/// for then a `deny` rule would not count.
#[test]
fn a_condition_over_the_limit_is_neither_true_nor_false() {
    let claims = json!({ "a": vec![1; 20_000] });
    let long = "claims.a.exists(x, x == 2)";
    for text in [
        long.to_owned(),
        format!("!({long})"),
        format!("{long} && false"),
        format!("{long} || true"),
        format!("{long} || !('x-a' in request.headers)"),
        format!("[1].all(x, {long})"),
    ] {
        assert_eq!(fault(&text, 0, &claims), Some(Fault::TooLong), "{text}");
    }
    // Not computed.
    assert_eq!(fault(&format!("false && {long}"), 0, &claims), None);
}

/// The engine computes parts that depend on the caller once, and the reference evaluator does not.
#[test]
fn a_condition_has_the_same_value_whether_parts_of_it_are_computed_before() {
    let mut over = [0; 2];
    for text in [
        "request.path == '/a' && claims.a.exists(x, x == 2) || claims.b.exists(x, x == 3)",
        "claims.a.all(x, claims.b.exists(y, y == 2) || request.path == '/a')",
        "[claims.t.lowerAscii(), request.path].exists(x, claims.a.exists(y, x == y))",
        "[groups, groups].exists(x, claims.a.exists(y, request.path == '/a' && y in x))",
        "request.path in claims.a || claims.t.lowerAscii() > request.path",
    ] {
        let condition = parse(text);
        let mut parts = CallerParts::default();
        let residual = parts.split(&condition);
        for length in (0..4_000).step_by(7) {
            let claims = json!({
                "a": vec![1; length], "b": vec![1; 2 * length % 1_009], "t": "A".repeat(length),
            });
            let caller = CallerInputs {
                groups: vec!["c"; length % 50],
                claims: CallerClaims::Known(claims.as_object().unwrap()),
                ..CallerInputs::default()
            };
            let request = RequestInputs { path: b"/a", ..RequestInputs::default() };
            let whole = Inputs { request, caller: Some(&caller), ..Inputs::default() };
            let cached = parts.values(&caller);
            let apart = Inputs { request, cached: &cached, ..Inputs::default() };
            let value = evaluate(&condition, &whole).map(|value| value.to_constant());
            let found = evaluate(&residual, &apart).map(|value| value.to_constant());
            assert_eq!(found, value, "{text} {length}");
            over[usize::from(value == Err(Fault::TooLong))] += 1;
        }
    }
    assert!(over.iter().all(|count| *count > 100), "{over:?}");
}

#[test]
fn the_conditions_of_a_request_share_its_steps() {
    let condition = parse("request.path == '/a'");
    let steps_left = Cell::new(8);
    let request = RequestInputs { path: b"/a", ..RequestInputs::default() };
    let inputs = Inputs { request, steps_left: Some(&steps_left), ..Inputs::default() };
    let truths: Vec<_> = (0..4).map(|_| holds(&condition, &inputs)).collect();
    assert_eq!(truths, [Some(true), Some(true), None, None]);
}

/// It splits the path or the host for each placeholder.
#[test]
fn an_equality_with_a_claim_takes_steps_for_the_text_that_it_splits() {
    let (name, long): (Arc<str>, String) = ("id".into(), "a".repeat(LONG));
    let places = vec![(name.clone(), 0); 20];
    let placeholders = Placeholders { path: &places, host: &places };
    let placeholder_of_path = Attribute::PathPlaceholder(name.clone());
    let placeholder_of_host = Attribute::HostPlaceholder(name);
    for (placeholder, path, host, wanted) in [
        (&placeholder_of_path, &*long, "a", Some(Fault::TooLong)),
        (&placeholder_of_path, "a", &*long, None),
        (&placeholder_of_host, &*long, "a", None),
        (&placeholder_of_host, "a", &*long, Some(Fault::TooLong)),
    ] {
        let claim = Expression::Constant(Constant::Text("a".into()));
        let equality = Expression::IsClaim(placeholder.clone(), claim.into());
        let (path, host) = (path.as_bytes(), host.as_bytes());
        let request = RequestInputs { path, host, ..RequestInputs::default() };
        let inputs = Inputs { request, placeholders, ..Inputs::default() };
        let fault = evaluate(&equality, &inputs).err();
        assert_eq!(fault, wanted, "{placeholder:?} {}", path.len());
    }
}

/// Neither does an equality with a claim become false.
#[test]
fn the_parts_of_a_caller_share_their_steps() {
    let mut parts = CallerParts::default();
    for number in 0..600 {
        parts.split(&parse(&format!("claims.a.exists(x, x == {number})")));
    }
    let claim = Expression::Member(Expression::Attribute(Attribute::Claims).into(), "t".into());
    let last =
        parts.split(&Expression::IsClaim(Attribute::PathPlaceholder("id".into()), claim.into()));
    let long = json!({ "a": vec![-1; 1_900], "t": "b" });
    let short = json!({ "a": [-1], "t": "b" });
    for (claims, wanted) in [(long, None), (short, Some(false))] {
        let caller = CallerInputs {
            claims: CallerClaims::Known(claims.as_object().unwrap()),
            ..CallerInputs::default()
        };
        let cached = parts.values(&caller);
        let request = RequestInputs { path: b"/a", ..RequestInputs::default() };
        let place = [("id".into(), 0)];
        let placeholders = Placeholders { path: &place, host: &[] };
        let inputs = Inputs { request, cached: &cached, placeholders, ..Inputs::default() };
        assert!(cached[0].value.is_ok());
        assert_eq!(holds(&last, &inputs), wanted);
    }
}
