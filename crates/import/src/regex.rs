//! Regular expressions that patterns can express: literal text, alternatives in parentheses,
//! `[^/]+` for a segment, and `.*` at the end.

use policy::pattern::{Pattern, Segment};

use crate::spelling;

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

/// The patterns that match the same paths as this expression, which must match a whole path; `None`
/// if there are no such patterns.
pub(crate) fn patterns(regex: &str) -> Option<Vec<Pattern>> {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let mut remaining = regex.strip_suffix('$').unwrap_or(regex);
    let alternatives = alternatives(&mut remaining)?;
    if !remaining.is_empty() {
        return None;
    }
    let patterns: Option<Vec<Vec<Pattern>>> =
        alternatives.iter().map(|tokens| patterns_of_alternative(tokens)).collect();
    Some(patterns?.concat())
}

/// Reads alternatives up to the end or a closing parenthesis.
fn alternatives(remaining: &mut &str) -> Option<Vec<Vec<Token>>> {
    let mut done = Vec::new();
    let mut current = vec![Vec::new()];
    loop {
        let mut characters = remaining.chars();
        let (first, after) = (characters.next(), characters.as_str());
        let tokens = match first {
            None | Some(')') => break,
            Some('|') => {
                *remaining = after;
                done.append(&mut current);
                current.push(Vec::new());
                continue;
            }
            Some('(') => {
                *remaining = after.strip_prefix("?:").unwrap_or(after);
                let inner = alternatives(remaining)?;
                *remaining = remaining.strip_prefix(')')?;
                inner
            }
            Some(first) => {
                let (token, after) = if let Some(after) = remaining.strip_prefix("[^/]+") {
                    (Token::Segment, after)
                } else if let Some(after) = remaining.strip_prefix(".*") {
                    (Token::Rest, after)
                } else if first == '\\' {
                    let literal = characters.next().filter(char::is_ascii_punctuation)?;
                    (Token::Text(literal), characters.as_str())
                } else if "[].*+?{}^$".contains(first) {
                    return None;
                } else {
                    (Token::Text(first), after)
                };
                *remaining = after;
                vec![vec![token]]
            }
        };
        // A quantifier changes the token before it.
        if remaining.starts_with(['*', '+', '?', '{']) {
            return None;
        }
        let pairs = current.iter().flat_map(|start| tokens.iter().map(move |end| (start, end)));
        current = pairs.map(|(start, end)| [&**start, end].concat()).collect();
        if current.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    done.append(&mut current);
    Some(done)
}

fn patterns_of_alternative(tokens: &[Token]) -> Option<Vec<Pattern>> {
    let (tokens, has_rest) = match tokens.split_last() {
        Some((Token::Rest, before)) => (before, true),
        _ => (tokens, false),
    };
    // The path must have a single spelling. To check that, a letter replaces each `[^/]+`.
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
        segments.push(if *part == [Token::Segment] {
            spelling::any_segment()
        } else {
            let text: Option<String> = part
                .iter()
                .map(|token| if let Token::Text(text) = token { Some(*text) } else { None })
                .collect();
            Segment::Literal(text?.into())
        });
    }
    if !has_rest {
        return Some(vec![Pattern { absolute: true, segments, open_ended: has_rest }]);
    }
    match segments.pop()? {
        Segment::Literal(start) => Some(spelling::starting(&segments, &start)),
        // `[^/]+.*`: any segment and all paths below it.
        segment => {
            segments.push(segment);
            Some(vec![Pattern { absolute: true, segments, open_ended: has_rest }])
        }
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
