//! The methods of a rule: `GET`, `GET|POST`, `*`.

use crate::pattern::Actions;
use document::{Reader, Text, Warning, closest};

/// The methods of IANA's registry that are in use, and two methods of caches (`BAN` and `PURGE`).
const USUAL: &str = "ACL BAN BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD \
                     LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE \
                     MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND \
                     REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF \
                     VERSION-CONTROL";

/// The maximum number of methods of a rule.
pub const MAX_METHODS: usize = 100;

/// The signs with which people negate a method, as in `!GET`. The method of a request may begin
/// with such a sign, but a rule cannot name it.
const NEGATIONS: [char; 4] = ['!', '~', '^', '-'];

/// Reads the methods of a rule, each with the text that contains it.
pub(crate) fn read<'n>(
    reader: &mut Reader,
    methods: impl Iterator<Item = (Text<'n>, &'n str)>,
) -> Option<Actions> {
    let mut any = None;
    let mut names: Vec<Box<str>> = Vec::new();
    let mut failed = false;
    let mut number = 0_usize;
    for (text, method) in methods {
        number += 1;
        let at = text.locate(method);
        if number > MAX_METHODS {
            return reader.reject(
                at,
                format!("more than {MAX_METHODS} methods"),
                "write `*` for any",
            );
        }
        if method == "*" {
            any = Some(at);
        } else if !read_method(reader, &text, method) {
            failed = true;
        } else if names.iter().any(|name| **name == *method) {
            let message = format!("`{method}` is listed twice");
            reader.warning_help(at, Warning::Duplicate, message, "leave one out");
        } else {
            names.push(method.into());
        }
    }
    match any {
        _ if failed => None,
        Some(at) if number > 1 => {
            reader.reject(at, "`*` is every method already", "leave the other methods out")
        }
        Some(_) => Some(Actions::Any),
        None => Some(Actions::These(names)),
    }
}

/// Whether a rule can name this method. A client may send any token (RFC 9110, 9.1), and a rule
/// cannot name all of them: in a rule, `*` means every method, and `ANY` is an error.
#[must_use]
pub fn is_method(method: &str) -> bool {
    !method.is_empty()
        && method.chars().all(|c| is_token(c) && c != '|' && !c.is_ascii_lowercase())
        && !method.starts_with(NEGATIONS)
        && !matches!(method, "*" | "ANY" | "ALL")
}

/// Whether this [is a method](is_method), with a report if it is not. Warns of an unusual method,
/// which may be a typing error.
fn read_method(reader: &mut Reader, text: &Text<'_>, method: &str) -> bool {
    let at = text.locate(method);
    let upper = method.to_ascii_uppercase();
    if !is_method(method) && is_method(&upper) {
        let message = format!("`{method}` is not upper-case: methods are compared byte for byte");
        reader.error_help(at, message, format!("did you mean `{upper}`?"));
        return false;
    }
    if !is_method(method) {
        let message = format!("`{method}` is not a method");
        let help =
            "write each method that is meant, as in `GET|POST` or `[GET, POST]`, or `*` for any";
        reader.error_help(at, if method.is_empty() { "a method is empty" } else { &message }, help);
        return false;
    }
    if !USUAL.split(' ').any(|usual| usual == method) {
        let help = match closest(method, USUAL.split(' ')) {
            _ if method == "READ" => "did you mean `GET|HEAD`?".to_owned(),
            Some(usual) => format!("did you mean `{usual}`?"),
            None => "it matches requests with exactly this method".to_owned(),
        };
        let message = format!("`{method}` is not a usual method");
        reader.warning_help(at, Warning::UnusualMethod, message, help);
    }
    true
}

/// Whether a token may contain this character (RFC 9110, 5.6.2).
pub(crate) fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
