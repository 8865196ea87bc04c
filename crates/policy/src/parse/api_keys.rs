//! The section `identity.api_keys`, and the file with the keys.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use crate::hints::HINTS;
use crate::model::{ApiKey, ApiKeys, KeyHash};
use crate::parse::cached_files::CachedFiles;
use crate::parse::response::header_name;
use crate::parse::values::{is_name, names, prefix};
use document::{Fields, Key, Node, PolicyFile, Problem, Reader, Text};

const HEADER: &str = "x-api-key";

/// Headers that cannot have API keys: logs show them, shadow policies copy them, or they have other
/// credentials.
const NO_HEADERS_OF_KEYS: &[&str] = &[
    "authorization",
    "content-encoding",
    "content-type",
    "cookie",
    "opendistro_security_impersonate_as",
    "security_tenant",
    "securitytenant",
    "traceparent",
    "tracestate",
    "x-request-id",
];

pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (key, node): (&Key, &Node),
) -> Option<ApiKeys> {
    let field_names = ["header", "file", "user_prefix", "group_prefix"];
    let fields = reader.filled_fields(node, "`api_keys`", &field_names)?;
    let header = match fields.value("header") {
        Some(node) => reader.text(node, "`header`").and_then(|text| read_header(reader, &text)),
        None => Some(HEADER.to_owned()),
    };
    reader.required(&fields, "file", "add `file: keys.yaml`, which `rolegate new-api-key` writes");
    let keys = reader.field_text(&fields, "file").and_then(|name| read_file(reader, files, &name));
    Some(ApiKeys {
        header: header?.into(),
        keys: keys?,
        user_prefix: prefix(reader, &fields, "user_prefix"),
        group_prefix: prefix(reader, &fields, "group_prefix"),
        at: reader.place(key.at),
    })
}

fn read_header(reader: &mut Reader, text: &Text<'_>) -> Option<String> {
    let name = header_name(reader, text)?;
    if NO_HEADERS_OF_KEYS.contains(&&*name) || name.starts_with("x-forwarded-") {
        let message = format!("`{name}` has another meaning, and may be logged");
        return reader.reject(text.at, message, "write one such as `x-api-key`");
    }
    Some(name)
}

fn read_file(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    name: &Text<'_>,
) -> Option<Vec<ApiKey>> {
    let help = "paths are relative to the folder of the file that names them; `rolegate \
                new-api-key --user NAME --file FILE` creates this file";
    let PolicyFile { path, bytes } = files.read_named_or_help(reader, name, help)?;
    let (keys, problems) = parse(&path, &bytes);
    problems.into_iter().for_each(|problem| reader.push(problem));
    Some(keys)
}

/// Parses a file of API keys. The keys are complete if no problem is an error. No problem shows an
/// id or a hash: somebody may have written a whole key there.
#[must_use]
pub fn parse(file: &Path, bytes: &[u8]) -> (Vec<ApiKey>, Vec<Problem>) {
    let mut reader = Reader::with_hints(file.into(), HINTS).hiding_keys();
    // An empty file is an error. It may be a file that is still being written, and must not lock
    // all callers out.
    let help = "write `keys: {}` to have no keys";
    let root = reader.parse_nonempty(bytes, help);
    let keys = root.map(|root| read_keys(&mut reader, &root)).unwrap_or_default();
    (keys, reader.finish())
}

fn read_keys(reader: &mut Reader, root: &Node) -> Vec<ApiKey> {
    let Some(fields) = reader.fields(root, "a file of API keys", &["keys"]) else {
        return Vec::new();
    };
    let help = "write `keys: {}` to have none";
    if let Some((key, _)) = fields.field("keys").filter(|(_, node)| node.is_nothing()) {
        reader.error_help(key.at, "`keys` has no value", help);
    }
    let entries = reader.required(&fields, "keys", help);
    let entries = entries.and_then(|node| reader.entries(node, "the keys"));
    let entries = entries.iter().flat_map(Fields::iter);
    let keys: Vec<_> = entries.filter_map(|(key, node)| read_key(reader, key, node)).collect();
    report_other_groups(reader, &keys);
    keys
}

/// Reports a user whose keys have different groups: what the user may do would depend on the key.
fn report_other_groups(reader: &mut Reader, keys: &[ApiKey]) {
    let mut first_keys: HashMap<&str, &ApiKey> = HashMap::new();
    for key in keys {
        let first = *first_keys.entry(&key.user).or_insert(key);
        let [groups, others] = [key, first].map(|key| key.groups.iter().collect::<BTreeSet<_>>());
        if groups != others {
            let message = format!("the user `{}` has other groups with another key", key.user);
            let problem = Problem::error(key.at.clone(), message)
                .help("write the same groups, or another user")
                .related(first.at.clone(), "the other key is here");
            reader.push(problem);
        }
    }
}

fn read_key(reader: &mut Reader, key: &Key, node: &Node) -> Option<ApiKey> {
    let has_id = !key.text.is_empty() && key.text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !has_id {
        let help = "the id is the part of the key before `_`; nobody but its owner has the rest";
        reader.error_help(
            key.at,
            "the id of a key has other characters than letters and digits",
            help,
        );
    }
    let field_names = ["sha256", "user", "groups", "expires"];
    let fields = reader.secret_fields(node, "a key", &field_names)?;
    reader.report_empty(&fields, &field_names);
    let help = "add the SHA-256 of the whole key: `rolegate new-api-key` writes it";
    reader.required(&fields, "sha256", help);
    let hash = reader.field_text(&fields, "sha256").and_then(|text| read_hash(reader, &text));
    reader.required(&fields, "user", "add the name of its user");
    let user = reader.field_text(&fields, "user");
    let user = user.filter(|text| is_name(reader, text.at, text.text, "`user`"));
    let groups = names(reader, &fields, "groups", "a group");
    let expires = match reader.field_text(&fields, "expires") {
        Some(text) => Some(read_expiry(reader, &text)?),
        None if fields.lacks("expires") => None,
        // The expiry could not be read. Without it, the key would be valid for longer.
        None => return None,
    };
    Some(ApiKey {
        id: has_id.then(|| key.text.clone())?,
        hash: hash?,
        user: user?.shared.clone(),
        groups: groups.iter().map(|text| text.shared.clone()).collect(),
        expires,
        at: reader.place(key.at),
    })
}

fn read_hash(reader: &mut Reader, text: &Text<'_>) -> Option<KeyHash> {
    let hash = parse_hash(text.text);
    if hash.is_none() {
        let help = "write the SHA-256 of the whole key: `rolegate new-api-key` writes it";
        reader.error_help(text.at, "`sha256` is not 64 hexadecimal digits", help);
    }
    hash
}

fn parse_hash(text: &str) -> Option<KeyHash> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let bytes = pairs.iter().map(|[high, low]| {
        let digits = [high, low].map(|digit| char::from(*digit).to_digit(16));
        let [Some(high), Some(low)] = digits else { return None };
        u8::try_from(high * 16 + low).ok()
    });
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    Some(KeyHash(bytes.try_into().ok()?))
}

fn read_expiry(reader: &mut Reader, text: &Text<'_>) -> Option<Duration> {
    let expiry = parse_expiry(text.text);
    if expiry.is_none() {
        let help = "write the last day in UTC, such as `2027-01-31`, or a time, such as \
                    `2027-01-31T18:00:00Z`; without it the key does not expire";
        reader.error_help(text.at, "`expires` is neither a date nor a time", help);
    }
    expiry
}

/// Parses a date, which stands for its end in UTC, or a time (RFC 3339). The result is the time
/// since the Unix epoch; `None` if the text is neither, or the time is before the epoch.
#[must_use]
pub fn parse_expiry(text: &str) -> Option<Duration> {
    let is_date = text.len() == 10 && text.as_bytes().get(4) == Some(&b'-');
    let time = if is_date {
        let next_day = text.parse::<jiff::civil::Date>().ok()?.tomorrow().ok()?;
        next_day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()
    } else {
        text.parse::<jiff::Timestamp>().ok()?
    };
    let seconds = u64::try_from(time.as_second()).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.subsec_nanosecond()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{parse_expiry, parse_hash};

    #[test]
    fn a_date_ends_at_midnight_in_utc() {
        for (text, seconds) in [
            ("1970-01-01", Some(86_400)),
            ("2027-01-31", Some(1_801_440_000)),
            ("2028-02-29", Some(1_835_481_600)),
            ("2027-01-31T18:00:00Z", Some(1_801_418_400)),
            ("2027-01-31T18:00:00+01:00", Some(1_801_414_800)),
            ("2027-02-29", None),
            ("2027-1-31", None),
            ("20270131T1", None),
            ("2027-01-31T18:00:00", None),
            ("1969-01-01", None),
            ("9999-12-31", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(parse_expiry(text).map(|time| time.as_secs()), seconds, "{text}");
        }
    }

    #[test]
    fn a_hash_has_64_digits() {
        let hash = "0123456789abcdefABCDEF".to_owned() + &"0".repeat(42);
        assert_eq!(
            parse_hash(&hash).map(|hash| hash.0[8..11].to_vec()),
            Some(vec![0xab, 0xcd, 0xef])
        );
        for wrong in [
            "",
            "0",
            hash.trim_start_matches('0'),
            &format!("{hash}0"),
            &hash.replace('a', "g"),
            &hash.replace('0', "é"),
        ] {
            assert_eq!(parse_hash(wrong), None, "{wrong}");
        }
    }
}
