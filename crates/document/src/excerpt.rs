//! Shows texts that a stranger chose.

/// The bytes of an excerpt after which the rest of the text is cut off.
const MAX_BYTES: usize = 200;
/// The most texts of a list that are shown.
const MAX_TEXTS: usize = 4;

/// The beginning of a text that is not trusted, such as the `kid` of a token or the answer of a
/// server, for a message: about 200 bytes, on one line. Control characters and invisible characters
/// are escaped; quotes and backslashes are not.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut excerpt = String::new();
    for character in text.chars() {
        if excerpt.len() >= MAX_BYTES {
            excerpt.push('\u{2026}');
            break;
        }
        if matches!(character, '"' | '\'' | '\\') {
            excerpt.push(character);
        } else {
            excerpt.extend(character.escape_debug());
        }
    }
    excerpt
}

/// The first texts of a list that is not trusted, and the number of the others: `` `a`, `b` and 3
/// more``.
pub fn excerpts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut quoted = texts.into_iter().map(|text| format!("`{}`", excerpt(text)));
    let list = quoted.by_ref().take(MAX_TEXTS).collect::<Vec<_>>().join(", ");
    match (list.is_empty(), quoted.count()) {
        (true, _) => "none".to_owned(),
        (false, 0) => list,
        (false, more) => format!("{list} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::{excerpt, excerpts};

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        assert_eq!(excerpt("key-1"), "key-1");
        assert_eq!(excerpt("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(excerpt(r#"it's "a\b""#), r#"it's "a\b""#);
        assert_eq!(excerpt(&"\u{e9}".repeat(101)), "\u{e9}".repeat(100) + "\u{2026}");
    }

    #[test]
    fn a_list_is_short() {
        assert_eq!(excerpts([]), "none");
        assert_eq!(excerpts(["a", "b"]), "`a`, `b`");
        assert_eq!(excerpts(["a", "b", "c", "d", "e", "f"]), "`a`, `b`, `c`, `d` and 2 more");
    }
}
