//! What a change of a policy means: who may do what after it and could not before, and vice versa.
//!
//! [`diff()`] compares what two policies allow, not their texts. Requests and callers are
//! infinitely many, but a policy distinguishes only finitely many kinds of them. So it compares one
//! representative of each kind:
//!
//! * `callers`: the kinds of callers: each source of credentials, the users that a policy names,
//!   those that it does not;
//! * `held`: the rules that a caller can have under each policy, and what a token must have for
//!   that;
//! * `cells`: the kinds of paths, by the patterns that match; `segments` finds the representatives
//!   of one segment;
//! * `hosts`: the kinds of hosts;
//! * `conditions`: with which roles and groups of a token the answer differs;
//! * `regions`: describes for people, with the patterns of the policies, which requests get another
//!   answer;
//! * `settings`: the differences besides roles and grants; `text` and `markdown` print all of it.
//!
//! [`Usage`] goes the other way: from requests that were allowed to a policy for them.
//!
//! The crate does no I/O.

mod callers;
mod cells;
mod conditions;
mod diff;
mod held;
mod hosts;
mod markdown;
mod regions;
mod segments;
mod settings;
mod suggest;
mod text;

pub use callers::{CallerSource, NameLike};
pub use conditions::{Attribute, Condition, Direction};
pub use diff::{Cause, Change, Diff, Who, diff};
pub use hosts::HostRegion;
pub use regions::{Methods, Region};
pub use settings::SettingChange;
pub use suggest::{Usage, UserId};

/// Why two policies were not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the policies are too complex to compare: too many kinds of paths, of callers or of names match different rules, or a \
     pattern has a segment of more than 127 characters; compare a smaller change at a time, or evaluate the decision log of \
     the old policy under the new one with `rolegate replay`"
)]
pub struct TooComplex;
