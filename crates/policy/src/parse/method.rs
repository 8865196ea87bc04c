//! The methods of a rule: `GET`, `GET|POST`, `*`.

use crate::pattern::Actions;
use document::{Reader, Text, Warning, closest};

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
pub(crate) const MAX_METHODS: usize = 100;

/// What people write before a method that they do not mean. A request may have such a method; a rule cannot name it.
const NEGATIONS: [char; 4] = ['!', '~', '^', '-'];

/// Whether requests often have this method.
pub(crate) fn is_known(method: &str) -> bool {
    KNOWN.contains(&method)
}

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
        } else if !read_method(reader, &text, method) {
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

/// Whether this can be the method of a request (a token: RFC 9110, 9.1), is not a typing error and does not stand for others, as
/// `*` does.
pub(crate) fn is_method(method: &str) -> bool {
    let is_of_method = |character| is_token(character) && character != '|' && !character.is_ascii_lowercase();
    !method.is_empty()
        && method.chars().all(is_of_method)
        && !method.starts_with(NEGATIONS)
        && !matches!(method, "*" | "ANY" | "ALL")
}

/// Whether this [is a method](is_method); reports what is wrong with another text, and a method that is unusual.
fn read_method(reader: &mut Reader, text: &Text<'_>, method: &str) -> bool {
    if !is_method(method) {
        report_wrong(reader, text, method);
        return false;
    }
    if !is_known(method) {
        warn_of_unusual(reader, text, method);
    }
    true
}

fn report_wrong(reader: &mut Reader, text: &Text<'_>, method: &str) {
    let at = text.locate(method);
    let upper = method.to_ascii_uppercase();
    let is_not = format!("`{method}` is not a method");
    if method.is_empty() {
        reader.error_help(at, "a method is empty", "write methods as in `GET|POST`, or `*` for any");
    } else if let Some(wrong) = method.find(|character: char| !is_token(character)) {
        let part = method.get(wrong..).unwrap_or_default();
        let help = if method.starts_with('/') {
            "write the methods first, then a space and the path"
        } else if part.starts_with([',', '/', '&', ';']) {
            "join methods with `|`"
        } else {
            "a method has letters, digits and some signs, such as `GET`"
        };
        reader.error_help(text.locate(part), is_not, help);
    } else if method.contains('|') {
        reader.error_help(at, is_not, "write each method on its own, as in `[GET, POST]`");
    } else if method.starts_with(NEGATIONS) {
        let help = "list the methods that are meant, as in `POST|PUT|PATCH|DELETE`";
        reader.error_help(at, format!("{is_not}: methods cannot be negated"), help);
    } else if matches!(&*upper, "ANY" | "ALL") {
        reader.error_help(at, is_not, "write `*` for any method");
    } else {
        let message = format!("`{method}` is not upper-case: methods are compared byte for byte");
        reader.error_help(at, message, format!("did you mean `{upper}`?"));
    }
}

/// Warns of an unusual method: it may be a typing error, or a verb of another system.
fn warn_of_unusual(reader: &mut Reader, text: &Text<'_>, method: &str) {
    let help = match method {
        "READ" | "LIST" | "VIEW" | "SELECT" => "did you mean `GET|HEAD`?".to_owned(),
        "WRITE" | "CREATE" | "EDIT" | "INSERT" => "did you mean `POST|PUT|PATCH`?".to_owned(),
        _ => match closest(method, KNOWN.iter().copied()) {
            Some(known) if strsim::damerau_levenshtein(known, method) == 1 => {
                format!("did you mean `{known}`?")
            }
            Some(_) | None => "it matches requests with exactly this method".to_owned(),
        },
    };
    let message = format!("`{method}` is not a usual method");
    reader.warning_help(text.locate(method), Warning::UnusualMethod, message, help);
}

/// A character of a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
