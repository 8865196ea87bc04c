//! The section `identity.certificates`.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::model::{
    CertificateGroups, CertificateSource, CertificateUser, Certificates, NameKind, NamePattern,
    NamePiece, NameSegment, NameTemplate,
};
use crate::parse::values::{is_name, prefix};
use condition::Network;
use document::{Fields, Key, Node, Problem, Reader, Text, Warning, closest};

/// The maximum number of patterns with placeholders in `users`, and in `groups`. Each name of a
/// certificate is compared with each of them.
const MAX_PATTERNS: usize = 100;

pub(crate) fn read(reader: &mut Reader, (key, node): (&Key, &Node)) -> Option<Certificates> {
    let field_names = ["from", "trusted_proxies", "users", "groups", "user_prefix", "group_prefix"];
    let fields = reader.filled_fields(node, "`certificates`", &field_names)?;
    let from = read_source(reader, &fields);
    let users = read_users(reader, &fields);
    let groups = read_groups(reader, &fields);
    let users_with_placeholders = users.iter().filter(|user| !user.name.is_literal());
    let groups_with_placeholders = groups.iter().filter(|entry| !entry.name.is_literal());
    if users_with_placeholders.count() > MAX_PATTERNS
        || groups_with_placeholders.count() > MAX_PATTERNS
    {
        let message = format!("more than {MAX_PATTERNS} names have placeholders");
        reader.error_help(key.at, message, "use placeholders for more segments");
    }
    report_overlaps(reader, &users);
    Some(Certificates {
        // `from` is missing only after an error, and a policy with an error is not used.
        from: from.unwrap_or(CertificateSource::Xfcc { trusted_proxies: Vec::new() }),
        users,
        groups,
        user_prefix: prefix(reader, &fields, "user_prefix"),
        group_prefix: prefix(reader, &fields, "group_prefix"),
        at: reader.place(key.at),
    })
}

fn read_source(reader: &mut Reader, fields: &Fields<'_>) -> Option<CertificateSource> {
    let help = "write `peer` for the certificates of Envoy's clients, or `xfcc` for those in \
                `x-forwarded-client-cert` of a proxy before Envoy";
    reader.required(fields, "from", help);
    let is_xfcc = reader.field_choice(fields, "from", &[("peer", false), ("xfcc", true)]);
    let proxies = fields.field("trusted_proxies");
    match (is_xfcc, proxies) {
        (None, None) => None,
        (Some(false), None) => Some(CertificateSource::Peer),
        (Some(false), Some((key, _))) => {
            let help = "leave it out, or write `from: xfcc`";
            reader.reject(key.at, "`trusted_proxies` has no effect with `from: peer`", help)
        }
        (Some(true), None) => {
            let help = "add `trusted_proxies: [10.0.0.0/8]` with the addresses of the proxies \
                        that write the header: any other client may write what it likes";
            reader.required(fields, "trusted_proxies", help);
            None
        }
        (Some(true) | None, Some(field)) => {
            let texts = reader.nonempty_texts(field, "name the proxies that write the header")?;
            let proxies: Vec<Option<Network>> =
                texts.iter().map(|text| read_network(reader, text)).collect();
            let trusted_proxies = proxies.into_iter().collect::<Option<_>>()?;
            Some(CertificateSource::Xfcc { trusted_proxies })
        }
    }
}

fn read_network(reader: &mut Reader, text: &Text<'_>) -> Option<Network> {
    let address = text.text.parse::<IpAddr>().ok().filter(|ip| ip.to_canonical() == *ip);
    let network = address
        .map(|address| Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } });
    let Some(network) = network.or_else(|| Network::parse(text.text)) else {
        let message = format!("`{}` is neither an address nor a network", text.text);
        return reader.reject(text.at, message, "write `10.0.0.0/8` or `2001:db8::7`");
    };
    if network.prefix == 0 {
        let message = format!("`{}` is every client, and each may write the header", text.text);
        return reader.reject(text.at, message, "name the proxies that write it");
    }
    Some(network)
}

fn read_users(reader: &mut Reader, fields: &Fields<'_>) -> Vec<CertificateUser> {
    let Some(node) = fields.value("users") else { return Vec::new() };
    let entries = reader.entries(node, "`users` of `certificates`");
    let mut users = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let name = read_pattern(reader, key);
        let text = reader.text(node, "the name of a user");
        let (Some(name), Some(text)) = (name, text) else { continue };
        let Some(user) = read_template(reader, &text, &name, "the name of a user") else {
            continue;
        };
        warn_of_merged(reader, &text, &name, &user);
        users.push(CertificateUser { name, user, at: reader.place(key.at) });
    }
    users
}

fn read_groups(reader: &mut Reader, fields: &Fields<'_>) -> Vec<CertificateGroups> {
    let Some(node) = fields.value("groups") else { return Vec::new() };
    let entries = reader.entries(node, "`groups` of `certificates`");
    let mut groups = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let name = read_pattern(reader, key);
        let texts = reader.texts(node, "the groups of a certificate", "a group");
        reader.warn_of_duplicates(&texts);
        let Some(name) = name else { continue };
        let read: Vec<Option<NameTemplate>> =
            texts.iter().map(|text| read_template(reader, text, &name, "a group")).collect();
        let at = reader.place(key.at);
        groups.push(CertificateGroups { name, groups: read.into_iter().flatten().collect(), at });
    }
    groups
}

fn read_pattern(reader: &mut Reader, key: &Key) -> Option<NamePattern> {
    let mut kinds = [NameKind::Spiffe, NameKind::Dns].into_iter();
    let Some(kind) = kinds.find(|kind| key.text.starts_with(kind.prefix())) else {
        let message = format!("`{}` is no name of a certificate", key.text);
        let help = "write `spiffe://example.org/ns/{ns}/sa/{sa}` or `dns:api.example.com`";
        return reader.reject(key.at, message, help);
    };
    let text = key.text.strip_prefix(kind.prefix()).unwrap_or_default();
    let mut segments = Vec::new();
    for part in text.split(kind.separator()) {
        let placeholder = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        segments.push(match placeholder {
            Some(name) => NameSegment::Any(name.into()),
            None => NameSegment::Literal(part.into()),
        });
    }
    let fault = segments.iter().enumerate().find_map(|(index, segment)| match segment {
        NameSegment::Any(name) => {
            placeholder_fault(name, segments.get(..index).unwrap_or_default())
        }
        NameSegment::Literal(text) => literal_fault(kind, text),
    });
    let fault = fault.or_else(|| match (kind, segments.first()) {
        (NameKind::Spiffe, Some(NameSegment::Any(_))) => Some((
            "the trust domain is a placeholder".to_owned(),
            "name it: other trust domains have other authorities",
        )),
        _ => None,
    });
    if let Some((message, help)) = fault {
        return reader.reject(key.at, format!("`{}`: {message}", key.text), help);
    }
    Some(NamePattern { text: key.text.clone(), kind, segments })
}

fn placeholder_fault(name: &str, before: &[NameSegment]) -> Option<(String, &'static str)> {
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_word {
        let message = format!("`{{{name}}}` is not a placeholder");
        return Some((message, "write letters, digits and `_`, such as `{ns}`"));
    }
    let is_known =
        before.iter().any(|segment| matches!(segment, NameSegment::Any(known) if **known == *name));
    is_known.then(|| (format!("`{{{name}}}` is there twice"), "give each its own name"))
}

fn literal_fault(kind: NameKind, text: &str) -> Option<(String, &'static str)> {
    if kind.is_segment(text) {
        return None;
    }
    Some(if text.contains(['{', '}']) {
        (format!("`{text}` has a placeholder in it"), "a placeholder is a whole segment or label")
    } else if text.contains('*') {
        (format!("`{text}` matches nothing"), "write a placeholder, such as `{name}`")
    } else if text.is_empty() {
        ("an empty segment".to_owned(), "write no separator at the end, and none twice")
    } else {
        let help = "a segment has letters, digits, `-`, `_`, and in a SPIFFE ID `.`";
        (format!("no name has the segment `{text}`"), help)
    })
}

fn read_template(
    reader: &mut Reader,
    text: &Text<'_>,
    name: &NamePattern,
    subject: &str,
) -> Option<NameTemplate> {
    if !is_name(reader, text.at, text.text, subject) {
        return None;
    }
    let mut pieces = Vec::new();
    let mut unread = text.text;
    while let Some((before, after)) = unread.split_once('{') {
        let Some((placeholder, after)) = after.split_once('}') else { break };
        let Some(index) = name.placeholders().position(|p| p == placeholder) else {
            let message = format!("`{}` has no placeholder `{{{placeholder}}}`", name.text);
            let help = match closest(placeholder, name.placeholders()) {
                Some(near) => format!("did you mean `{{{near}}}`?"),
                None => format!("write `{{{placeholder}}}` as a segment of it"),
            };
            return reader.reject(text.locate(placeholder), message, help);
        };
        if !before.is_empty() {
            pieces.push(NamePiece::Text(before.into()));
        }
        pieces.push(NamePiece::Placeholder(index));
        unread = after;
    }
    if !unread.is_empty() {
        pieces.push(NamePiece::Text(unread.into()));
    }
    let mut texts = pieces.iter().filter_map(|piece| match piece {
        NamePiece::Text(text) => Some(text),
        NamePiece::Placeholder(_) => None,
    });
    if texts.any(|text| text.contains(['{', '}'])) {
        let message = format!("`{}` has a brace that is no placeholder", text.text);
        return reader.reject(text.at, message, "write placeholders such as `{ns}`");
    }
    Some(NameTemplate(pieces))
}

/// Warns if two different names that match a pattern give the same user. With `/ns/{ns}/sa/{sa}`
/// and the user `{sa}`, a service account is the same user as each service account of this name in
/// any other namespace.
fn warn_of_merged(reader: &mut Reader, text: &Text<'_>, name: &NamePattern, user: &NameTemplate) {
    let count = name.placeholders().count();
    let missing = (0..count).find(|index| !user.0.contains(&NamePiece::Placeholder(*index)));
    let missing = missing.and_then(|index| name.placeholders().nth(index));
    // Each two adjacent pieces, with the piece after them if there is one.
    let mut pairs = user.0.windows(2).zip(user.0.windows(3).map(Some).chain([None]));
    let runs_together = pairs.any(|(pair, three)| match (pair, three) {
        ([NamePiece::Placeholder(_), NamePiece::Placeholder(_)], _) => true,
        (
            _,
            Some([NamePiece::Placeholder(_), NamePiece::Text(between), NamePiece::Placeholder(_)]),
        ) => between.chars().all(|character| name.kind.may_have(character)),
        _ => false,
    });
    let (message, help) = if let Some(missing) = missing {
        let message = format!("certificates that differ in `{{{missing}}}` are the same user");
        (message, format!("write `{{{missing}}}` in the name of the user, too"))
    } else if runs_together {
        let message = "certificates with different names can be the same user: nothing says where \
                       a placeholder ends";
        (
            message.to_owned(),
            "write a character between that no segment has, such as `/`".to_owned(),
        )
    } else {
        return;
    };
    reader.warning_help(text.at, Warning::MergedUsers, message, help);
}

/// Reports two entries that can match the same name: a certificate with it would be two users.
fn report_overlaps(reader: &mut Reader, users: &[CertificateUser]) {
    let (literals, patterns): (Vec<_>, Vec<_>) =
        users.iter().partition(|user| user.name.is_literal());
    // Two literals never overlap, because a mapping has each key once. A pattern overlaps only with
    // entries that have as many segments.
    let literals: HashMap<usize, Vec<&CertificateUser>> =
        literals.into_iter().fold(HashMap::new(), |mut by_length, user| {
            by_length.entry(user.name.segments.len()).or_insert_with(Vec::new).push(user);
            by_length
        });
    for (index, pattern) in patterns.iter().take(MAX_PATTERNS).enumerate() {
        let same_length = literals.get(&pattern.name.segments.len());
        let earlier = patterns.iter().take(index).chain(same_length.into_iter().flatten());
        for other in earlier.filter(|e| e.name.overlaps(&pattern.name)) {
            let message =
                format!("a name can match `{}` and `{}`", pattern.name.text, other.name.text);
            let problem = Problem::error(pattern.at.clone(), message)
                .help("a certificate is one user: leave one of them out, or write narrower names")
                .related(other.at.clone(), "the other is here");
            reader.push(problem);
        }
    }
}
