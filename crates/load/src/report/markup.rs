//! What HTML pages and SVG images have in common: the style, and how text is escaped.

/// In both colour schemes, neighbouring colours differ even without red or green.
pub(super) const STYLE: &str = include_str!("page.css");

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(letter),
        }
    }
    safe
}
