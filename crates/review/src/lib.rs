//! The meaning of a change of a policy: who may do more after it, and who may do less.
//!
//! [`diff()`] compares what two policies allow, not their texts. Requests and callers are
//! infinitely many, but a policy distinguishes only finitely many kinds of them. So it compares a
//! representative of each kind:
//!
//! * `callers`: the kinds of callers: for each source of credentials, the users in the policies,
//!   and all other users; `grants` has their grants and describes them;
//! * `rules`: the rules that a caller can have under each policy, and which tokens have them;
//! * `cells`: the kinds of paths, by the patterns that match; `segments` finds representatives of
//!   segments;
//! * `hosts`: the kinds of hosts;
//! * `conditions`: the roles and groups of a token with which the answer differs;
//! * `interned`: the conditions (`when`) of both policies; `worlds` finds which of them can be true
//!   at the same time, with `representatives` of what they read; `evaluator` compares the answers
//!   in each of these worlds, and `cases` describes the worlds with a difference;
//! * `regions`: describes the requests whose answer differs, with the patterns of the policies;
//! * `settings`: the differences besides roles and grants; `text` and `markdown` print everything.
//!
//! [`Usage`] goes the other way: it suggests a policy for requests that were allowed.
//!
//! The crate does no I/O.

mod callers;
mod cases;
mod cells;
mod conditions;
mod diff;
mod evaluator;
mod grants;
mod hosts;
mod interned;
mod markdown;
mod regions;
mod representatives;
mod rules;
mod segments;
mod settings;
mod suggest;
mod text;
mod worlds;

pub use callers::NameGlob;
pub use cases::{Cases, Literal, Truth};
pub use conditions::{Attribute, Condition, Direction};
pub use diff::{Cause, Change, ConditionChange, Diff, Who, diff};
pub use grants::{CallerSource, GrantedRole, Grants, Source, join, quote_names};
pub use hosts::HostRegion;
pub use markdown::cell as markdown_cell;
pub use regions::{Methods, Region};
pub use settings::SettingChange;
pub use suggest::{Usage, UserId};

/// Why two policies were not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the policies are too complex to compare: too many kinds of paths, of hosts, of callers or of \
     names match different rules, or a pattern has a segment of more than 127 characters; compare a \
     smaller change at a time, or evaluate the decision log of the old policy under the new one \
     with `rolegate replay`"
)]
pub struct TooComplex;
