//! Shows texts that a stranger chose.

/// The most characters of a text that are shown.
const MAX_CHARACTERS: usize = 64;
/// The most texts of a list that are shown.
const MAX_TEXTS: usize = 4;

/// The beginning of a text that is not trusted, such as a `kid`, for a message: bounded, and with
/// control characters, quotes and the like escaped.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut excerpt: String =
        text.chars().take(MAX_CHARACTERS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        excerpt.push('\u{2026}');
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
        assert_eq!(excerpt(&"\u{e9}".repeat(65)), "\u{e9}".repeat(64) + "\u{2026}");
    }

    #[test]
    fn a_list_is_short() {
        assert_eq!(excerpts([]), "none");
        assert_eq!(excerpts(["a", "b"]), "`a`, `b`");
        assert_eq!(excerpts(["a", "b", "c", "d", "e", "f"]), "`a`, `b`, `c`, `d` and 2 more");
    }
}
