//! The host of a rule: `api.example.com`, `*.example.com`.

use crate::pattern::Scope;
use document::{Reader, Text};

/// Reads a host. It is compared in lower case, without port and trailing dot.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>, host: &str) -> Option<Scope> {
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    if let Some((part, message, help)) = fault(host, name) {
        reader.error_help(text.locate(part), message, help);
        return None;
    }
    let name = canonical(name);
    Some(if below { Scope::Below(name) } else { Scope::Exact(name) })
}

/// An address has many spellings; requests are compared in that of RFC 5952.
fn canonical(name: &str) -> Box<str> {
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match inside.and_then(|inside| inside.parse::<std::net::Ipv6Addr>().ok()) {
        Some(address) => format!("[{address}]").into(),
        None => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into(),
    }
}

/// The part of a host that occurs in no canonical host, the reason, and what to write instead.
fn fault<'h>(host: &'h str, name: &'h str) -> Option<(&'h str, String, &'static str)> {
    if host == "*" {
        return Some((
            host,
            "`*` is not a host".to_owned(),
            "leave the host out: the rule then applies to any",
        ));
    }
    if let Some(inside) = name.strip_prefix('[') {
        if host != name {
            let message = format!("`{host}` never matches: there are no names below an address");
            return Some((host, message, "write the address without `*.`"));
        }
        return address_fault(host, inside);
    }
    if let Some(at) = name.find('*') {
        let part = name.get(at..).unwrap_or_default();
        let message =
            format!("`*` is allowed only at the front of a host, as in `*.example.com`, not in `{host}`");
        return Some((part, message, "write one rule for each host"));
    }
    if name.matches(':').count() > 1 {
        return Some((
            host,
            format!("`{host}` is not a host"),
            "write an IPv6 address in brackets, without a port",
        ));
    }
    if let Some(rest) = host.strip_prefix('.').filter(|rest| !rest.is_empty()) {
        let message = format!("the host `{host}` has an empty label");
        return Some((
            host,
            message,
            if rest.contains('.') {
                "write `*` before the dot: `*.example.com`"
            } else {
                "write labels between dots"
            },
        ));
    }
    let port = name.find(':').and_then(|at| name.get(at..));
    if let Some(part) = port.filter(|port| !port.contains(|c: char| c.is_ascii_alphabetic())) {
        return Some((part, format!("the host `{host}` has a port"), "leave it out: ports are not compared"));
    }
    let labels = name.strip_suffix('.').unwrap_or(name);
    for label in labels.split('.') {
        if label.is_empty() {
            return Some((
                label,
                format!("the host `{host}` has an empty label"),
                "write labels between dots",
            ));
        }
        if let Some(at) = label.find(|character: char| {
            !(character.is_ascii_alphanumeric() || character == '-' || character == '_')
        }) {
            let part = label.get(at..).unwrap_or_default();
            return Some((part, format!("the host `{host}` never matches"), instead_of(part)));
        }
    }
    let long = labels.len() > 253 || labels.split('.').any(|label| label.len() > 63);
    let help = "a label has at most 63 characters and a host 253";
    long.then(|| (host, "a host that is too long never matches".to_owned(), help))
}

/// What to write instead of a label with this part, which begins with a character that no host has.
fn instead_of(part: &str) -> &'static str {
    if part.starts_with("://") {
        "write the host alone, without the scheme"
    } else if part.starts_with(['{', '<', '$', ':']) {
        "a host has no placeholders: write one rule for each host, or `*.example.com` for all of them"
    } else if part.starts_with(['|', ',']) {
        "write one rule for each host"
    } else if part.starts_with(|first: char| first.is_ascii()) {
        "a host has ASCII letters, digits, `-` and dots"
    } else {
        "write letters that are not ASCII in Punycode (`xn--`)"
    }
}

/// The same for an IPv6 address in brackets (RFC 3986, 3.2.2).
fn address_fault<'h>(host: &'h str, inside: &str) -> Option<(&'h str, String, &'static str)> {
    let valid = inside.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let help = "write an IPv6 address in brackets, without a port";
    (!valid).then(|| (host, format!("`{host}` is not a host"), help))
}
