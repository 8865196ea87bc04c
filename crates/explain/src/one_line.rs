//! Texts that a client or a log chooses, for a terminal.

use std::fmt::{Display, Formatter, Result, Write};

/// Shows a value in a single line, without characters that control a terminal or that YAML forbids.
///
/// Control characters (C0 and C1), line ends, and characters that change the direction of writing
/// are escaped. A client may put such characters into the name of an index. Operators read
/// explanations in a terminal, and suggested policies have such names in comments.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(Escaped(f), "{}", self.0)
    }
}

/// Writes a line for each item, after a label.
pub(crate) fn write_lines<T: Display>(
    f: &mut Formatter<'_>,
    label: &str,
    items: impl IntoIterator<Item = T>,
) -> Result {
    items.into_iter().try_for_each(|item| write!(f, "\n{label}{}", OneLine(item)))
}

/// Writes a condition after what holds only under it.
pub(crate) fn write_condition(f: &mut Formatter<'_>, when: Option<&str>) -> Result {
    when.map_or(Ok(()), |when| write!(f, ", where {when}"))
}

/// A writer that escapes.
struct Escaped<'f, 'w>(&'f mut Formatter<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> Result {
        for part in text.split_inclusive(is_escaped) {
            match part.chars().next_back().filter(|last| is_escaped(*last)) {
                Some(last) => {
                    self.0.write_str(part.strip_suffix(last).unwrap_or_default())?;
                    write!(self.0, "{}", last.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// Whether a character controls a terminal, or YAML forbids it (YAML 1.2.2, 5.1 and 5.2).
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
        )
        || matches!(character, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("", ""),
            ("logs-ü", "logs-ü"),
            ("a\nneeds: nothing", "a\\nneeds: nothing"),
            ("\u{1B}[2J\u{9B}8m\r\t", "\\u{1b}[2J\\u{9b}8m\\r\\t"),
            ("a\u{202E}b\u{2069}\u{61C}", "a\\u{202e}b\\u{2069}\\u{61c}"),
            // These are in no text of YAML, where a suggested policy has such a name in a comment.
            ("a\u{FEFF}b\u{FFFE}\u{FFFF}", "a\\u{feff}b\\u{fffe}\\u{ffff}"),
        ] {
            assert_eq!(OneLine(text).to_string(), shown);
            assert_eq!(OneLine(format_args!("{text}{text}")).to_string(), shown.repeat(2));
        }
    }
}
