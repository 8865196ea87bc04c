//! The sections `allow_response` and `deny_response`.

use std::collections::HashMap;

use crate::model::{AllowResponse, COOKIE, ContentType, DenyResponse, SetHeader};
use crate::parse::cached_files::CachedFiles;
use crate::parse::method::is_token;
use crate::parse::{metadata, template};
use document::{Fields, Key, Mark, Node, Problem, Reader, Text, Warning};

/// Headers that determine where a message ends, or that are about a single connection.
const FRAMING: &str = "connection content-length keep-alive te trailer transfer-encoding upgrade";

pub(crate) fn read_allow(
    reader: &mut Reader,
    _: &mut CachedFiles<'_>,
    (_, node): (&Key, &Node),
) -> Option<AllowResponse> {
    let keys = ["set_headers", "remove_headers", "remove_cookies", "metadata"];
    let fields = reader.filled_fields(node, "`allow_response`", &keys)?;
    let mut response = AllowResponse::default();
    let mut places = HashMap::new();
    let headers =
        fields.value("set_headers").and_then(|node| reader.entries(node, "`set_headers`"));
    for (key, node) in headers.iter().flat_map(Fields::iter) {
        let name = changed_header(reader, &Text::from_key(key), &mut places);
        let value = template::read_value(reader, node, "the value of a header");
        if let (Some(name), Some(value)) = (name, value) {
            response.set_headers.push(SetHeader {
                name: name.into(),
                value,
                at: reader.place(key.at),
            });
        }
    }
    if let Some(node) = fields.value("remove_headers") {
        for text in reader.texts(node, "`remove_headers`", "a header name") {
            let name = changed_header(reader, &text, &mut places);
            response.remove_headers.extend(name.map(Into::into));
        }
    }
    if let Some((key, node)) = fields.field("remove_cookies") {
        if places.contains_key(COOKIE) {
            let help = "name single cookies, or the whole header";
            reader.error_help(key.at, "the header `cookie` is set or removed, too", help);
        }
        for text in reader.texts(node, "`remove_cookies`", "the name of a cookie") {
            let name = cookie_name(reader, &text);
            response.remove_cookies.extend(name.map(Into::into));
        }
    }
    response.metadata =
        fields.value("metadata").map(|node| metadata::read(reader, node)).unwrap_or_default();
    Some(response)
}

/// The name of a header in lower case, if the header may be changed and was not named before.
fn changed_header(
    reader: &mut Reader,
    text: &Text<'_>,
    places: &mut HashMap<String, Mark>,
) -> Option<String> {
    let name = header_name(reader, text)?;
    if let Some(first) = places.get(&name) {
        let problem =
            Problem::error(reader.place(text.at), format!("the header `{name}` is named twice"))
                .help("a header is either set or removed, once")
                .related(reader.place(*first), "the first is here");
        reader.push(problem);
        return None;
    }
    places.insert(name.clone(), text.at);
    Some(name)
}

/// The name of a header in lower case, if the header may be changed.
pub(crate) fn header_name(reader: &mut Reader, text: &Text<'_>) -> Option<String> {
    let name = text.text.to_ascii_lowercase();
    if let Some((message, help)) = fault(&name) {
        return reader.reject(text.at, message, help);
    }
    if name.starts_with("x-envoy-") {
        let message = format!("`{name}` is one of Envoy's own headers");
        reader.warning_help(text.at, Warning::EnvoyHeader, message, "take another name");
    }
    Some(name)
}

/// The name of a cookie (RFC 6265, 4.1.1).
pub(crate) fn cookie_name<'n>(reader: &mut Reader, text: &Text<'n>) -> Option<&'n str> {
    if text.text.is_empty() || !text.text.chars().all(is_token) {
        let message = format!("`{}` is not the name of a cookie", text.text);
        return reader.reject(text.at, message, "write one such as `session`, without its value");
    }
    Some(text.text)
}

fn fault(name: &str) -> Option<(String, &'static str)> {
    if name.starts_with(':') || name == "host" {
        let message = format!("`{name}` decides where a request goes and is never changed");
        return Some((message, "leave it out"));
    }
    if name.is_empty() || !name.chars().all(is_token) {
        return Some((format!("`{name}` is not a header name"), "write one such as `x-user`"));
    }
    let is_framing = FRAMING.split(' ').any(|header| header == name);
    is_framing
        .then(|| (format!("`{name}` frames the message and is never changed"), "leave it out"))
}

pub(crate) fn read_deny(
    reader: &mut Reader,
    _: &mut CachedFiles<'_>,
    (_, node): (&Key, &Node),
) -> Option<DenyResponse> {
    let fields =
        reader.filled_fields(node, "`deny_response`", &["body", "content_type", "explain"])?;
    let types =
        [("json", ContentType::Json), ("text", ContentType::Text), ("html", ContentType::Html)];
    Some(DenyResponse {
        body: reader.field_text(&fields, "body").map(|text| text.shared.clone()),
        content_type: reader.field_choice(&fields, "content_type", &types).unwrap_or_default(),
        explain: reader.field_boolean(&fields, "explain").unwrap_or(false),
    })
}
