//! The methods of a rule: `GET`, `GET|POST`, `*`.

use crate::document::{Reader, Text};
use crate::pattern::Actions;
use crate::similar::closest;
use crate::warning::Warning;

/// The methods of IANA's registry that are in use, and two that caches define.
const KNOWN: &[&str] = &[
    "ACL",
    "BAN",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// The maximum number of methods of a rule.
const MAX_METHODS: usize = 100;

/// Reads the methods of a rule, each with the text that contains it.
pub(crate) fn read<'n>(
    reader: &mut Reader,
    methods: impl Iterator<Item = (Text<'n>, &'n str)>,
) -> Option<Actions> {
    let mut any = None;
    let mut these: Vec<Box<str>> = Vec::new();
    let mut failed = false;
    let mut number = 0_usize;
    for (text, method) in methods {
        number += 1;
        if number > MAX_METHODS {
            reader.error_help(
                text.locate(method),
                format!("more than {MAX_METHODS} methods"),
                "write `*` for any",
            );
            return None;
        }
        if method == "*" {
            any = Some(text.locate(method));
        } else if !is_method(reader, &text, method) {
            failed = true;
        } else if these.iter().any(|known| **known == *method) {
            let message = format!("`{method}` is listed twice");
            reader.warning_help(text.locate(method), Warning::Duplicate, message, "leave one out");
        } else {
            these.push(method.into());
        }
    }
    match any {
        _ if failed => None,
        Some(at) if number > 1 => {
            reader.error_help(at, "`*` is every method already", "leave the others out");
            None
        }
        Some(_) => Some(Actions::Any),
        None => Some(Actions::These(these)),
    }
}

/// Whether this can be the method of a request (a token: RFC 9110, 9.1) and is not a typing error.
fn is_method(reader: &mut Reader, text: &Text<'_>, method: &str) -> bool {
    let at = text.locate(method);
    if method.is_empty() {
        reader.error_help(at, "a method is empty", "write methods as in `GET|POST`, or `*` for any");
        return false;
    }
    if let Some(wrong) = method.find(|character: char| !is_token(character)) {
        let part = method.get(wrong..).unwrap_or_default();
        let help = if part.starts_with([',', '/', '&', ';']) {
            "join methods with `|`"
        } else {
            "a method has letters, digits and some signs, such as `GET`"
        };
        reader.error_help(text.locate(part), format!("`{method}` is not a method"), help);
        return false;
    }
    let upper = method.to_ascii_uppercase();
    if upper != method {
        let message = format!("`{method}` is not upper-case: methods are compared byte for byte");
        reader.error_help(at, message, format!("did you mean `{upper}`?"));
        return false;
    }
    if !KNOWN.contains(&method) {
        warn_if_similar(reader, text, method);
    }
    true
}

/// Warns of an unusual method that looks like a typing error.
fn warn_if_similar(reader: &mut Reader, text: &Text<'_>, method: &str) {
    let meant = match method {
        "ANY" | "ALL" => Some("*"),
        _ => closest(method, KNOWN.iter().copied())
            .filter(|known| strsim::damerau_levenshtein(known, method) == 1),
    };
    if let Some(meant) = meant {
        let message = format!("`{method}` is not a usual method");
        reader.warning_help(
            text.locate(method),
            Warning::UnusualMethod,
            message,
            format!("did you mean `{meant}`?"),
        );
    }
}

/// A character of a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
