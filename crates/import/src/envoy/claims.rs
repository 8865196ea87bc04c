//! Conditions on claims that `jwt_authn` writes to metadata (`ValueMatcher`).

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::note::Effect;
use crate::text_matcher::{self, Matcher};
use crate::when::{self, Doubt, When};

pub(crate) const ONE_EXPECTED: &str = "exactly one condition is expected here";
const UNKNOWN_VALUE: &str = "rolegate does not compare claims with such a value";
/// Envoy rounds all numbers to 53 bits. Whole numbers below this remain exact.
const EXACT_NUMBERS: f64 = 9_007_199_254_740_992.0;

/// The matcher of a text, and whether it ignores case.
pub(crate) fn text(matcher: &View<'_>) -> Option<(Matcher, bool)> {
    text_matcher::string_matcher(matcher)
}

/// The text that must be an item of a list, if this is a `list_match` for an exact text.
pub(crate) fn listed(key: &str, matcher: &View<'_>) -> Option<String> {
    let item = matcher.get("one_of").filter(|_| key == "list_match")?;
    let is_known =
        matcher.values_except("one_of").is_empty() && item.values_except("string_match").is_empty();
    match text(&item.get("string_match")?)? {
        (Matcher::Exact(text), false) if is_known => Some(text),
        _ => None,
    }
}

/// The condition that a claim meets the matcher, and the requests for which this condition cannot
/// be computed.
pub(crate) fn condition(matcher: &View<'_>, claim: &[&str]) -> Result<(When, Option<Doubt>), Expr> {
    let names = claim;
    let claim = when::claim(claim);
    let mut depends_on_type = names.len() > 1;
    let test = test(matcher, &claim.value, 0, &mut depends_on_type)?;
    let when = When::all([claim.is_there].into_iter().chain(test));
    let message = format!(
        "a token whose claim `{}` has another type than the condition expects is denied where \
         the condition decides",
        names.join(".")
    );
    let note = matcher.note(Effect::Unusual, message);
    Ok((when, depends_on_type.then_some(Doubt { note, only_negated: true })))
}

/// The test of a value, which is given as text in CEL. `None` means that every value matches.
/// `depends_on_type` is set if the test cannot be computed for values of another type.
fn test(
    view: &View<'_>,
    value: &str,
    depth: usize,
    depends_on_type: &mut bool,
) -> Result<Option<When>, Expr> {
    let entries = view.entries();
    let [(key, matcher)] = entries.as_slice() else {
        return Err(view.inexpressible(ONE_EXPECTED));
    };
    let unknown = || view.inexpressible(UNKNOWN_VALUE);
    match key.as_str() {
        "string_match" => {
            let (matcher, ignore_case) = text(matcher).ok_or_else(unknown)?;
            *depends_on_type |= ignore_case || !matches!(matcher, Matcher::Exact(_));
            Ok(Some(text_matcher::test(value, &matcher, ignore_case).ok_or_else(unknown)?))
        }
        "bool_match" => {
            let wanted = matcher.boolean().ok_or_else(unknown)?;
            Ok(Some(When::Test(format!("{value} == {wanted}"))))
        }
        "double_match" => Ok(Some(number(matcher, value, depends_on_type).ok_or_else(unknown)?)),
        "present_match" if matcher.boolean() == Some(true) && depth == 0 => Ok(None),
        "list_match" if matcher.values_except("one_of").is_empty() => {
            let item = matcher.get("one_of").ok_or_else(unknown)?;
            let name = ["x", "y", "z"].get(depth).ok_or_else(unknown)?;
            *depends_on_type = true;
            let inner = test(&item, name, depth + 1, depends_on_type)?.ok_or_else(unknown)?;
            Ok(Some(When::Test(format!("{value}.exists({name}, {inner})"))))
        }
        "or_match" if matcher.values_except("value_matchers").is_empty() => {
            let mut any = Vec::new();
            for matcher in matcher.list("value_matchers") {
                any.push(test(&matcher, value, depth, depends_on_type)?.ok_or_else(unknown)?);
            }
            if any.is_empty() { Err(unknown()) } else { Ok(Some(When::any(any))) }
        }
        _ => Err(unknown()),
    }
}

/// `DoubleMatcher`.
fn number(matcher: &View<'_>, value: &str, depends_on_type: &mut bool) -> Option<When> {
    let entries = matcher.entries();
    match entries.as_slice() {
        [(key, exact)] if key == "exact" => {
            Some(When::Test(format!("{value} == {:?}", double(exact)?)))
        }
        [(key, range)]
            if key == "range"
                && range.is_mapping()
                && range.values_except("start end").is_empty() =>
        {
            *depends_on_type = true;
            let [start, end] = ["start", "end"].map(|key| match range.get(key) {
                None => Some(0.0),
                Some(number) => double(&number),
            });
            Some(When::all([
                When::Test(format!("{value} >= {:?}", start?)),
                When::Test(format!("{value} < {:?}", end?)),
            ]))
        }
        _ => None,
    }
}

fn double(number: &View<'_>) -> Option<f64> {
    number.text()?.parse().ok().filter(|number: &f64| number.abs() < EXACT_NUMBERS)
}
