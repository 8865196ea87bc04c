//! Shows texts of a bundle, which anyone may have made: errors are logged, and printed on terminals.

/// The most bytes of a text that are shown, but for the last character.
const MAX_TEXT: usize = 200;
/// The most bytes of a name, so that what is wrong with it is not cut off.
const MAX_NAME: usize = 100;

/// The beginning of a text, on one line.
pub(crate) fn one_line(text: &str) -> String {
    shown(text, &['"', '\'', '\\'], MAX_TEXT)
}

/// The beginning of a name, in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", shown(name, &['\''], MAX_NAME))
}

/// Characters are escaped unless they are `plain`.
fn shown(text: &str, plain: &[char], max: usize) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        if shown.len() >= max {
            shown.push('\u{2026}');
            break;
        }
        if plain.contains(&letter) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_debug());
        }
    }
    shown
}
