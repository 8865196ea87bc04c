//! Findings about the configuration of a proxy. Each crate that checks such a configuration has its
//! own kinds: [`finding_kinds`](crate::finding_kinds) defines them.

use std::fmt;
use std::path::Path;

use crate::accept::FindingKinds;
use crate::problem::Place;

/// The meaning of a finding for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// Requests that rolegate would deny can pass, or rolegate and the application get different
    /// requests, or a second line of defence is missing.
    Unsafe,
    /// Requests that rolegate would allow fail.
    Broken,
    /// Requests that rolegate would allow are delayed, or some fail.
    Slow,
    /// Worth knowing.
    Note,
}

/// A kind of findings. Its name is stable: configurations accept findings by name.
pub trait FindingKind: Copy + Ord + 'static {
    /// All kinds.
    const ALL: &'static [Self];
    /// The kind of a finding about a comment that accepts no finding, or gives no reason.
    const ACCEPTANCE: Self;

    /// The name, such as `fails-open`.
    fn name(self) -> &'static str;

    /// The meaning of findings of this kind for requests.
    fn severity(self) -> FindingSeverity;

    /// The effect, in a sentence of Markdown, for the reference.
    fn effect(self) -> &'static str;

    /// The remedy, in Markdown, for the reference.
    fn remedy(self) -> &'static str;

    /// The message and the fix, if each finding of this kind has the same; otherwise empty.
    fn text(self) -> (&'static str, &'static str);
}

/// A setting that is unsafe or broken, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<K> {
    /// Its kind.
    pub kind: K,
    /// Its place.
    pub at: Place,
    /// The effect: lower case, no full stop.
    pub message: String,
    /// What to write instead: a setting, or a sentence.
    pub fix: String,
}

/// Defines `Kind`, an enum of the kinds of findings. Each kind has an effect, a severity, a name
/// and a remedy. If all findings of a kind have the same message and fix, it has these, too. One of
/// the kinds must be `Acceptance`.
#[macro_export]
macro_rules! finding_kinds {
    ($(
        $(#[doc = $effect:literal])+
        $kind:ident = $severity:ident $name:literal, $remedy:literal
            $(: $message:literal => $fix:literal)?;
    )+) => {
        /// A kind of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $effect])+ $kind,)+
        }

        impl $crate::FindingKind for Kind {
            const ALL: &'static [Self] = &[$(Self::$kind,)+];
            const ACCEPTANCE: Self = Self::Acceptance;

            fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            fn severity(self) -> $crate::FindingSeverity {
                match self {
                    $(Self::$kind => $crate::FindingSeverity::$severity,)+
                }
            }

            fn effect(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($effect,)+),)+
                }
            }

            fn remedy(self) -> &'static str {
                match self {
                    $(Self::$kind => $remedy,)+
                }
            }

            fn text(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$kind => (concat!("" $(, $message)?), concat!("" $(, $fix)?)),)+
                }
            }
        }
    };
}

impl FindingSeverity {
    /// All severities, the worst first.
    pub const ALL: [Self; 4] = [Self::Unsafe, Self::Broken, Self::Slow, Self::Note];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Broken => "broken",
            Self::Slow => "slow",
            Self::Note => "note",
        }
    }
}

impl<K: FindingKind> fmt::Display for Finding<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, name) = (self.kind.severity().name(), self.kind.name());
        write!(f, "{}: {severity}[{name}]: {}\n    fix: {}", self.at, self.message, self.fix)
    }
}

/// The findings that neither a comment in these files nor `accepted` accepts, and findings about
/// such comments, by place. `command` reports the findings.
#[must_use]
pub fn unaccepted_findings<'t, K: FindingKind>(
    mut findings: Vec<Finding<K>>,
    command: &str,
    files: impl Iterator<Item = (&'t Path, &'t str)>,
    accepted: &[K],
) -> Vec<Finding<K>> {
    let names: Vec<&'static str> = K::ALL.iter().map(|kind| kind.name()).collect();
    let kinds = FindingKinds { noun: "finding", command, names: &names };
    let places: Vec<(&Place, &'static str, &str)> = findings
        .iter()
        .map(|finding| (&finding.at, finding.kind.name(), &*finding.message))
        .collect();
    let by_comment = kinds.accepted(files, &places);
    let mut accepted_by_comment = by_comment.is_accepted.into_iter();
    findings.retain(|finding| {
        !accepted_by_comment.next().unwrap_or_default() && !accepted.contains(&finding.kind)
    });
    let about_comments = by_comment.wrong_comments.into_iter();
    findings.extend(about_comments.map(|(at, message, fix)| Finding {
        kind: K::ACCEPTANCE,
        at,
        message,
        fix,
    }));
    findings.sort_by(|a, b| (&a.at, a.kind).cmp(&(&b.at, b.kind)));
    findings
}
