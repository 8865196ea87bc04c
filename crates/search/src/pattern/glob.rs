//! Wildcards: `*` and `?`.

/// A part of a pattern with wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// This byte.
    Byte(u8),
    /// One character: `?`.
    One,
    /// Any text: `*`.
    Many,
}

impl Symbol {
    pub(crate) const fn byte(self) -> Option<u8> {
        match self {
            Self::Byte(byte) => Some(byte),
            Self::One | Self::Many => None,
        }
    }
}

/// The symbols of a pattern's text.
pub(crate) fn symbols(text: &str) -> Vec<Symbol> {
    let symbol = |byte| match byte {
        b'*' => Symbol::Many,
        b'?' => Symbol::One,
        byte => Symbol::Byte(byte),
    };
    text.bytes().map(symbol).collect()
}

/// Whether the whole name matches.
pub(crate) fn matches(pattern: &[Symbol], name: &str) -> bool {
    matches_with(|at| pattern.get(at).copied(), |at| literal(name, at))
}

/// Whether each name that the expression matches matches the pattern. A `*` of the expression can
/// only be covered by a `*` of the pattern, so this is true only if it is certain.
pub(crate) fn covers(pattern: &[Symbol], expression: &str) -> bool {
    matches_with(|at| pattern.get(at).copied(), |at| symbol_of_expression(expression, at))
}

/// Whether a name matches an expression, whose only wildcard is `*`.
pub(crate) fn matches_expression(expression: &str, name: &str) -> bool {
    matches_with(|at| symbol_of_expression(expression, at), |at| literal(name, at))
}

fn literal(name: &str, at: usize) -> Option<Symbol> {
    name.as_bytes().get(at).map(|byte| Symbol::Byte(*byte))
}

fn symbol_of_expression(expression: &str, at: usize) -> Option<Symbol> {
    let byte = *expression.as_bytes().get(at)?;
    Some(if byte == b'*' { Symbol::Many } else { Symbol::Byte(byte) })
}

/// The literal text before the first wildcard.
pub(crate) fn literal_prefix(pattern: &[Symbol]) -> String {
    let bytes: Vec<u8> = pattern.iter().map_while(|symbol| symbol.byte()).collect();
    let end = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Matches symbols of a name one after the other. Where they differ, the last `*` takes one more:
/// going back to an earlier one cannot help, so the cost is at most the product of both lengths.
fn matches_with(
    pattern: impl Fn(usize) -> Option<Symbol>,
    name: impl Fn(usize) -> Option<Symbol>,
) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut retry = None;
    while let Some(symbol) = name(read) {
        let step = match (pattern(at), symbol) {
            (Some(Symbol::Many), _) => {
                at += 1;
                retry = Some((at, read));
                continue;
            }
            (Some(Symbol::Byte(wanted)), Symbol::Byte(byte)) if wanted == byte => 1,
            (Some(Symbol::One), Symbol::Byte(byte)) => width(byte),
            (Some(Symbol::Byte(_) | Symbol::One) | None, _) => 0,
        };
        if step > 0 {
            (at, read) = (at + 1, read + step);
        } else if let Some((after, from)) = retry {
            (at, read) = (after, from + 1);
            retry = Some((after, from + 1));
        } else {
            return false;
        }
    }
    while pattern(at) == Some(Symbol::Many) {
        at += 1;
    }
    pattern(at).is_none()
}

/// The length of the character that starts with this byte; 0 in the middle of one, and for
/// characters that are two in Java (UTF-16), which one `?` does not match there.
const fn width(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0x80..=0xbf | 0xf0..=0xff => 0,
    }
}
