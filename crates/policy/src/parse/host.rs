//! The host of a rule: `api.example.com`, `*.example.com`.

use std::net::Ipv6Addr;

use crate::pattern::Scope;
use document::{Reader, Text};

const ADDRESS: &str = "write an IPv6 address in brackets, without a port";

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
    match address(name) {
        Some(address) => format!("[{address}]").into(),
        None => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into(),
    }
}

/// An IPv6 address in brackets (RFC 3986, 3.2.2).
fn address(name: &str) -> Option<Ipv6Addr> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The part of a host that occurs in no canonical host, the reason, and what to write instead.
fn fault<'h>(host: &'h str, name: &'h str) -> Option<(&'h str, String, &'static str)> {
    if host == "*" {
        let help = "leave the host out: the rule then applies to any";
        return Some((host, "`*` is not a host".to_owned(), help));
    }
    if name.starts_with('[') && host != name {
        let message = format!("`{host}` never matches: there are no names below an address");
        return Some((host, message, "write the address without `*.`"));
    }
    if name.starts_with('[') || name.matches(':').count() > 1 {
        return address(name).is_none().then(|| (host, format!("`{host}` is not a host"), ADDRESS));
    }
    if let Some(at) = name.find('*') {
        let part = name.get(at..).unwrap_or_default();
        let message =
            format!("`*` is allowed only at the front of a host, as in `*.example.com`, not in `{host}`");
        return Some((part, message, "write one rule for each host"));
    }
    let port = name.find(':').and_then(|at| name.get(at..));
    if let Some(part) = port.filter(|port| !port.contains(|c: char| c.is_ascii_alphabetic())) {
        return Some((part, format!("the host `{host}` has a port"), "leave it out: ports are not compared"));
    }
    let labels = name.strip_suffix('.').unwrap_or(name);
    for label in labels.split('.') {
        if label.is_empty() {
            let message = format!("the host `{host}` has an empty label");
            return Some((label, message, "write labels between dots"));
        }
        let is_in_host = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if let Some(at) = label.find(|letter: char| !is_in_host(letter)) {
            let help = "a host has ASCII letters, digits, `-` and dots, others in Punycode (`xn--`), and no \
                        placeholders: write one rule for each, or `*.example.com` for all below one";
            let part = label.get(at..).unwrap_or_default();
            return Some((part, format!("the host `{host}` never matches"), help));
        }
    }
    let long = labels.len() > 253 || labels.split('.').any(|label| label.len() > 63);
    let help = "a label has at most 63 characters and a host 253";
    long.then(|| (host, "a host that is too long never matches".to_owned(), help))
}
