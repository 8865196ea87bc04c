//! The regular expressions that are the same as some patterns: literal text, alternatives in
//! parentheses, `[^/]+` for a segment, and `.*` at the end.

use policy::pattern::{Pattern, Segment};

use crate::spelling;

/// The maximum number of alternatives.
const MAX_ALTERNATIVES: usize = 200;

/// A part of a regular expression.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    Text(char),
    /// `[^/]+`.
    Segment,
    /// `.*` at the end.
    Rest,
}

/// The patterns that match the paths which this expression matches as a whole; `None` if there are
/// none.
pub(crate) fn patterns(regex: &str) -> Option<Vec<Pattern>> {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let regex = regex.strip_suffix('$').unwrap_or(regex);
    let mut rest = regex;
    let all = alternatives(&mut rest)?;
    if !rest.is_empty() {
        return None;
    }
    let patterns: Option<Vec<Vec<Pattern>>> = all.iter().map(|tokens| of(tokens)).collect();
    Some(patterns?.concat())
}

/// Alternatives up to the end or a closing parenthesis.
fn alternatives(rest: &mut &str) -> Option<Vec<Vec<Token>>> {
    let mut done = Vec::new();
    let mut current = vec![Vec::new()];
    loop {
        let mut characters = rest.chars();
        let first = match characters.next() {
            None | Some(')') => break,
            Some(first) => first,
        };
        let tokens = if let Some(after) = rest.strip_prefix("[^/]+") {
            *rest = after;
            vec![vec![Token::Segment]]
        } else if let Some(after) = rest.strip_prefix(".*") {
            *rest = after;
            vec![vec![Token::Rest]]
        } else if let Some(after) = rest.strip_prefix('|') {
            *rest = after;
            done.append(&mut current);
            current.push(Vec::new());
            continue;
        } else if let Some(after) = rest.strip_prefix('(') {
            *rest = after.strip_prefix("?:").unwrap_or(after);
            let inner = alternatives(rest)?;
            *rest = rest.strip_prefix(')')?;
            inner
        } else {
            let literal = if first == '\\' { characters.next()? } else { first };
            let is_literal = if first == '\\' {
                literal.is_ascii_punctuation()
            } else {
                !"[].*+?{}^$".contains(first)
            };
            if !is_literal {
                return None;
            }
            *rest = characters.as_str();
            vec![vec![Token::Text(literal)]]
        };
        // A quantifier changes what is before it.
        if rest.starts_with(['*', '+', '?', '{']) {
            return None;
        }
        let joined = |one: &Vec<Token>| {
            let one = one.clone();
            tokens.iter().map(move |more| [one.as_slice(), more].concat()).collect::<Vec<_>>()
        };
        current = current.iter().flat_map(joined).collect();
        if current.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    done.append(&mut current);
    Some(done)
}

/// The patterns of one alternative.
fn of(tokens: &[Token]) -> Option<Vec<Pattern>> {
    let (tokens, rest) = match tokens.split_last() {
        Some((Token::Rest, before)) => (before, true),
        _ => (tokens, false),
    };
    // The same path with a letter in the place of each segment must be written in one way only.
    let text: Option<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Text(character) => Some(*character),
            Token::Segment => Some('x'),
            Token::Rest => None,
        })
        .collect();
    if !spelling::is_plain(&text?) {
        return None;
    }
    let mut segments = Vec::new();
    for part in tokens.split(|token| *token == Token::Text('/')).skip(1) {
        let text = || {
            part.iter()
                .filter_map(|token| if let Token::Text(text) = token { Some(*text) } else { None })
        };
        segments.push(match part {
            [Token::Segment] => Segment::One("any".into()),
            part if part.contains(&Token::Segment) => return None,
            _ => Segment::Literal(text().collect()),
        });
    }
    if !rest {
        return Some(vec![Pattern { absolute: true, segments, rest: false }]);
    }
    match segments.pop() {
        Some(Segment::Literal(start)) => {
            let folder = Pattern { absolute: true, segments, rest: true };
            Some(spelling::starting(&folder, &start))
        }
        // `[^/]+.*`: the segment, and what is below it.
        Some(segment) => {
            segments.push(segment);
            Some(vec![Pattern { absolute: true, segments, rest: true }])
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn some_expressions_are_patterns() {
        let written = |regex: &str| {
            let patterns = patterns(regex)?;
            Some(patterns.iter().map(policy::written::pattern).collect::<Vec<_>>().join(" "))
        };
        for (regex, expected) in [
            ("/a", "/a"),
            ("^/a\\.b$", "/a.b"),
            ("/(a|b)/[^/]+", "/a/{any} /b/{any}"),
            ("/a|/b/.*", "/a /b/ /b/{any}/**"),
            ("/a.*", "/a*/**"),
            ("/.*", "/**"),
            ("/a/[^/]+.*", "/a/{any}/**"),
            ("/(?:a(b|c)|d)e", "/abe /ace /de"),
        ] {
            assert_eq!(written(regex).as_deref(), Some(expected), "{regex}");
        }
        for regex in [
            "/a+", "/a[0-9]", "/v[^/]+", "/.*/b", "/a.b", "(/a", "/a)", "/a?", "/a{2}", "a",
            "/a//b", "/a\\d", "/%61", "(/a)*", "",
        ] {
            assert_eq!(written(regex), None, "{regex}");
        }
    }
}
