//! What a rule of rolegate can express of a request and its caller.

use policy::pattern::{Pattern, Scope};

/// What a rule of rolegate can express.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Methods(Vec<String>),
    Hosts(Vec<Scope>),
    Paths(Vec<Pattern>),
    Caller(Caller),
}

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    Anyone,
    Authenticated,
    /// A user of an identity source, by its number.
    User(usize, String),
    Group(usize, String),
}

impl Literal {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Methods(all) => all.is_empty(),
            Self::Hosts(all) => all.is_empty(),
            Self::Paths(all) => all.is_empty(),
            Self::Caller(_) => false,
        }
    }
}
