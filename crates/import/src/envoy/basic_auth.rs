//! Envoy's filter `basic_auth`: users with their hashes.

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::lower::Original;
use crate::note::Effect;
use crate::sources::{Kind, Users};

/// Adds the users as an identity source.
pub(crate) fn users(filter: &View<'_>, original: &mut Original) {
    let header = filter.text_of("forward_username_header").filter(|header| !header.is_empty());
    let header = header.map(str::to_ascii_lowercase);
    let Some(users) = filter.get("users") else { return };
    for (key, value) in filter.entries() {
        match key.as_str() {
            "@type" | "users" | "forward_username_header" | "emit_dynamic_metadata" => {}
            "allow_missing" => {
                let message = "requests without credentials are denied: less is allowed";
                original.notes.push(value.note(Effect::Stricter, message));
            }
            key => {
                let condition = value.inexpressible(match key {
                    "authentication_header" => {
                        "rolegate reads credentials from `Authorization` only"
                    }
                    _ => "a field that is not known",
                });
                original.allow.push(vec![super::unnamed(&value, "basic_auth", condition)]);
            }
        }
    }
    let listed = if let Some(text) = users.text_of("inline_string") {
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let names = lines.filter_map(|line| line.split_once(':'));
        let names: Vec<_> = names.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect();
        if names.is_empty() {
            let message = "there are no users: nothing is allowed by it";
            original.notes.push(users.note(Effect::Stricter, message));
            return;
        }
        Users::Inline(names)
    } else if let Some(file) = users.text_of("filename") {
        Users::File(file.to_owned())
    } else {
        let message =
            "users are read from `inline_string` or `filename` only: nothing is allowed by it";
        original.notes.push(users.note(Effect::Stricter, message));
        return;
    };
    let message = "`{SHA}` hashes are weak: replace them by those of `rolegate hash-password`";
    original.notes.push(users.note(Effect::Same, message));
    original.sources.add("basic", Kind::Basic { users: listed, header });
}

/// The filter lets only callers with valid credentials pass.
pub(crate) fn requirement(filter: &View<'_>, original: &mut Original) {
    let source =
        original.sources.all.iter().position(|source| !matches!(source.kind, Kind::Jwt(_)));
    let condition = match source {
        Some(source) => {
            original.sources.verify(source, Expr::always());
            original.sources.any_of(filter, source)
        }
        None => filter.inexpressible("the users of this filter are not known"),
    };
    original.deny.push(super::unnamed(filter, "basic_auth", condition.negated()));
    if let (Some((set, prefix)), Some(header)) =
        (original.sources.user_header(), filter.get("forward_username_header"))
    {
        if header.text().is_some_and(|header| !header.eq_ignore_ascii_case(set)) {
            let message = "rolegate does not set this header: remove what clients send in it, or add it to `allow_response`";
            original.notes.push(header.note(Effect::Unexpected, message));
            return;
        }
        let message = match prefix.as_str() {
            "" => "rolegate sets this header by `allow_response`".to_owned(),
            prefix => format!(
                "rolegate sets this header by `allow_response`, and the application gets names with the prefix `{prefix}`"
            ),
        };
        original.notes.push(header.note(Effect::Same, message));
    }
}
