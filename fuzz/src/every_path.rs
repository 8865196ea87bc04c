//! Every path up to a length over a hostile alphabet, against all interpretations of it.
//!
//! What must hold (`crates/README.md`, the invariant of paths): a request is allowed only if every plausible
//! interpretation of its path is. It is checked twice. For every policy that there can be: each interpretation is among
//! the texts that must be allowed, or, as long as it has dot segments in it, among those that no `deny` may match. And
//! through the whole authorizer, for a few policies whose names the alphabet can spell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use authorizer::{Authorizer, Request, Scratch, Verdict};
use policy::canonical::{self, Buffers};

use crate::interpreters::interpretations;
use crate::memory::Memory;

/// Characters that servers disagree about, digits for them, and a name.
pub const CHARACTERS: &[&str] = &["/", ".", "%", "2", "f", "e", "5", "c", "3", "b", ";", "?", "#", "\\", "a"];

/// The same with whole escapes.
pub const ESCAPES: &[&str] = &[
    "/", ".", ";", "a", "?", "#", "\\", "%2f", "%2e", "%5c", "%3b", "%3f", "%23", "%25", "%252f", "%252e",
    "%255c", "%253b", "%253f", "%2523",
];

/// At most so many findings are kept.
const SHOWN: usize = 20;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Paths that were made.
    pub paths: u64,
    /// Those that are not refused as ambiguous.
    pub judged: u64,
    /// The interpretations of these.
    pub interpretations: u64,
    /// How often one of the policies allowed one of these.
    pub allowed: u64,
    /// Paths for which the invariant does not hold.
    pub wrong: u64,
    /// The first of them, with what is wrong.
    pub findings: Vec<String>,
}

/// Checks `/` and every path of it and up to `most` of the symbols (two at least), with so many threads. `progress` is
/// called with the number of parts that are done, of how many, and what came of them so far.
pub fn every_path(
    symbols: &[&str],
    most: usize,
    threads: usize,
    progress: impl Fn(usize, usize, &Tally) + Sync,
) -> Tally {
    let starts: Vec<String> =
        symbols.iter().flat_map(|one| symbols.iter().map(move |two| format!("/{one}{two}"))).collect();
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
                    checker.descend(&mut start.clone().into_bytes(), symbols, most.saturating_sub(2));
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
        self.judged += other.judged;
        self.interpretations += other.interpretations;
        self.allowed += other.allowed;
        self.wrong += other.wrong;
        self.findings.extend_from_slice(&other.findings);
        self.findings.truncate(SHOWN);
    }
}

/// A policy, and its meaning in the most simple terms.
struct TestPolicy {
    allow: &'static [&'static str],
    deny: &'static [&'static str],
    authorizer: Authorizer,
}

/// Places that the alphabets can name: all open but some, and all closed but some.
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
        Self { policies, buffers: Buffers::default(), scratch: Scratch::default(), tally: Tally::default() }
    }

    /// Checks this path, and those of it and up to so many more symbols.
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
        if let Some(what) = self.what_is_wrong_with(path) {
            self.tally.wrong += 1;
            if self.tally.findings.len() < SHOWN {
                self.tally.findings.push(format!("{}: {what}", path.escape_ascii()));
            }
        }
    }

    fn what_is_wrong_with(&mut self, path: &[u8]) -> Option<String> {
        let Ok(judged) = canonical::path(b"GET", path, &mut self.buffers) else { return None };
        // With a query or a fragment it is the path without, which was checked before.
        if let Some(end) = path.iter().position(|byte| matches!(byte, b'?' | b'#')) {
            let (without, mut buffers) = (path.get(..end).unwrap_or_default(), Buffers::default());
            let same = canonical::path(b"GET", without, &mut buffers).is_ok_and(|without| {
                without.all().eq(judged.all()) && without.deny_only().eq(judged.deny_only())
            });
            return (!same).then(|| "not judged like the path before its query".to_owned());
        }
        self.tally.judged += 1;
        let (all, deny_only): (Vec<_>, Vec<_>) = (judged.all().collect(), judged.deny_only().collect());
        let places: Vec<Vec<u8>> = interpretations(path).iter().map(|one| one.spelled()).collect();
        self.tally.interpretations += u64::try_from(places.len()).unwrap_or_default();
        for place in &places {
            // No pattern matches an empty segment, unless in what `**` covers: whatever matches a place with empty
            // segments matches it without them as well.
            let merged = merged(place);
            let resolved = !has_dots(place);
            if !all.contains(&&*merged) && (resolved || !deny_only.contains(&&*merged)) {
                return Some(format!("its interpretation {} is not judged", place.escape_ascii()));
            }
        }
        for policy in &self.policies {
            if policy.allows(path, &mut self.scratch) {
                self.tally.allowed += 1;
                if let Some(place) = places.iter().find(|place| policy.closes(place)) {
                    return Some(format!("{:?} allow it, not {}", policy.allow, place.escape_ascii()));
                }
            }
        }
        None
    }
}

impl TestPolicy {
    #[expect(clippy::panic, reason = "a check that tests nothing must not look as if it did")]
    fn new(allow: &'static [&'static str], deny: &'static [&'static str]) -> Self {
        let quoted =
            |paths: &[&str]| paths.iter().map(|path| format!("'GET {path}'")).collect::<Vec<_>>().join(", ");
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
        let request = Request { method: b"GET", host: b"", path, headers: &[], id: b"" };
        matches!(self.authorizer.check_as(&request, None, scratch), Verdict::Allowed(_))
    }

    /// Whether nobody may go to this place. One with dot segments or empty ones in it is what a server has that has not
    /// finished; only a `deny` says anything about it.
    fn closes(&self, place: &[u8]) -> bool {
        let any = |patterns: &[&str]| patterns.iter().any(|pattern| covers(pattern, place));
        any(self.deny) || (!has_dots(place) && merged(place) == place && !any(self.allow))
    }
}

/// Whether a pattern of `POLICIES` covers a place.
fn covers(pattern: &str, place: &[u8]) -> bool {
    let mut segments = place.split(|byte| *byte == b'/');
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

fn has_dots(place: &[u8]) -> bool {
    place.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

fn merged(place: &[u8]) -> Vec<u8> {
    let mut merged = place.to_vec();
    merged.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    merged
}
