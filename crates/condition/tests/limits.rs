//! What a condition can cost.

use std::sync::Arc;

use condition::{
    CallerClaims, CallerInputs, Condition, Fault, Inputs, MAX_COMPARISONS, NamedConditions,
    evaluate, holds,
};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Condition, String> {
    Condition::parse(&Arc::from(text), &NamedConditions::default()).map_err(|error| error.message)
}

#[test]
fn depth_length_and_comparisons_are_limited() {
    for deep in ["(".repeat(4_000), "!".repeat(4_000), "[".repeat(4_000), "size(".repeat(800)] {
        assert!(parse(&deep).unwrap_err().contains("nested more than"), "{deep}");
    }
    let chain = format!("claims{} == 1", ".a".repeat(2_000));
    assert!(parse(&chain).unwrap_err().contains("members of members"));
    let long = format!("user == '{}'", "a".repeat(5_000));
    assert!(parse(&long).unwrap_err().contains("5010 bytes"));
    let comparisons = |count: usize| vec!["user == 'a'"; count].join(" || ");
    assert!(parse(&comparisons(MAX_COMPARISONS)).is_ok());
    assert!(parse(&comparisons(MAX_COMPARISONS + 1)).unwrap_err().contains("65 comparisons"));
}

#[test]
fn a_long_chain_of_operators_is_an_error() {
    for chain in ["1<".repeat(2_000) + "1", "user||".repeat(600) + "user"] {
        assert!(parse(&chain).unwrap_err().contains("operators"), "{chain}");
    }
}

/// Each compares the one before with itself.
#[test]
fn conditions_that_compare_each_other_are_limited_too() {
    let mut named = NamedConditions::default();
    let mut last: Arc<str> = "user == 'a'".into();
    for number in 0..40 {
        let Ok(condition) = Condition::parse(&last, &named) else {
            assert!(number < 10, "{number}");
            return;
        };
        named.add(format!("c{number}").into(), &condition);
        last = format!("c{number} == c{number}").into();
    }
    panic!("2^40 comparisons");
}

/// The texts are a client's.
#[test]
fn a_duration_or_a_zone_of_any_length_is_no_panic() {
    let long = "duration('170141183460469231731687303715884105.9us') < duration('1h')";
    assert!(parse(long).is_err());
    assert!(parse("request.time.getHours('600000:00') == 1").is_err());
}

/// Each contains the one before twice.
#[test]
fn conditions_that_name_each_other_are_limited_too() {
    let mut named = NamedConditions::default();
    let mut last: Arc<str> = "user == 'a'".into();
    for number in 0..40 {
        match Condition::parse(&last, &named) {
            Ok(condition) => named.add(format!("c{number}").into(), &condition),
            Err(error) => {
                assert_eq!((number, error.message.contains("more than 64")), (7, true));
                return;
            }
        }
        last = format!("c{number} && c{number}").into();
    }
    panic!("2^40 comparisons");
}

#[test]
fn a_regular_expression_takes_linear_time() {
    let condition = parse("request.path.matches('^(a+)+$')").unwrap();
    let path = format!("{}b", "a".repeat(100_000));
    let mut inputs = Inputs::default();
    inputs.request.path = path.as_bytes();
    assert_eq!(holds(&condition.expression, &inputs), Some(false));
    assert!(parse("user.matches('((a{100}){100}){100}')").unwrap_err().contains("too large"));
}

/// A client may have a token with long lists.
#[test]
fn lists_in_lists_are_bounded() {
    let nested =
        parse("claims.a.exists(x, claims.a.exists(y, claims.a.exists(z, x == y && y != z)))")
            .unwrap();
    let claims = serde_json::json!({ "a": vec![1; 1_000] });
    let caller = CallerInputs {
        claims: CallerClaims::Known(claims.as_object().unwrap()),
        ..CallerInputs::default()
    };
    let inputs = Inputs { caller: Some(&caller), ..Inputs::default() };
    assert!(matches!(evaluate(&nested.expression, &inputs), Err(Fault::TooLong)));
    let one = parse("claims.a.exists(x, x == 2)").unwrap();
    assert_eq!(holds(&one.expression, &inputs), Some(false));
}

proptest! {
    /// Also what a person would not write.
    #[test]
    fn no_text_makes_the_parser_panic(text in "[ -~é\n]{0,80}") {
        if let Ok(condition) = parse(&text) {
            let _ = holds(&condition.expression, &Inputs::default());
        }
    }

    #[test]
    fn no_mix_of_tokens_makes_it_panic(parts in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "[", "]", "!", "&&", "||", "==", "<", "in", "?", ":", ".", ",", "-", "'a'", "1",
        "1.5", "true", "user", "claims", "groups", "request", ".time", ".headers", "['a']", "x",
        ".exists(x, ", ".all(x, ", "has(", "size(", ".matches('a')", "source.ip", "path.id",
    ]), 0..14)) {
        let text = parts.join(" ").replace(" .", ".");
        if let Ok(condition) = parse(&text) {
            let shown = condition.expression.to_string();
            let _ = holds(&condition.expression, &Inputs::default());
            let again = parse(&shown).map(|again| again.expression);
            prop_assert_eq!(again, Ok(condition.expression), "{}", shown);
        }
    }
}
