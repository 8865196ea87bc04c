//! The fuzz targets. Each is a function that takes arbitrary bytes and panics if an invariant does
//! not hold.
//!
//! `make fuzz` runs them with libFuzzer; the tests run them on `corpus/` and on mutations of it.
//! [`every_path()`] is not random: it checks all short paths against the [`interpretations()`] that
//! servers could make of them.

mod bundle;
mod credentials;
mod every_path;
mod filter;
mod identity_header;
mod interpreters;
mod memory;
mod search_request;

use policy::canonical::{self, Buffers};

pub use crate::bundle::bundle;
pub use crate::credentials::{basic, jwks, jwt};
pub use crate::every_path::{CHARACTERS, ESCAPES, Tally, every_path};
pub use crate::filter::filter;
pub use crate::identity_header::identity_header;
pub use crate::interpreters::{Interpretation, interpretations};
use crate::memory::Memory;
pub use crate::search_request::search_request;

/// A target: its name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("path", path),
    ("host", host),
    ("basic", basic),
    ("jwt", jwt),
    ("jwks", jwks),
    ("htpasswd", htpasswd),
    ("bundle", bundle),
    ("policy", policy),
    ("cases", cases),
    ("check_request", check_request),
    ("filter", filter),
    ("search_request", search_request),
    ("identity_header", identity_header),
];

/// `SECURITY.md`, S2: the canonical form of a canonical path is the path itself, and it has neither
/// dot segments nor empty segments.
pub fn path(data: &[u8]) {
    let (method, raw): (&[u8], _) = match data.split_first() {
        Some((b'O', rest)) => (b"OPTIONS", rest),
        _ => (b"GET", data),
    };
    let mut buffers = Buffers::default();
    let Ok(interpretations) = canonical::path(method, raw, &mut buffers) else { return };
    let first = interpretations.first();
    assert_eq!(interpretations.all().next(), Some(first), "the canonical path is not the first");
    if first == b"*" {
        assert_eq!(method, b"OPTIONS", "`*` is accepted for another method");
        return;
    }
    assert!(first.starts_with(b"/"), "it is not absolute");
    assert!(first.iter().all(|byte| matches!(byte, 0x21..=0x7E)), "it is not printable");
    assert!(
        !first.iter().any(|byte| matches!(byte, b'?' | b'#' | b'\\')),
        "it has a query, a fragment or a backslash"
    );
    let segments: Vec<&[u8]> = first.split(|byte| *byte == b'/').skip(1).collect();
    assert!(
        !segments.iter().any(|segment| matches!(*segment, b"." | b"..")),
        "it has dot segments"
    );
    assert!(
        segments
            .split_last()
            .is_none_or(|(_, rest)| rest.iter().all(|segment| !segment.is_empty())),
        "it has empty segments"
    );
    let mut again = Buffers::default();
    let again =
        canonical::path(method, first, &mut again).map(|interpretations| interpretations.first());
    assert_eq!(again, Ok(first), "the canonical form changes when it is computed again");
}

/// The canonical form of a canonical host is the host itself, and it has neither a port nor upper
/// case.
pub fn host(data: &[u8]) {
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    let Ok(host) = canonical::host(data, &mut once) else { return };
    assert!(!host.iter().any(u8::is_ascii_uppercase), "it has upper case");
    assert!(host.starts_with(b"[") || !host.contains(&b':'), "it has a port");
    assert_eq!(
        canonical::host(host, &mut twice).ok(),
        Some(host),
        "the canonical form changes when it is computed again"
    );
}

/// If an htpasswd file loads, all its users have valid names and hashes.
pub fn htpasswd(data: &[u8]) {
    let others = [("users", data)];
    let files = Memory::new(memory::HTPASSWD_POLICY, &others);
    let Ok(loaded) = files.load() else { return };
    for user in loaded.policy.identity.basic.iter().flat_map(|basic| &basic.users) {
        assert!(
            !user.name.is_empty() && !user.name.contains(':'),
            "a user name is empty or has a colon"
        );
        assert!(user.password.is_some(), "a user has no hash");
    }
}

/// A policy loads, with the same result each time, or each of its problems has a line, a column and
/// a message.
pub fn policy(data: &[u8]) {
    let others = [("roles/more.yaml", memory::INCLUDED), ("jwks.json", memory::KEYS)];
    let files = Memory::new(data, &others);
    match files.load() {
        Ok(loaded) => {
            let again = files.load().map(|loaded| format!("{:?}", loaded.policy));
            assert_eq!(
                again.ok(),
                Some(format!("{:?}", loaded.policy)),
                "loading again gives another policy"
            );
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "a policy does not load, without a problem");
            for problem in problems {
                assert!(problem.at.line >= 1 && problem.at.column >= 1, "a line or column below 1");
                assert!(
                    !problem.message.is_empty() && !problem.to_string().contains('\0'),
                    "an empty message, or one with NUL"
                );
            }
        }
    }
}

/// The test cases of a policy (`cases.yaml`) parse, or at least one problem is reported.
pub fn cases(data: &[u8]) {
    if let Err(problems) = ::policy::cases::parse(std::path::Path::new("cases.yaml"), data) {
        assert!(!problems.is_empty(), "cases do not parse, without a problem");
    }
}

/// A decoded message borrows from its bytes and has no more header lines than the limit.
pub fn check_request(data: &[u8]) {
    let range = data.as_ptr_range();
    let mut lines = 0;
    let decoded = envoy::CheckRequest::decode(data, |line| {
        lines += 1;
        assert!(line.value.is_empty() || range.contains(&line.value.as_ptr()), "a value is copied");
    });
    assert!(lines <= envoy::request::MAX_HEADERS, "too many lines");
    if let Ok(request) = decoded {
        path(request.path);
        host(request.host);
    }
}
