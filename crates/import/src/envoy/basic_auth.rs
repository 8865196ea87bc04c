//! Envoy's filter `basic_auth`: users and their hashes.

use document::View;

use crate::expr::{Expr, Notes as _, reason};
use crate::lower::{Alternative, Original};
use crate::note::Effect;
use crate::sources::{Kind, Users};

/// Adds the users as an identity source.
pub(crate) fn users(filter: &View<'_>, original: &mut Original) {
    let header = filter.text_of("forward_username_header").filter(|header| !header.is_empty());
    let header = header.map(str::to_ascii_lowercase);
    let Some(users) = filter.get("users") else { return };
    for (key, value) in filter.entries() {
        let message = match key.as_str() {
            "@type" | "users" | "forward_username_header" | "emit_dynamic_metadata" => continue,
            "allow_missing" if value.boolean() == Some(false) => continue,
            "allow_missing" => {
                let message = "requests without credentials are denied: less is allowed";
                original.notes.push(value.note(Effect::Stricter, message));
                continue;
            }
            "authentication_header" => "rolegate reads credentials from `Authorization` only",
            _ => reason::UNKNOWN_FIELD,
        };
        original.require(&value, "basic_auth", value.inexpressible(message));
    }
    let listed = match (users.text_of("inline_string"), users.text_of("filename")) {
        (Some(text), _) => {
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
            let names = lines.filter_map(|line| line.split_once(':'));
            Users::Inline(names.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
        }
        (None, Some(file)) => Users::File(file.to_owned()),
        (None, None) => {
            let message =
                "users are read from `inline_string` or `filename` only: nothing is allowed by it";
            original.notes.push(users.note(Effect::Stricter, message));
            return;
        }
    };
    if matches!(&listed, Users::Inline(names) if names.is_empty()) {
        let message = "there are no users: nothing is allowed by it";
        original.notes.push(users.note(Effect::Stricter, message));
        return;
    }
    let message = "`{SHA}` hashes are weak: replace them with hashes from `rolegate hash-password`";
    original.notes.push(users.note(Effect::Same, message));
    original.sources.add("basic", Kind::Basic { users: listed, header });
}

/// Denies callers without valid credentials, and adds a note about the header with the user name.
pub(crate) fn requirement(filter: &View<'_>, original: &mut Original) {
    let sources = &mut original.sources;
    let condition = match sources.all.iter().position(|source| source.issuer().is_none()) {
        Some(source) => {
            sources.set_verified(source, Expr::always());
            sources.any_of(filter, source)
        }
        None => filter.inexpressible("the users of this filter were not imported"),
    };
    original.deny.push(Alternative::new(filter, "basic_auth", condition.negated()));
    let Some((name, prefix)) = original.sources.user_header() else { return };
    let Some(header) = filter.get("forward_username_header") else { return };
    let note = if header.text().is_some_and(|header| !header.eq_ignore_ascii_case(name)) {
        let message = "rolegate does not set this header: remove it from client requests, or add \
                       it to `allow_response`";
        header.note(Effect::Unexpected, message)
    } else if prefix.is_empty() {
        header.note(Effect::Same, "rolegate sets this header with `allow_response`")
    } else {
        let message = format!(
            "rolegate sets this header with `allow_response`, and the application gets names with \
             the prefix `{prefix}`"
        );
        header.note(Effect::Same, message)
    };
    original.notes.push(note);
}
