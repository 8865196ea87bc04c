//! The invariant of paths: a request is allowed only if every plausible interpretation of its path
//! without dot segments is allowed, and no `deny` rule matches one with them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use authorizer::{Authorizer, Request, Scratch, Verdict};

/// Everybody may access `/open` and `/a@b`, except the closed paths below them.
const POLICY: &str = "
version: 1
identity: { basic: { verify: false } }
roles:
  anyone:
    allow: [GET /open, GET /open/**, GET /a@b, 'GET /{id}/shared']
    deny: [GET /open/closed, GET /open/closed/**, GET /closed/**, GET /open/a@b/**]
";

/// The pieces of the generated paths: characters and escapes that servers interpret differently.
const PIECES: [&str; 47] = [
    "/",
    "/",
    "/",
    "/",
    "/open",
    "/open",
    "/open",
    "open",
    "closed",
    "/closed",
    "shared",
    ".",
    "..",
    "/..",
    "/.",
    "//",
    ";",
    ";x",
    "%3b",
    "%3B=1",
    "%2e",
    "%2E%2e",
    "%252e",
    "%25",
    "%2525",
    "%2f",
    "%252f",
    "%5c",
    "\\",
    "%63losed",
    "c%6Cosed",
    "%2563losed",
    "@",
    "%40",
    "%2540",
    "a",
    "b",
    "..;",
    "?",
    "#",
    "%3f",
    "%3Fx",
    "%23",
    "%253F",
    "..%3F",
    "/a;",
    "%2523x",
];

fn authorizer() -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", POLICY);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

/// A small pseudo-random generator (xorshift64*): each run tests the same paths.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }

    fn path(&mut self) -> String {
        let count = 1 + self.below(9);
        let start = if self.below(3) == 0 { "/" } else { "/open/" };
        let pieces: String = (0..count).map(|_| PIECES[self.below(PIECES.len())]).collect();
        format!("{start}{pieces}")
    }
}

#[test]
fn no_plausible_interpretation_of_an_allowed_path_is_denied() {
    let authorizer = authorizer();
    let mut numbers = Numbers(20_261_120);
    let (mut allowed, mut ambiguous) = (0, 0);
    for _ in 0..200_000 {
        let path = numbers.path();
        if !is_allowed(&authorizer, &path) {
            continue;
        }
        allowed += 1;
        let interpretations = interpretations(path.as_bytes());
        ambiguous += usize::from(interpretations.len() > 1);
        for interpretation in interpretations {
            let shown = String::from_utf8_lossy(&interpretation);
            assert!(!is_closed(&interpretation), "{path} may be interpreted as {shown}");
            assert!(
                !is_resolved(&interpretation) || is_open(&interpretation),
                "{path} may be interpreted as {shown}"
            );
        }
    }
    assert!(
        allowed > 5_000 && ambiguous > 2_000,
        "{allowed} allowed, {ambiguous} of them with several interpretations"
    );
}

fn is_allowed(authorizer: &Authorizer, path: &str) -> bool {
    let request = Request {
        method: b"GET",
        host: b"",
        path: path.as_bytes(),
        headers: &[],
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    matches!(
        authorizer.check_as(&request, Ok(None), &mut scratch, std::time::Duration::ZERO),
        Verdict::Allowed(_)
    )
}

/// Whether the policy denies this path, compared as text, as a server compares it.
fn is_closed(path: &[u8]) -> bool {
    [&b"/open/closed"[..], b"/closed", b"/open/a@b/"].iter().any(|closed| {
        path.strip_prefix(*closed)
            .is_some_and(|rest| closed.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/"))
    }) && path != b"/closed"
}

fn is_open(path: &[u8]) -> bool {
    let shared = path.strip_suffix(b"/shared").and_then(|name| name.strip_prefix(b"/"));
    path == b"/open"
        || path.starts_with(b"/open/")
        || path == b"/a@b"
        || shared.is_some_and(|name| !name.is_empty() && !name.contains(&b'/'))
}

/// Whether a path has no dot segments, encoded or not (RFC 3986, 6.2.2.2: they mean the same), and
/// no empty segments.
fn is_resolved(path: &[u8]) -> bool {
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if matches!(&*decode(segment), b"." | b"..")
            || (segment.is_empty() && segments.peek().is_some())
        {
            return false;
        }
    }
    true
}

/// A step that a server may apply to a path or not.
type Step = fn(&[u8]) -> Vec<u8>;

/// All steps but decoding.
const STEPS: [Step; 7] = [
    without_query,
    without_fragment,
    without_authority,
    without_parameters,
    slashed,
    merged,
    resolved,
];

/// All interpretations of a path: the results of any steps in any order, and of decoding at most
/// twice.
fn interpretations(raw: &[u8]) -> BTreeSet<Vec<u8>> {
    let cut = raw.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(raw.len());
    let mut found = BTreeSet::from([(raw[..cut].to_vec(), 0)]);
    let mut to_visit: Vec<(Vec<u8>, u8)> = found.iter().cloned().collect();
    while let Some((path, decoded)) = to_visit.pop() {
        let mut next: Vec<(Vec<u8>, u8)> = STEPS.map(|step| (step(&path), decoded)).into();
        if decoded < 2 {
            next.push((decode(&path), decoded + 1));
        }
        to_visit.extend(next.into_iter().filter(|path| found.insert(path.clone())));
    }
    found.into_iter().map(|(path, _)| path).collect()
}

fn decode(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut at = 0;
    while let Some(byte) = path.get(at) {
        let digits = path.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value =
            digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(value.unwrap_or(*byte));
        at += if value.is_some() { 3 } else { 1 };
    }
    decoded
}

fn without_query(path: &[u8]) -> Vec<u8> {
    path.iter().copied().take_while(|byte| *byte != b'?').collect()
}

fn without_fragment(path: &[u8]) -> Vec<u8> {
    path.iter().copied().take_while(|byte| *byte != b'#').collect()
}

/// RFC 3986, 4.2: `//` begins an authority, which ends before the next `/`, `?` or `#`.
fn without_authority(path: &[u8]) -> Vec<u8> {
    let Some(authority) = path.strip_prefix(b"//") else { return path.to_vec() };
    let end = authority
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(authority.len());
    if authority[end..].starts_with(b"/") { authority[end..].to_vec() } else { b"/".to_vec() }
}

fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut skipping = false;
    let keep = |byte: &&u8| {
        skipping = (skipping || **byte == b';') && **byte != b'/';
        !skipping
    };
    path.iter().filter(keep).copied().collect()
}

fn slashed(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

fn merged(path: &[u8]) -> Vec<u8> {
    let mut path = path.to_vec();
    path.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    path
}

fn resolved(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let all: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    for (at, segment) in all.iter().enumerate() {
        let last = at + 1 == all.len();
        match *segment {
            b"." => {}
            b".." => drop(segments.pop()),
            other => segments.push(other),
        }
        if last && matches!(*segment, b"." | b"..") {
            segments.push(b"");
        }
    }
    [&b"/"[..], &segments.join(&b'/')].concat()
}
