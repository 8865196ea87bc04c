//! The `grpc` of a rule: `shop.Orders/Cancel`, or `shop.Orders/*` for each method of a service.
//!
//! A call is a `POST` to the path `/shop.Orders/Cancel` ("gRPC over HTTP2", section Requests).

use crate::parse::path;
use crate::pattern::{Actions, Pattern};
use document::{Reader, Text};

const SUCH_AS: &str = "write the service with its package, `/` and the method, such as \
                       `shop.Orders/Cancel`, or `shop.Orders/*` for each of its methods";

/// The methods, in HTTP, of a call.
pub(crate) fn actions() -> Actions {
    Actions::These(vec!["POST".into()])
}

/// Reads a method, or all methods, of a service.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>) -> Option<Vec<Pattern>> {
    if let Some((part, message)) = fault(text.text) {
        // People write the path of the call, or a rule in the short form.
        let last = text.text.rsplit(' ').next().unwrap_or_default();
        let meant = last.strip_prefix('/').unwrap_or(last);
        let is_meant = meant != text.text && fault(meant).is_none();
        let help = if is_meant { format!("did you mean `{meant}`?") } else { SUCH_AS.to_owned() };
        return reader.reject(text.locate(part), message, help);
    }
    let path = match text.text.strip_suffix("/*") {
        // Not `*`: that would draw the warning that in a path, `*` matches a single segment.
        Some(service) => format!("/{service}/{{method}}"),
        None => format!("/{}", text.text),
    };
    path::read(reader, text, &path)
}

/// The part that is wrong, and the message.
fn fault(text: &str) -> Option<(&str, String)> {
    let Some((service, method)) = text.split_once('/') else {
        return Some((text, format!("`{text}` has no `/` between service and method")));
    };
    if service.is_empty() {
        return Some((text, format!("`{text}` begins with a `/`")));
    }
    if method.is_empty() {
        return Some((text, format!("`{text}` has no method after the service")));
    }
    if !service.split('.').all(is_identifier) {
        return Some((text, format!("`{service}` is not the name of a gRPC service")));
    }
    if method != "*" && !is_identifier(method) {
        return Some((method, format!("`{method}` is not the name of a gRPC method")));
    }
    None
}

/// Whether this is an identifier of protobuf ("Protocol Buffers Language Specification").
fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
