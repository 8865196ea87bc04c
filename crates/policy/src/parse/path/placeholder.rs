//! Placeholders in the path of a rule: names that look like the caller's, and what to write instead of what is none.

use crate::parse::path::is_path;

/// Why a placeholder with this name is an error: it looks like one that paths do not have, and would match any segment.
pub(super) fn like_reserved(name: &str) -> Option<String> {
    let (of, _) = name.split_once('.')?;
    let known =
        ["user", "claims", "claim", "token", "jwt", "subject", "principal", "auth", "caller", "identity"];
    known.contains(&&*of.to_ascii_lowercase()).then(|| format!("`{{{name}}}` is not known in a path"))
}

/// Names that other systems give to the caller.
const LIKE_USER: [&str; 19] = [
    "username",
    "user_name",
    "user-name",
    "userid",
    "user_id",
    "user-id",
    "name",
    "usr",
    "sub",
    "subject",
    "uid",
    "me",
    "self",
    "owner",
    "caller",
    "login",
    "principal",
    "preferred_username",
    "current_user",
];

/// Whether the author of a placeholder with this name probably wants the caller's name: a rule for `/users/{username}`
/// lets each caller reach every user.
pub(crate) fn is_like_user(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LIKE_USER.contains(&&*name) || strsim::damerau_levenshtein(&name, "user") <= 1
}

/// Whether a placeholder with this name is the caller's name.
pub(crate) fn names_caller(name: &str) -> bool {
    matches!(name, "user" | "user.id")
}

/// Why a placeholder with this name is any segment although it looks like something of the caller, and what to write.
pub(super) fn is_like_caller(name: &str) -> Option<(&'static str, &'static str)> {
    let each = "write one rule for each of them, or call it `{id}` if it may be any";
    match &*name.to_ascii_lowercase() {
        "group" | "groups" => Some(("groups are not compared with paths", each)),
        "role" | "roles" => Some(("roles are not compared with paths", each)),
        "issuer" => Some(("issuers are not compared with paths", each)),
        "email" | "mail" => Some((
            "only `{user}` is the caller's name",
            "write `{user}` if the names of users are addresses, or call it `{id}` if it may be any",
        )),
        _ => None,
    }
}

/// The types that other systems write before the name of a placeholder: `<int:id>`.
const TYPES: [&str; 8] = ["float", "int", "path", "re", "slug", "str", "string", "uuid"];

/// The name of a placeholder with something else in it: `int:id`, `id:int`, `id:[0-9]+`, `id?`, `id=1`.
pub(super) fn name_of(inner: &str) -> &str {
    match inner.split_once([':', '?', '=']) {
        Some((of_type, name)) if TYPES.contains(&of_type) && !name.contains('*') => name,
        Some((name, _)) => name,
        None => inner,
    }
}

/// What the author of a segment probably means, in the notation of another system: `:id`, `$id`, `<int:id>`, `:rest*`.
pub(crate) fn meant_by(part: &str) -> Option<String> {
    let is_name = |name: &&str| {
        let mut bytes = name.bytes();
        names_caller(name)
            || bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let angled = part.strip_prefix('<').and_then(|part| part.strip_suffix('>'));
    if angled.is_some_and(|inner| inner.starts_with("path:") || inner.ends_with(":path")) {
        return Some("**".to_owned());
    }
    let name = part.strip_prefix([':', '$']).or(angled.map(name_of))?;
    match name.strip_suffix(['*', '+']) {
        Some(repeated) => is_name(&repeated).then(|| "**".to_owned()),
        None if is_name(&name) => Some(format!("{{{name}}}")),
        None => angled.map(|_| "{id}".to_owned()),
    }
}

/// What to write instead of a segment in which a placeholder is a part. A glob in the place of the caller's name would
/// open what belongs to other callers.
pub(super) fn more_than_placeholder(part: &str) -> String {
    let brace = || "write a brace of the path itself as `%7B` or `%7D`".to_owned();
    if let Some(name) = part.strip_prefix("{{").and_then(|part| part.strip_suffix("}}")) {
        return placeholder_of(name.trim()).unwrap_or_else(brace);
    }
    let Some((before, name, after)) = around_placeholder(part) else {
        let has_caller = part.contains("{user}") || part.contains("{user.id}");
        return if has_caller { OWN_SEGMENT.to_owned() } else { brace() };
    };
    let only_stars = [before, after].iter().all(|side| side.bytes().all(|byte| byte == b'*'));
    if only_stars {
        return placeholder_of(name).unwrap_or_else(brace);
    }
    if names_caller(name) || is_like_user(name) {
        return OWN_SEGMENT.to_owned();
    }
    let (before, after) = (before.trim_end_matches('*'), after.trim_start_matches('*'));
    let after = after.strip_suffix("**").unwrap_or(after);
    let glob = format!("{before}*{after}");
    if is_path(&format!("/{glob}")) { format!("did you mean `{glob}`?") } else { brace() }
}

const OWN_SEGMENT: &str =
    "the caller's name is a segment of its own, `{user}`: a `*` in its place would match every name";

/// Suggests the placeholder with this name, if it is one.
pub(super) fn placeholder_of(name: &str) -> Option<String> {
    let placeholder = format!("{{{name}}}");
    if is_path(&format!("/{placeholder}")) {
        return Some(format!("did you mean `{placeholder}`?"));
    }
    like_reserved(name).map(|_| RESERVED.to_owned())
}

/// Names that look like the caller's are reserved.
pub(super) const RESERVED: &str =
    "write `{user}` for the caller's name, or `{user.id}` for it without its prefix";

/// The text before the only placeholder of a segment, its name, and the text after it.
fn around_placeholder(part: &str) -> Option<(&str, &str, &str)> {
    let (before, from) = part.split_once('{')?;
    let (name, after) = from.split_once('}')?;
    // With a brace in the name the suggestion would be the segment itself, and checking it would never end.
    let is_only = !before.contains('}') && !name.contains('{') && !after.contains(['{', '}']);
    is_only.then_some((before, name, after))
}
