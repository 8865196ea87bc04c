//! Cookies of a request (RFC 6265, 4.2): pairs of a name and a value, in one header line or several.

use std::sync::Arc;

use policy::model::COOKIE;

/// Whether the header with this name has cookies.
pub(crate) fn is_cookie(header: &[u8]) -> bool {
    header.eq_ignore_ascii_case(COOKIE.as_bytes())
}

/// The value of each cookie of this name in a line. White space around a name and a value does not
/// belong to it, as applications read it.
pub(crate) fn values<'a>(line: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let (found, value) = split(pair);
        (found == name.as_bytes()).then_some(value)
    })
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
    let (name, value) = pair.split_at_checked(end).unwrap_or_default();
    (name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii())
}

/// Writes the cookies of all lines, each byte for byte, but without those of these names. False if
/// there is none of them.
pub(crate) fn write_without<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    names: &[Arc<str>],
    remaining: &mut Vec<u8>,
) -> bool {
    remaining.clear();
    let mut has_removed = false;
    for line in lines {
        let mut is_first_of_line = true;
        for pair in line.split(|byte| *byte == b';') {
            let (name, _) = split(pair);
            if names.iter().any(|removed| removed.as_bytes() == name) {
                has_removed = true;
                continue;
            }
            let pair = if is_first_of_line { pair.trim_ascii_start() } else { pair };
            match (remaining.is_empty(), is_first_of_line) {
                (true, _) => {}
                (false, true) => remaining.extend(b"; "),
                (false, false) => remaining.push(b';'),
            }
            remaining.extend(pair);
            is_first_of_line = false;
        }
    }
    has_removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(lines: &[&str], names: &[&str]) -> Option<String> {
        let lines = lines.iter().map(|line| line.as_bytes());
        let names: Vec<Arc<str>> = names.iter().map(|name| (*name).into()).collect();
        let mut remaining = b"of the last request".to_vec();
        let has_removed = write_without(lines, &names, &mut remaining);
        has_removed.then(|| String::from_utf8_lossy(&remaining).into_owned())
    }

    #[test]
    fn other_cookies_stay_byte_for_byte() {
        let cases: &[(&[&str], Option<&str>)] = &[
            (&[], None),
            (&["a=1; b=\"2 3\";c"], None),
            (&["sessions=1; Session=2; =session"], None),
            (&["session=x"], Some("")),
            (&["session"], Some("")),
            (&["session=x; a=1"], Some("a=1")),
            (&["a=1; session=x; b=\"2=3\" ;c"], Some("a=1; b=\"2=3\" ;c")),
            (&["a=1;session=x;session = y;b=é"], Some("a=1;b=é")),
            (&["a=1", "session=x; b=2", "session=y", "c=3"], Some("a=1; b=2; c=3")),
        ];
        for (lines, expected) in cases {
            assert_eq!(without(lines, &["session", "other"]).as_deref(), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_value_is_all_after_the_first_equals_sign() {
        let found = |line: &'static str| {
            values(line.as_bytes(), "session").map(String::from_utf8_lossy).collect::<Vec<_>>()
        };
        assert_eq!(found("a=1; session=x=y; b"), ["x=y"]);
        assert_eq!(found("session; session = z ;session="), ["", "z", ""]);
        assert_eq!(found("xsession=1; Session=2; a=session=3"), [""; 0]);
    }
}
