//! Small values: durations, URLs, paths of claims.

use std::time::Duration;

use crate::key_url::url_fault;
use crate::model::ClaimPath;
use document::{Reader, Text, Warning};

/// Reads a duration: a whole number and a unit, such as `60s` or `5m`.
pub(crate) fn duration(reader: &mut Reader, text: &Text<'_>, what: &str) -> Option<Duration> {
    let value = parse_duration(text.text);
    if value.is_none() {
        let help = if !text.text.is_empty() && text.text.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("did you mean `{}s`?", text.text)
        } else {
            "write a whole number and `ms`, `s`, `m`, `h` or `d`, such as `60s`".to_owned()
        };
        reader.error_help(text.at, format!("{what} `{}` is not a duration", text.text), help);
    }
    value
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Checks the URL of a key set. It may contain a secret, so it is never shown.
pub(crate) fn is_url(reader: &mut Reader, text: &Text<'_>) -> bool {
    let fault = url_fault(text.text);
    if let Some((message, help)) = fault {
        reader.error_help(text.at, message, help);
    }
    fault.is_none()
}

/// Reads the path of a claim: a name, or a JSON pointer (RFC 6901).
pub(crate) fn claim_path(reader: &mut Reader, text: &Text<'_>, path: &str) -> Option<ClaimPath> {
    let at = text.locate(path);
    if path.is_empty() || path == "/" || path.chars().any(char::is_control) {
        let help = "write a claim name such as `sub`, or a JSON pointer such as `/realm_access/roles`";
        reader.error_help(at, format!("`{path}` is not the place of a claim"), help);
        return None;
    }
    let Some(pointer) = path.strip_prefix('/') else {
        warn_of_path(reader, text, path);
        return Some(ClaimPath(vec![path.into()]));
    };
    let names: Option<Vec<Box<str>>> = pointer.split('/').map(unescape).collect();
    if names.is_none() {
        let help = "in a JSON pointer `~0` is `~` and `~1` is `/`";
        reader.error_help(at, format!("`{path}` is not a JSON pointer"), help);
    }
    names.map(ClaimPath)
}

/// One unescaped reference token of a JSON pointer (RFC 6901, 4).
fn unescape(name: &str) -> Option<Box<str>> {
    let mut parts = name.split('~');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match part.strip_prefix('0') {
            Some(rest) => ('~', rest),
            None => ('/', part.strip_prefix('1')?),
        };
        out.push(sign);
        out.push_str(rest);
    }
    Some(out.into_boxed_str())
}

/// Warns of a name that looks like a path in another notation: `realm_access.roles`, `$.realm_access.roles`,
/// `realm_access/roles`. Names with dots and slashes are legitimate: namespaced claims are URLs.
fn warn_of_path(reader: &mut Reader, text: &Text<'_>, path: &str) {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let start = path.strip_prefix("$.").unwrap_or(path);
    let separator = if start.contains('/') { '/' } else { '.' };
    let parts: Vec<&str> = start.split(separator).collect();
    if parts.len() > 1 && parts.iter().copied().all(word) {
        let message = format!("`{path}` is the name of one claim");
        let help = format!("did you mean `/{}`?", parts.join("/"));
        reader.warning_help(text.locate(path), Warning::DottedClaim, message, help);
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, unescape};

    #[test]
    fn a_span_of_time_is_a_number_and_a_unit() {
        for (text, milliseconds) in
            [("500ms", 500), ("60s", 60_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000)]
        {
            assert_eq!(parse_duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "s", "5", "5 s", "-5s", "+5s", "1.5h", "5S", "5sec", "18446744073709551615d", "٥s"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    /// RFC 6901, 4: first `~1`, then `~0`.
    #[test]
    fn names_of_a_json_pointer_are_unescaped() {
        assert_eq!(unescape("a~1b~0c").as_deref(), Some("a/b~c"));
        assert_eq!(unescape("~01").as_deref(), Some("~1"));
        assert!(unescape("~").is_none() && unescape("~2").is_none() && unescape("a~").is_none());
    }
}
