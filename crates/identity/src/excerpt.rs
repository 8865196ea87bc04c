//! Shows a text that a stranger chose.

/// The most characters of it that are shown.
const MAX_CHARACTERS: usize = 64;

/// The beginning of a text that is not trusted, such as a `kid`, for a message: bounded, and with control characters,
/// quotes and the like escaped.
#[must_use]
pub fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARACTERS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        shown.push('\u{2026}');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        assert_eq!(excerpt("key-1"), "key-1");
        assert_eq!(excerpt("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(excerpt(&"\u{e9}".repeat(65)), "\u{e9}".repeat(64) + "\u{2026}");
    }
}
