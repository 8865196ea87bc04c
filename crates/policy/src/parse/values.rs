//! Names and small values: user names, hashes, durations, URLs, paths of claims. The messages of
//! this module never show a user name of Basic or a hash.

use std::sync::Arc;
use std::time::Duration;

use crate::key_url::url_fault;
use crate::model::ClaimPath;
use crate::parse::unresolved::{NameRef, NameRefs};
use document::{Fields, Mark, Reader, Text, Warning};

/// Whether a name is valid: not blank, and without control characters, because names appear in
/// headers and logs. Otherwise it reports the name, which the message calls `subject`.
pub(crate) fn is_name(reader: &mut Reader, at: Mark, name: &str, subject: &str) -> bool {
    let message = if name.trim().is_empty() {
        format!("{subject} is empty")
    } else if name.chars().any(char::is_control) {
        format!("{subject} has a control character in it")
    } else {
        return true;
    };
    reader.error(at, message);
    false
}

/// Reads the list of names under a key, as [`names`] does, with their places.
pub(crate) fn name_refs(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    item: &str,
) -> Vec<NameRef> {
    let names = names(reader, fields, key, item);
    // Not `into_iter`, which would keep the larger allocation of the texts.
    names.iter().map(|name| NameRef { name: name.shared.clone(), at: name.at }).collect()
}

/// Reads the list of names under a key. Messages call one of them `item`. A name that is not valid
/// is reported and left out.
pub(crate) fn names<'n>(
    reader: &mut Reader,
    fields: &Fields<'n>,
    key: &str,
    item: &str,
) -> Vec<Text<'n>> {
    let Some(node) = fields.value(key) else { return Vec::new() };
    let mut texts = reader.texts(node, &format!("`{key}`"), item);
    reader.warn_of_duplicates(&texts);
    texts.retain(|text| is_name(reader, text.at, text.text, item));
    texts
}

/// The sources that `user_id_from` names.
pub(crate) fn user_id_from(reader: &mut Reader, fields: &Fields<'_>) -> Option<NameRefs> {
    let (key, node) = fields.field("user_id_from")?;
    let errors = reader.errors();
    let names = name_refs(reader, fields, "user_id_from", "the name of a source");
    if names.is_empty() && reader.errors() == errors {
        let help = "name `basic`, `api_keys`, `certificates` or an issuer, or leave it out";
        reader.error_help(node.at, "`user_id_from` is empty", help);
    }
    Some(NameRefs { names, at: key.at })
}

/// The value of `user_prefix` or `group_prefix`.
pub(crate) fn prefix(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Arc<str> {
    let Some(text) = reader.field_text(fields, key) else { return "".into() };
    if text.text.chars().any(char::is_control) {
        reader.error(text.at, format!("`{key}` has a control character in it"));
    }
    text.shared.clone()
}

/// Whether a text looks like a hash. The password verifier checks later whether it supports the
/// algorithm.
pub(crate) fn is_hash(reader: &mut Reader, at: Mark, hash: &str) -> bool {
    let (message, help) = if hash.starts_with(char::is_whitespace) {
        ("a space comes before the hash of the password", "leave the space out")
    } else if !is_like_a_hash(hash) {
        ("the password is not a hash", "run `rolegate hash-password` and write what it prints")
    } else {
        return true;
    };
    reader.error_help(at, message, help);
    false
}

/// `$name$…` (crypt and PHC strings) or `{NAME}…` (RFC 2307, 5.3).
fn is_like_a_hash(hash: &str) -> bool {
    let crypt = hash.strip_prefix('$').and_then(|hash| hash.split_once('$'));
    let ldap = hash.strip_prefix('{').and_then(|hash| hash.split_once('}'));
    crypt.or(ldap).is_some_and(|(name, value)| is_word(name) && !value.is_empty())
        && hash.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Whether this can be the user name in a Basic header (RFC 7617, 2). Messages do not show the
/// name: a password may follow the colon.
pub(crate) fn is_user_name(reader: &mut Reader, at: Mark, name: &str) -> bool {
    let message = if name.is_empty() {
        "a user name is empty"
    } else if name.contains(':') {
        "a user name has a `:` in it, which ends the name in a Basic header"
    } else if name.chars().any(char::is_control) {
        "a user name has a control character in it"
    } else {
        return true;
    };
    reader.error(at, message);
    false
}

/// Reads the duration under a key: a whole number and a unit, such as `60s` or `5m`. A duration
/// shorter than `minimum` is reported: it is probably a typing error, such as `5ms` for `5m`.
pub(crate) fn duration(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    minimum: &str,
) -> Option<Duration> {
    let text = reader.field_text(fields, key)?;
    let duration = parse_duration(text.text);
    if duration.is_none() {
        let help = if !text.text.is_empty() && text.text.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("did you mean `{}s`?", text.text)
        } else {
            "write a whole number and `ms`, `s`, `m`, `h` or `d`, such as `60s`".to_owned()
        };
        reader.error_help(text.at, format!("`{key}` `{}` is not a duration", text.text), help);
    } else if duration < parse_duration(minimum) {
        let help = format!("write `{minimum}` or more");
        reader.error_help(text.at, format!("`{key}` is too short"), help);
    }
    duration
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

/// Whether a URL that rolegate will fetch is valid. It may contain a secret, so messages never show
/// it.
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
        let help =
            "write a claim name such as `sub`, or a JSON pointer such as `/realm_access/roles`";
        return reader.reject(at, format!("`{path}` is not the place of a claim"), help);
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

/// A reference token of a JSON pointer, unescaped (RFC 6901, 4). `None` if a `~` is before neither
/// `0` nor `1`.
fn unescape(name: &str) -> Option<Box<str>> {
    let mut parts = name.split('~');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, text) = match part.strip_prefix('0') {
            Some(text) => ('~', text),
            None => ('/', part.strip_prefix('1')?),
        };
        out.push(sign);
        out.push_str(text);
    }
    Some(out.into_boxed_str())
}

/// Warns of a name that looks like a path in another notation: `realm_access.roles`,
/// `$.realm_access.roles`, `realm_access/roles`. This is no error, because a name may have dots and
/// slashes: the name of a namespaced claim is a URL.
fn warn_of_path(reader: &mut Reader, text: &Text<'_>, path: &str) {
    let start = path.strip_prefix("$.").unwrap_or(path);
    let separator = if start.contains('/') { '/' } else { '.' };
    let parts: Vec<&str> = start.split(separator).collect();
    if parts.len() > 1 && parts.iter().copied().all(is_word) {
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
        for (text, milliseconds) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in
            ["", "s", "5", "5 s", "-5s", "+5s", "1.5h", "5S", "5sec", "18446744073709551615d", "٥s"]
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
