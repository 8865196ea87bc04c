//! Generates policies and requests from a seed, for tests and benchmarks.
//!
//! [`Generator`] makes small random policies from few names, so that rules overlap, features
//! interact and requests match. [`Regular`] makes policies of any size whose decisions follow from
//! a formula. [`to_yaml`] writes a policy in the policy language.

mod conditions;
mod random;
mod regular;
mod yaml;

pub use conditions::{OwnedHeaders, OwnedInputs};
pub use random::{Generator, OwnedCaller, Shape};
pub use regular::Regular;
pub use yaml::to_yaml;

use std::path::Path;

use document::Place;
use policy::AccessRequest;
use policy::pattern::PatternSubject;
use policy::reference::Caller;

/// An owned [`AccessRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedAccessRequest {
    /// The HTTP method.
    pub action: String,
    /// The HTTP host in canonical form.
    pub scope: String,
    /// The canonical HTTP path.
    pub resource: String,
}

impl OwnedAccessRequest {
    /// Borrows it.
    #[must_use]
    pub fn borrowed(&self) -> AccessRequest<'_> {
        AccessRequest {
            action: self.action.as_bytes(),
            scope: self.scope.as_bytes(),
            resource: self.resource.as_bytes(),
        }
    }
}

impl OwnedCaller {
    /// The caller as the engine sees it.
    #[must_use]
    pub fn pattern_subject(&self) -> Option<PatternSubject<'_>> {
        let user = self.user.as_ref()?.as_bytes();
        Some(PatternSubject { user, prefix_len: self.prefix, source: self.source })
    }

    /// Borrows it.
    #[must_use]
    pub fn borrowed(&self) -> Caller<'_> {
        Caller {
            user: self.user.as_deref(),
            source: self.source,
            groups: self.groups.iter().map(String::as_str).collect(),
            roles: self.roles.iter().map(String::as_str).collect(),
            actor: None,
        }
    }
}

/// A deterministic random number generator (splitmix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % end).unwrap_or(0)
    }

    /// True with a probability of `share` percent.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// A random item; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// The place of everything that is generated: the policy's data model requires a place in a file.
fn nowhere() -> Place {
    Place::start_of(Path::new("generated.yaml"))
}
