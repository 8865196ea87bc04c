//! Conditions on headers that clients send.

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::note::Effect;
use crate::range;
use crate::sources::Sources;
use crate::text_matcher::{self, Matcher};
use crate::when::{Doubt, When, quoted};

/// A condition of Envoy on a header (`HeaderMatcher`).
#[derive(Clone, Debug)]
pub(crate) struct HeaderMatch {
    pub(crate) test: HeaderTest,
    /// `invert_match`: the test must not hold. Except for [`HeaderTest::Present`], the header must
    /// still be there.
    pub(crate) is_inverted: bool,
    /// `treat_missing_header_as_empty`
    pub(crate) is_empty_if_missing: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum HeaderTest {
    /// The header must be there (`true`), or must not be there (`false`).
    Present(bool),
    /// Its value, and whether case is ignored.
    Text(Matcher, bool),
    /// The value is a whole number: at least the first, and less than the second.
    Range(i64, i64),
}

/// The condition on the header with this name, in lower case.
pub(crate) fn condition(
    view: &View<'_>,
    name: &str,
    header: &HeaderMatch,
    sources: &Sources,
) -> Expr {
    if sources.sets_header(name) {
        // Without that filter, a client could choose the header's value.
        return view.inexpressible("a filter that is not imported sets this header");
    }
    let HeaderMatch { test, is_inverted, is_empty_if_missing } = header;
    let is_there = When::Test(format!("{} in request.headers", quoted(name)));
    let value = format!("request.headers[{}]", quoted(name));
    let (matches, matches_empty) = match test {
        HeaderTest::Present(_) if *is_empty_if_missing => {
            return view.inexpressible("a header that is there even if it is missing");
        }
        HeaderTest::Present(wanted) if wanted == is_inverted => {
            return view.when(is_there.negated(), None);
        }
        HeaderTest::Present(_) => return view.when(is_there, None),
        HeaderTest::Text(Matcher::Any, _) if *is_inverted => return Expr::never(),
        HeaderTest::Text(Matcher::Any, _) if *is_empty_if_missing => return Expr::always(),
        HeaderTest::Text(Matcher::Any, _) => return view.when(is_there, None),
        HeaderTest::Text(matcher, ignore_case) => {
            let Some(test) = text_matcher::test(&value, matcher, *ignore_case) else {
                return view.inexpressible("a condition cannot have this matcher");
            };
            (test, matches!(matcher, Matcher::Exact(text) if text.is_empty()))
        }
        HeaderTest::Range(from, until) => match range::regex(*from, *until) {
            Some(regex) => {
                let test = format!("{value}.matches({})", quoted(&regex));
                (When::Test(test), false)
            }
            None if !is_inverted => return Expr::never(),
            None if *is_empty_if_missing => return Expr::always(),
            None => return view.when(is_there, None),
        },
    };
    if *is_empty_if_missing && matches!(test, HeaderTest::Text(Matcher::Regex(_), _)) {
        return view.inexpressible("a regular expression for a header that may be missing");
    }
    let holds = if *is_inverted { matches.negated() } else { matches };
    let when = if *is_empty_if_missing && matches_empty != *is_inverted {
        When::any([is_there.negated(), holds])
    } else {
        When::all([is_there, holds])
    };
    let message = format!(
        "a request with several lines of `{name}`, which Envoy joins with commas, or with one that \
         is not UTF-8, is denied where this header decides"
    );
    let note = view.note(Effect::Unusual, message);
    view.when(when, Some(Doubt { note, only_negated: false }))
}
