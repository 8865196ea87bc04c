//! `identity.token_from`: where a token may be in a request.

use crate::model::{ApiKeys, TokenField, TokenPlace};
use crate::parse::response::{cookie_name, header_name};
use document::{Node, Problem, Reader, Text, Value};

/// The maximum number of places: each is compared with each header line of a request.
const MAX_PLACES: usize = 8;

/// Headers that have another meaning, or that logs show.
const NO_HEADERS_OF_TOKENS: &[&str] = &[
    "content-encoding",
    "content-type",
    "cookie",
    "opendistro_security_impersonate_as",
    "origin",
    "security_tenant",
    "securitytenant",
    "traceparent",
    "tracestate",
    "x-request-id",
];

pub(crate) fn read(
    reader: &mut Reader,
    node: &Node,
    api_keys: Option<&ApiKeys>,
) -> Vec<TokenPlace> {
    let items = reader.list(node, "`token_from`").unwrap_or_default();
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        let help = "add `{ header: authorization }`, or leave `token_from` out";
        reader.error_help(node.at, "`token_from` is empty", help);
    }
    if let Some(item) = items.get(MAX_PLACES) {
        reader.error(item.at, format!("more than {MAX_PLACES} places of tokens"));
        return Vec::new();
    }
    let mut places: Vec<TokenPlace> = Vec::new();
    for item in items {
        let Some(field) = read_field(reader, item, api_keys) else { continue };
        let at = reader.place(item.at);
        if let Some(first) = places.iter().find(|place| place.field == field) {
            let help = "leave one of them out";
            reader.push(Problem::defined_twice(at, "this place", help, first.at.clone()));
            continue;
        }
        places.push(TokenPlace { field, at });
    }
    places
}

fn read_field(reader: &mut Reader, node: &Node, api_keys: Option<&ApiKeys>) -> Option<TokenField> {
    let errors = reader.errors();
    let fields = reader.filled_fields(node, "an entry of `token_from`", &["header", "cookie"])?;
    match (fields.value("header"), fields.value("cookie")) {
        (Some(header), None) => {
            let text = reader.text(header, "`header`")?;
            read_header(reader, &text, api_keys).map(|name| TokenField::Header(name.into()))
        }
        (None, Some(cookie)) => {
            let text = reader.text(cookie, "`cookie`")?;
            cookie_name(reader, &text).map(|name| TokenField::Cookie(name.into()))
        }
        (Some(_), Some(_)) => {
            reader.reject(node.at, "a place is a header or a cookie", "write two entries")
        }
        // An unknown key was reported already.
        (None, None) if reader.errors() > errors => None,
        (None, None) => {
            let help = "write `{ header: x-access-token }` or `{ cookie: session }`";
            reader.reject(node.at, "a place names a header or a cookie", help)
        }
    }
}

fn read_header(reader: &mut Reader, text: &Text<'_>, api_keys: Option<&ApiKeys>) -> Option<String> {
    let name = header_name(reader, text)?;
    // Proxies such as oauth2-proxy write `x-forwarded-access-token`.
    let is_forwarded = name.starts_with("x-forwarded-") && !name.ends_with("-token");
    if is_forwarded || NO_HEADERS_OF_TOKENS.contains(&&*name) {
        let message = format!("`{name}` has another meaning, and may be logged");
        return reader.reject(text.at, message, "write one such as `x-access-token`");
    }
    if api_keys.is_some_and(|keys| *keys.header == *name) {
        let message = format!("`{name}` is the header of API keys");
        return reader.reject(text.at, message, "name another header for one of them");
    }
    Some(name)
}
