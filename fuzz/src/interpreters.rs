//! The interpretations of a path by servers, as simple steps.
//!
//! The invariant of paths is tested against this module, so it shares no code with
//! `policy::canonical`, not even percent decoding.

/// One step of a server. Servers differ in which steps they take, in which order and how often.
type Step = fn(&[u8]) -> Vec<u8>;

/// Every step but percent decoding.
const STEPS: [Step; 7] =
    [cut_at_query, cut_at_fragment, without_parameters, slashed, merged, resolved, reference_path];

/// How often servers in a row decode a path. A path that is encoded three times is denied.
const MAX_DECODINGS: u8 = 2;

/// A path as one server interprets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpretation {
    /// The text that the server compares with its routes or opens as a file.
    pub text: Vec<u8>,
    /// How often it was decoded.
    pub decoded: u8,
}

/// All results of any steps in any order on a raw path. A query and a fragment that are not encoded
/// are cut first, as every server does.
#[must_use]
pub fn interpretations(raw: &[u8]) -> Vec<Interpretation> {
    let mut found = vec![Interpretation { text: cut_at_fragment(&cut_at_query(raw)), decoded: 0 }];
    let mut next = 0;
    while let Some(Interpretation { text, decoded }) = found.get(next).cloned() {
        let mut add = |text: Vec<u8>, decoded: u8| {
            if !found.iter().any(|known| known.decoded == decoded && known.text == text) {
                found.push(Interpretation { text, decoded });
            }
        };
        STEPS.iter().for_each(|step| add(step(&text), decoded));
        if decoded < MAX_DECODINGS {
            add(percent_decoded(&text), decoded + 1);
        }
        next += 1;
    }
    found
}

impl Interpretation {
    /// This text as a policy writes it. If it was not decoded, as in a URL (RFC 3986, 6.2.2:
    /// unreserved characters as themselves, hexadecimal digits in upper case); otherwise with all
    /// printable characters as themselves.
    #[must_use]
    pub fn spelled(&self) -> Vec<u8> {
        let mut spelled = Vec::with_capacity(self.text.len());
        let mut rest = &*self.text;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match encoded_byte(*byte, after).filter(|_| self.decoded == 0) {
                Some((value, after))
                    if value.is_ascii_alphanumeric() || b"-._~".contains(&value) =>
                {
                    spelled.push(value);
                    rest = after;
                }
                Some((value, after)) => {
                    spelled.extend(format!("%{value:02X}").bytes());
                    rest = after;
                }
                None if byte.is_ascii_graphic() && *byte != b'%' => spelled.push(*byte),
                None => spelled.extend(format!("%{byte:02X}").bytes()),
            }
        }
        spelled
    }
}

/// Percent decoding that keeps an invalid triplet unchanged, as most decoders do.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = encoded_byte(*byte, after).unwrap_or((*byte, after));
        decoded.push(byte);
        rest = after;
    }
    decoded
}

/// The byte of a triplet, and the text after it.
fn encoded_byte(first: u8, after: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, after) = after.split_first_chunk::<2>().filter(|_| first == b'%')?;
    let value = |digit: u8| char::from(digit).to_digit(16);
    let value = value(digits[0])? * 16 + value(digits[1])?;
    Some((u8::try_from(value).ok()?, after))
}

fn cut_at_query(text: &[u8]) -> Vec<u8> {
    text.iter().copied().take_while(|byte| *byte != b'?').collect()
}

fn cut_at_fragment(text: &[u8]) -> Vec<u8> {
    text.iter().copied().take_while(|byte| *byte != b'#').collect()
}

/// Tomcat, Jetty: `/a;x/b` is `/a/b`.
fn without_parameters(text: &[u8]) -> Vec<u8> {
    let mut skipping = false;
    let mut kept = Vec::with_capacity(text.len());
    for byte in text {
        skipping = (skipping || *byte == b';') && *byte != b'/';
        if !skipping {
            kept.push(*byte);
        }
    }
    kept
}

/// Windows, and browsers: `\` is `/`.
fn slashed(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

/// nginx and Envoy with `merge_slashes`.
fn merged(text: &[u8]) -> Vec<u8> {
    let mut merged = text.to_vec();
    merged.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    merged
}

/// RFC 3986, 5.2.4: a `..` at the root is removed.
fn resolved(text: &[u8]) -> Vec<u8> {
    let mut resolved: Vec<&[u8]> = Vec::new();
    let mut segments = text.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => drop(resolved.pop()),
            name => resolved.push(name),
        }
        if last && matches!(segment, b"." | b"..") {
            resolved.push(b"");
        }
    }
    [&b"/"[..], &resolved.join(&b'/')].concat()
}

/// The path of a URL reference, as `new URL(text, "http://host").pathname` returns it: a scheme or
/// two slashes begin an authority.
fn reference_path(text: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| matches!(byte, b'/' | b'\\' | b'?' | b'#');
    let end = text.iter().position(is_end).unwrap_or(text.len());
    let (first, _) = text.split_at(end);
    let scheme = first.iter().position(|byte| *byte == b':');
    let after_scheme = text.get(scheme.map_or(0, |colon| colon + 1)..).unwrap_or_default();
    let slashes = after_scheme.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
    let path = if scheme.is_some() || slashes >= 2 {
        let authority = after_scheme.get(slashes..).unwrap_or_default();
        authority
            .get(authority.iter().position(is_end).unwrap_or(authority.len())..)
            .unwrap_or_default()
    } else {
        text
    };
    let path = cut_at_fragment(&cut_at_query(path));
    if path.is_empty() { b"/".to_vec() } else { path }
}

#[cfg(test)]
mod tests {
    use super::{interpretations, reference_path, resolved};

    /// Each case was seen in a server.
    #[test]
    fn the_known_attacks_are_among_the_interpretations() {
        for (raw, place, source) in [
            ("//public/admin", "/admin", "Node's new URL(path, base)"),
            ("/.//public/admin", "/admin", "the same, after a proxy that removes dot segments"),
            ("/;x/public/admin", "/admin", "the same, after a proxy that drops parameters"),
            ("/admin%3Fx", "/admin", "CVE-2024-38474"),
            ("/admin.php%3Fooo.php", "/admin.php", "CVE-2024-38475"),
            ("/public/..%3F/admin", "/public/..", "a cut that leaves a dot segment"),
            ("/public/%252e%252e%253F/admin", "/", "the same, encoded twice"),
            ("/admin%2523x", "/admin", "two decoders in a row"),
            ("/public/..;/admin", "/admin", "Tomcat behind nginx"),
            ("/public/%2e%2e%2fadmin", "/admin", "CVE-2021-41773"),
            ("/public/.%252e/admin", "/admin", "CVE-2021-42013"),
            ("/public\\..\\admin", "/admin", "Windows"),
            ("/public//../admin", "/admin", "nginx with merge_slashes"),
            ("/public//../admin", "/public/admin", "nginx without"),
            ("http:%2f%2fhost/admin", "/admin", "a scheme"),
        ] {
            let found = interpretations(raw.as_bytes());
            assert!(
                found.iter().any(|found| found.text == place.as_bytes()),
                "{raw} is not {place}: {source}"
            );
        }
    }

    /// RFC 3986, 5.2.4 and 5.4; the URL standard, 4.4.
    #[test]
    fn the_steps_follow_their_standards() {
        for (text, expected) in
            [("/a/./b/../c", "/a/c"), ("/a/..", "/"), ("/../a", "/a"), ("/a//..", "/a/")]
        {
            assert_eq!(resolved(text.as_bytes()), expected.as_bytes(), "{text}");
        }
        for (text, expected) in [
            ("/a:b", "/a:b"),
            ("//h", "/"),
            ("//h/a", "/a"),
            ("///h/a", "/a"),
            ("/\\h/a?x", "/a"),
            ("http://h/a#x", "/a"),
        ] {
            assert_eq!(reference_path(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
