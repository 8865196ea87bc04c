//! What the fuzzers run: one function a target. Each takes any bytes and panics where something that must hold does not.
//!
//! `make fuzz` runs them under libFuzzer; the tests run them over `corpus/` and over mutations of what lies there.

mod credentials;
mod every_path;
mod interpreters;
mod memory;

use policy::canonical::{self, Buffers};

pub use crate::credentials::{basic, jwks, jwt};
pub use crate::every_path::{CHARACTERS, ESCAPES, Tally, every_path};
pub use crate::interpreters::{Interpretation, interpretations};
use crate::memory::Memory;

/// A target: its name, and what it runs.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("path", path),
    ("host", host),
    ("basic", basic),
    ("jwt", jwt),
    ("jwks", jwks),
    ("htpasswd", htpasswd),
    ("policy", policy),
    ("cases", cases),
    ("check_request", check_request),
];

/// `SECURITY.md`, S2: a canonical path stays the same when read again, and has neither dot segments nor empty ones.
pub fn path(data: &[u8]) {
    let (method, raw): (&[u8], _) = match data.split_first() {
        Some((b'O', rest)) => (b"OPTIONS", rest),
        _ => (b"GET", data),
    };
    let mut buffers = Buffers::default();
    let Ok(readings) = canonical::path(method, raw, &mut buffers) else { return };
    let first = readings.first();
    assert_eq!(readings.all().next(), Some(first), "the canonical path comes first");
    if first == b"*" {
        assert_eq!(method, b"OPTIONS", "only `OPTIONS *` has no path");
        return;
    }
    assert!(first.starts_with(b"/"), "it is absolute");
    assert!(first.iter().all(|byte| matches!(byte, 0x21..=0x7E)), "it is printable");
    assert!(!first.iter().any(|byte| matches!(byte, b'?' | b'#' | b'\\')), "it is a path and nothing else");
    let segments: Vec<&[u8]> = first.split(|byte| *byte == b'/').skip(1).collect();
    assert!(!segments.iter().any(|it| matches!(*it, b"." | b"..")), "it has no dot segments");
    assert!(
        segments.split_last().is_none_or(|(_, rest)| rest.iter().all(|it| !it.is_empty())),
        "nor empty ones"
    );
    let mut again = Buffers::default();
    let again = canonical::path(method, first, &mut again).map(|it| it.first());
    assert_eq!(again, Ok(first), "what is canonical stays as it is");
}

/// What is canonical stays as it is, and has no port and no upper case in it.
pub fn host(data: &[u8]) {
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    let Ok(host) = canonical::host(data, &mut once) else { return };
    assert!(!host.iter().any(u8::is_ascii_uppercase), "it is in lower case");
    assert!(host.starts_with(b"[") || !host.contains(&b':'), "it has no port");
    assert_eq!(canonical::host(host, &mut twice).ok(), Some(host), "what is canonical stays as it is");
}

/// Whatever an htpasswd file contains, names are names.
pub fn htpasswd(data: &[u8]) {
    let others = [("users", data)];
    let files = Memory::new(memory::HTPASSWD_POLICY, &others);
    let Ok(loaded) = files.load() else { return };
    for user in loaded.policy.identity.basic.iter().flat_map(|it| &it.users) {
        assert!(!user.name.is_empty() && !user.name.contains(':'), "a user has a name that can be sent");
        assert!(user.password.is_some(), "and a hash");
    }
}

/// A policy loads, twice to the same, or has a problem at a place that can be shown.
pub fn policy(data: &[u8]) {
    let others = [("roles/more.yaml", memory::INCLUDED), ("jwks.json", memory::KEYS)];
    let files = Memory::new(data, &others);
    match files.load() {
        Ok(loaded) => {
            let again = files.load().map(|it| format!("{:?}", it.policy));
            assert_eq!(again.ok(), Some(format!("{:?}", loaded.policy)), "loading twice gives the same");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "a policy that does not load has a problem");
            for problem in problems {
                assert!(problem.at.line >= 1 && problem.at.column >= 1, "places count from 1");
                assert!(!problem.message.is_empty() && !problem.to_string().contains('\0'), "it can be read");
            }
        }
    }
}

/// Cases parse, or have a problem.
pub fn cases(data: &[u8]) {
    if let Err(problems) = ::policy::cases::parse(std::path::Path::new("cases.yaml"), data) {
        assert!(!problems.is_empty(), "cases that do not parse have a problem");
    }
}

/// A message decodes into pieces of itself, and into no more lines than allowed.
pub fn check_request(data: &[u8]) {
    let inside = data.as_ptr_range();
    let mut lines = 0;
    let decoded = envoy::CheckRequest::decode(data, |line| {
        lines += 1;
        assert!(line.value.is_empty() || inside.contains(&line.value.as_ptr()), "nothing is copied");
    });
    assert!(lines <= envoy::request::MAX_HEADERS, "the number of lines is bounded");
    if let Ok(request) = decoded {
        path(request.path);
        host(request.host);
    }
}
