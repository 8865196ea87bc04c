//! The header `x-forwarded-client-cert` (Envoy's documentation: "HTTP header manipulation"): for
//! each proxy on the way an element, which describes the certificate of the proxy's client.
//!
//! Elements are separated by commas, and their `KEY=VALUE` pairs by semicolons. A value may be in
//! double quotes; a backslash in it takes the next character as it is. Whoever writes a part of a
//! header may try to have the rest read differently: so nothing else is tolerated.

use std::borrow::Cow;

/// Maximum bytes of all lines. Envoy accepts 60 KiB of headers by default.
const MAX_BYTES: usize = 64 << 10;

/// A header that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedXfcc;

/// The last element of all lines, which the nearest proxy has written.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastElement<'a> {
    element: Option<&'a [u8]>,
    length: usize,
}

/// A pair of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub(crate) key: &'a [u8],
    /// Without quotes, and not unescaped.
    raw_value: &'a [u8],
}

impl<'a> LastElement<'a> {
    /// Reads another line. Several lines are a list, as if they were joined by commas (RFC 9110,
    /// 5.3).
    ///
    /// # Errors
    /// If it cannot be read on its own, or the lines are too long together.
    pub fn add(&mut self, line: &'a [u8]) -> Result<(), MalformedXfcc> {
        self.length += line.len();
        if self.length > MAX_BYTES {
            return Err(MalformedXfcc);
        }
        let mut unread = line;
        loop {
            let element = unread.trim_ascii_start();
            let after = skip(element)?;
            let length = element.len() - after.len();
            self.element = element.get(..length);
            match after.split_first() {
                Some((_, next)) => unread = next,
                None => return Ok(()),
            }
        }
    }

    /// The element; `None` without a line.
    #[must_use]
    pub fn get(self) -> Option<&'a [u8]> {
        self.element
    }
}

/// The text after an element: empty, or a comma and the next element.
fn skip(element: &[u8]) -> Result<&[u8], MalformedXfcc> {
    let mut unread = element;
    loop {
        let (_, after) = Pair::read(unread)?;
        match after.split_first() {
            Some((b';', next)) => unread = next,
            Some(_) | None => return Ok(after),
        }
    }
}

/// The pairs of an element that [`LastElement`] has found.
pub(crate) fn pairs(element: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut unread = Some(element);
    std::iter::from_fn(move || {
        let (pair, after) = Pair::read(unread?).ok()?;
        unread = after.split_first().map(|(_, next)| next);
        Some(pair)
    })
}

impl<'a> Pair<'a> {
    /// The first pair, and the text after it: empty, or `;` or `,` and more.
    fn read(text: &'a [u8]) -> Result<(Self, &'a [u8]), MalformedXfcc> {
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric();
        let length = text.iter().take_while(|byte| is_key(byte)).count();
        let (key, rest) = text.split_at_checked(length).ok_or(MalformedXfcc)?;
        let value = rest.strip_prefix(b"=").filter(|_| !key.is_empty()).ok_or(MalformedXfcc)?;
        let (raw_value, after) = match value.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = end_of_quoted(quoted).ok_or(MalformedXfcc)?;
                let (value, after) = quoted.split_at_checked(end).ok_or(MalformedXfcc)?;
                (value, after.get(1..).unwrap_or_default())
            }
            None => {
                let end = value.iter().position(|byte| matches!(byte, b',' | b';'));
                let (value, after) =
                    value.split_at_checked(end.unwrap_or(value.len())).ok_or(MalformedXfcc)?;
                (value.trim_ascii_end(), after)
            }
        };
        let is_quoted = value.first() == Some(&b'"');
        let is_text = raw_value
            .iter()
            .all(|byte| !byte.is_ascii_control() && (is_quoted || !matches!(byte, b'"' | b'\\')));
        let after = after.trim_ascii_start();
        let is_end = matches!(after.first(), None | Some(b',' | b';'));
        if is_text && is_end { Ok((Self { key, raw_value }, after)) } else { Err(MalformedXfcc) }
    }

    /// The value.
    pub(crate) fn value(self) -> Cow<'a, [u8]> {
        if !self.raw_value.contains(&b'\\') {
            return Cow::Borrowed(self.raw_value);
        }
        let mut bytes = self.raw_value.iter();
        let mut value = Vec::with_capacity(self.raw_value.len());
        while let Some(byte) = bytes.next() {
            value.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
        }
        Cow::Owned(value)
    }
}

/// The place of the closing quote.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests;
