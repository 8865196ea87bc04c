//! Every path up to a length over a hostile alphabet, against all interpretations of it.
//!
//! The invariant (`crates/README.md`, number 9): a request is allowed only if every plausible
//! interpretation of its path without dot segments is, and no `deny` rule matches one with them. It
//! is checked in two ways. For all policies: each interpretation is among the paths that must be
//! allowed, or, if it has dot segments, among those that no `deny` rule may match. And with the
//! authorizer, for a few policies whose paths consist of symbols of the alphabet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use authorizer::{Authorizer, Request, Scratch, Verdict};
use policy::canonical::{self, Buffers};

use crate::interpreters::interpretations;
use crate::memory::Memory;

/// Characters that servers disagree about, digits for them, and a name.
pub const CHARACTERS: &[&str] =
    &["/", ".", "%", "2", "f", "e", "5", "c", "3", "b", ";", "?", "#", "\\", "a"];

/// The same with whole escapes.
pub const ESCAPES: &[&str] = &[
    "/", ".", ";", "a", "?", "#", "\\", "%2f", "%2e", "%5c", "%3b", "%3f", "%23", "%25", "%252f",
    "%252e", "%255c", "%253b", "%253f", "%2523",
];

/// Maximum number of findings in a result.
const MAX_FINDINGS: usize = 20;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Paths that were checked.
    pub paths: u64,
    /// Those that are not denied as invalid.
    pub valid: u64,
    /// The interpretations of the valid paths.
    pub interpretations: u64,
    /// How often a policy allowed a valid path.
    pub allowed: u64,
    /// Paths for which the invariant does not hold.
    pub wrong: u64,
    /// The first of these paths, with the interpretation that breaks the invariant.
    pub findings: Vec<String>,
}

/// Checks `/` and every path of `/` and up to `max_symbols` symbols (at least two), on several
/// threads. `progress` is called with the number of parts that are done, the number of all parts,
/// and the result so far.
pub fn every_path(
    symbols: &[&str],
    max_symbols: usize,
    threads: usize,
    progress: impl Fn(usize, usize, &Tally) + Sync,
) -> Tally {
    let starts: Vec<String> = symbols
        .iter()
        .flat_map(|one| symbols.iter().map(move |two| format!("/{one}{two}")))
        .collect();
    let (next, done) = (AtomicUsize::new(0), std::sync::Mutex::new((0, Tally::default())));
    let add = |tally: &Tally| {
        let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.0 += 1;
        done.1.add(tally);
        progress(done.0, starts.len() + 1, &done.1);
    };
    let short = std::iter::once("/".to_owned()).chain(symbols.iter().map(|one| format!("/{one}")));
    let mut checker = Checker::new();
    short.for_each(|path| checker.check(path.as_bytes()));
    add(&checker.tally);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut checker = Checker::new();
                    checker.descend(
                        &mut start.clone().into_bytes(),
                        symbols,
                        max_symbols.saturating_sub(2),
                    );
                    add(&checker.tally);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.paths += other.paths;
        self.valid += other.valid;
        self.interpretations += other.interpretations;
        self.allowed += other.allowed;
        self.wrong += other.wrong;
        self.findings.extend_from_slice(&other.findings);
        self.findings.truncate(MAX_FINDINGS);
    }
}

/// A policy, and its patterns for a simple evaluation.
struct TestPolicy {
    allow: &'static [&'static str],
    deny: &'static [&'static str],
    authorizer: Authorizer,
}

/// The `allow` and `deny` patterns of policies that allow most paths and that deny most, with paths
/// of the alphabets.
const POLICIES: [[&[&str]; 2]; 4] = [
    [&["/**"], &["/a/**", "/c", "/e/**", "/b/a/**"]],
    [&["/a", "/a/**"], &[]],
    [&["/", "/c/**", "/e", "/b/**", "/.a"], &["/b/a/**", "/c/e", "/c/a/"]],
    [&["/{x}", "/{x}/a", "/a/{x}/{y}"], &["/a", "/{x}/b", "/a/b/**"]],
];

/// Checks one path after another.
struct Checker {
    policies: Vec<TestPolicy>,
    buffers: Buffers,
    scratch: Scratch,
    tally: Tally,
}

impl Checker {
    fn new() -> Self {
        let policies = POLICIES.iter().map(|[allow, deny]| TestPolicy::new(allow, deny)).collect();
        Self {
            policies,
            buffers: Buffers::default(),
            scratch: Scratch::default(),
            tally: Tally::default(),
        }
    }

    /// Checks this path, and all paths of it and up to `more` further symbols.
    fn descend(&mut self, path: &mut Vec<u8>, symbols: &[&str], more: usize) {
        self.check(path);
        if more > 0 {
            for symbol in symbols {
                let length = path.len();
                path.extend_from_slice(symbol.as_bytes());
                self.descend(path, symbols, more - 1);
                path.truncate(length);
            }
        }
    }

    fn check(&mut self, path: &[u8]) {
        self.tally.paths += 1;
        if let Some(what) = self.finding_of(path) {
            self.tally.wrong += 1;
            if self.tally.findings.len() < MAX_FINDINGS {
                self.tally.findings.push(format!("{}: {what}", path.escape_ascii()));
            }
        }
    }

    /// How this path breaks the invariant, if it does.
    fn finding_of(&mut self, path: &[u8]) -> Option<String> {
        let Ok(canonical) = canonical::path(b"GET", path, &mut self.buffers) else { return None };
        // A path with a query or a fragment must have the interpretations of the path without it,
        // which is also checked.
        if let Some(end) = path.iter().position(|byte| matches!(byte, b'?' | b'#')) {
            let (without, mut buffers) = (path.get(..end).unwrap_or_default(), Buffers::default());
            let same = canonical::path(b"GET", without, &mut buffers).is_ok_and(|without| {
                without.all().eq(canonical.all()) && without.deny_only().eq(canonical.deny_only())
            });
            return (!same).then(|| "not interpreted like the path before its query".to_owned());
        }
        self.tally.valid += 1;
        let (all, deny_only): (Vec<_>, Vec<_>) =
            (canonical.all().collect(), canonical.deny_only().collect());
        let interpreted: Vec<Vec<u8>> =
            interpretations(path).iter().map(|one| one.spelled()).collect();
        self.tally.interpretations += u64::try_from(interpreted.len()).unwrap_or_default();
        for text in &interpreted {
            // Only `**` matches empty segments, so a pattern that matches a path with empty
            // segments also matches it without them.
            let merged = merged(text);
            let resolved = !has_dots(text);
            if !all.contains(&&*merged) && (resolved || !deny_only.contains(&&*merged)) {
                return Some(format!(
                    "its interpretation {} is not evaluated",
                    text.escape_ascii()
                ));
            }
        }
        for policy in &self.policies {
            if policy.allows(path, &mut self.scratch) {
                self.tally.allowed += 1;
                if let Some(text) = interpreted.iter().find(|text| policy.denies(text)) {
                    return Some(format!(
                        "allowed by {:?}, but not {}",
                        policy.allow,
                        text.escape_ascii()
                    ));
                }
            }
        }
        None
    }
}

impl TestPolicy {
    #[expect(clippy::panic, reason = "a checker without a policy tests nothing, so it must fail")]
    fn new(allow: &'static [&'static str], deny: &'static [&'static str]) -> Self {
        let quoted = |paths: &[&str]| {
            paths.iter().map(|path| format!("'GET {path}'")).collect::<Vec<_>>().join(", ")
        };
        let text = format!(
            "{{ version: 1, roles: {{ anyone: {{ allow: [{}], deny: [{}] }} }} }}",
            quoted(allow),
            quoted(deny)
        );
        let files = Memory::new(text.as_bytes(), &[]);
        let loaded = files.load().unwrap_or_else(|problems| panic!("{problems:#?}"));
        let compiled = Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None);
        let (authorizer, _) = compiled.unwrap_or_else(|problems| panic!("{problems:#?}"));
        Self { allow, deny, authorizer }
    }

    fn allows(&self, path: &[u8], scratch: &mut Scratch) -> bool {
        let request =
            Request { method: b"GET", host: b"", path, headers: &[], ..Request::default() };
        matches!(
            self.authorizer.check_as(&request, Ok(None), scratch, std::time::Duration::ZERO),
            Verdict::Allowed(_)
        )
    }

    /// Whether the policy denies this path. A path with dot segments or empty segments is an
    /// intermediate result of a server, so only a `deny` pattern applies to it.
    fn denies(&self, path: &[u8]) -> bool {
        let any = |patterns: &[&str]| patterns.iter().any(|pattern| matches_pattern(pattern, path));
        any(self.deny) || (!has_dots(path) && merged(path) == path && !any(self.allow))
    }
}

/// Whether a pattern of `POLICIES` matches a path.
fn matches_pattern(pattern: &str, path: &[u8]) -> bool {
    let mut segments = path.split(|byte| *byte == b'/');
    for wanted in pattern.split('/') {
        match segments.next() {
            _ if wanted == "**" => return true,
            Some(found) if wanted.starts_with('{') && !matches!(found, b"" | b"." | b"..") => {}
            Some(found) if wanted.as_bytes() == found => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

fn has_dots(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

fn merged(path: &[u8]) -> Vec<u8> {
    let mut merged = path.to_vec();
    merged.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    merged
}
