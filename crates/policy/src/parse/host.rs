//! The host of a rule: `api.example.com`, `*.example.com`.

use crate::canonical;
use crate::parse::values::claim_path;
use crate::pattern::{HostLabel, Scope};
use document::{Reader, Text};

/// Reads a host. It is compared in lower case, without port and trailing dot.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>, host: &str) -> Option<Scope> {
    if host.contains(['{', '}']) {
        return read_labels(reader, text, host);
    }
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    if let Some((part, message, help)) = fault(host, name) {
        return reader.reject(text.locate(part), message, help);
    }
    let mut lowered = Vec::new();
    let canonical = canonical::host(name.as_bytes(), &mut lowered);
    let Some(canonical) = canonical.ok().and_then(|host| std::str::from_utf8(host).ok()) else {
        let part = name
            .find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter))
            .and_then(|at| name.get(at..))
            .unwrap_or(host);
        let help = "a host has ASCII letters, digits, `-` and dots, others in Punycode (`xn--`), \
                    at most 63 characters between dots and 253 together; write `*.example.com` \
                    for all hosts below `example.com`, and `{tenant}.example.com` for one label";
        return reader.reject(text.locate(part), format!("the host `{host}` never matches"), help);
    };
    Some(if below { Scope::Below(canonical.into()) } else { Scope::Exact(canonical.into()) })
}

/// Reads a host with placeholders: `{tenant}.example.com`. Each placeholder is one label.
fn read_labels(reader: &mut Reader, text: &Text<'_>, host: &str) -> Option<Scope> {
    let mut labels = Vec::new();
    let mut sample = Vec::new();
    for part in split_labels(host) {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        let Some(name) = name else {
            if part.contains(['{', '}', '*', ':', '[']) {
                let help = "a placeholder is a whole label, such as `{tenant}.example.com`";
                let message = format!("`{part}` is not a label");
                return reader.reject(text.locate(part), message, help);
            }
            labels.push(HostLabel::Literal(part.to_ascii_lowercase().into()));
            sample.push(part);
            continue;
        };
        if let Some(path) = name.strip_prefix("claims.") {
            claim_path(reader, text, path)?;
        } else if name.is_empty()
            || matches!(name, "user" | "user.id")
            || name.contains(|letter: char| !letter.is_alphanumeric() && !"_-".contains(letter))
        {
            let help = "write a name such as `{tenant}`, or `{claims.tenant}` for a claim of the \
                        caller's token";
            let message = format!("`{part}` is not a placeholder of a host");
            return reader.reject(text.locate(part), message, help);
        }
        labels.push(HostLabel::Any(name.into()));
        sample.push("x");
    }
    // The literal labels are checked together, in a host that has `x` for each placeholder.
    let sample = sample.join(".");
    if canonical::host(sample.as_bytes(), &mut Vec::new()).is_err() || sample.ends_with('.') {
        let help = "a host has ASCII letters, digits, `-` and dots, and no port";
        let message = format!("the host `{host}` never matches");
        return reader.reject(text.locate(host), message, help);
    }
    Some(Scope::Labels(labels))
}

/// Splits a host at each dot that is not in a placeholder.
fn split_labels(host: &str) -> Vec<&str> {
    let (mut labels, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in host.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => {
                labels.push(host.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    labels.push(host.get(start..).unwrap_or_default());
    labels
}

/// A common mistake in a host: the part of the host, the message and the help.
fn fault<'h>(host: &'h str, name: &'h str) -> Option<(&'h str, String, &'static str)> {
    if host == "*" {
        let help = "leave the host out: the rule then applies to any host";
        return Some((host, "`*` is not a host".to_owned(), help));
    }
    if name.starts_with('[') && host != name {
        let message = format!("`{host}` never matches: there are no names below an address");
        return Some((host, message, "write the address without `*.`"));
    }
    let is_in_brackets = name.starts_with('[') && name.ends_with(']');
    if name.starts_with('[') || name.matches(':').count() > 1 {
        let is_address =
            is_in_brackets && canonical::host(name.as_bytes(), &mut Vec::new()).is_ok();
        let help = "write an IPv6 address in brackets, without a port";
        return (!is_address).then(|| (host, format!("`{host}` is not a host"), help));
    }
    if let Some(at) = name.find('*') {
        let message = format!(
            "`*` is allowed only at the front of a host, as in `*.example.com`, not in `{host}`"
        );
        return Some((name.get(at..).unwrap_or_default(), message, "write a rule for each host"));
    }
    let port = name.find(':').and_then(|at| name.get(at..));
    if let Some(part) = port.filter(|port| !port.contains(|c: char| c.is_ascii_alphabetic())) {
        let message = format!("the host `{host}` has a port");
        return Some((part, message, "leave it out: ports are not compared"));
    }
    let labels = name.strip_suffix('.').unwrap_or(name);
    let empty = labels.split('.').find(|label| label.is_empty());
    empty.map(|label| {
        (label, format!("the host `{host}` has an empty label"), "write labels between dots")
    })
}
