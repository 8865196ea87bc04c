//! Wildcards: `*` and `?`.

/// A part of a pattern with wildcards.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Symbol {
    /// This byte.
    Byte(u8),
    /// One character: `?`.
    AnyCharacter,
    /// Any text: `*`.
    AnyText,
}

impl Symbol {
    pub(crate) const fn byte(self) -> Option<u8> {
        match self {
            Self::Byte(byte) => Some(byte),
            Self::AnyCharacter | Self::AnyText => None,
        }
    }
}

pub(crate) fn symbols(text: &str) -> Vec<Symbol> {
    let symbols = text.bytes().map(|byte| match byte {
        b'*' => Symbol::AnyText,
        b'?' => Symbol::AnyCharacter,
        byte => Symbol::Byte(byte),
    });
    symbols.collect()
}

pub(crate) fn matches(pattern: &[Symbol], name: &str) -> bool {
    matches_symbols(|at| pattern.get(at).copied(), |at| byte_of_name(name, at))
}

/// Whether the pattern matches every name that the expression matches. The answer may be `false`
/// for a pattern that does so, because only a `*` of the pattern covers a `*` of the expression.
pub(crate) fn covers(pattern: &[Symbol], expression: &str) -> bool {
    matches_symbols(|at| pattern.get(at).copied(), |at| symbol_of_expression(expression, at))
}

/// Whether a name matches an expression, whose only wildcard is `*`.
pub(crate) fn matches_expression(expression: &str, name: &str) -> bool {
    matches_symbols(|at| symbol_of_expression(expression, at), |at| byte_of_name(name, at))
}

fn byte_of_name(name: &str, at: usize) -> Option<Symbol> {
    name.as_bytes().get(at).map(|byte| Symbol::Byte(*byte))
}

fn symbol_of_expression(expression: &str, at: usize) -> Option<Symbol> {
    let byte = *expression.as_bytes().get(at)?;
    Some(if byte == b'*' { Symbol::AnyText } else { Symbol::Byte(byte) })
}

/// Matches the symbols of a name in order. At a mismatch, the last `*` takes one more symbol: going
/// back to an earlier `*` cannot help, so the cost is at most the product of both lengths.
fn matches_symbols(
    pattern: impl Fn(usize) -> Option<Symbol>,
    name: impl Fn(usize) -> Option<Symbol>,
) -> bool {
    let (mut at, mut read) = (0, 0);
    // The positions after the last `*` of the pattern, and after the symbols that it takes.
    let mut retry = None;
    while let Some(symbol) = name(read) {
        let step = match (pattern(at), symbol) {
            (Some(Symbol::AnyText), _) => {
                at += 1;
                retry = Some((at, read));
                continue;
            }
            (Some(Symbol::Byte(expected)), Symbol::Byte(byte)) if expected == byte => 1,
            (Some(Symbol::AnyCharacter), Symbol::Byte(byte)) => width(byte),
            (Some(Symbol::Byte(_) | Symbol::AnyCharacter) | None, _) => 0,
        };
        if step > 0 {
            (at, read) = (at + 1, read + step);
        } else if let Some((after, from)) = &mut retry {
            *from += 1;
            (at, read) = (*after, *from);
        } else {
            return false;
        }
    }
    while pattern(at) == Some(Symbol::AnyText) {
        at += 1;
    }
    pattern(at).is_none()
}

/// The length of the character that starts with this byte: 0 in the middle of a character, and for
/// characters that take two `char`s in Java (UTF-16), because a single `?` does not match them.
const fn width(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0x80..=0xbf | 0xf0..=0xff => 0,
    }
}
