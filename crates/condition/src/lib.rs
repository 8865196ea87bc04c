//! Conditions of rules, roles and grants: a typed part of the Common Expression Language (CEL,
//! `cel-spec`), so that a condition means what CEL says it means.
//!
//! Read [`Condition`] first. `token` and `syntax` parse a text, `check` resolves its names and
//! checks its types, `expression` is the result, `evaluate` computes it for the variables of a
//! request, `reduce` simplifies it if only some of them are known. Nothing here depends on how a
//! policy is written or compiled.
//!
//! Bounds: the length and the depth of a text, the number of its comparisons, and the steps of an
//! evaluation ([`MAX_STEPS`]).

mod calls;
mod check;
mod comparison;
mod evaluate;
mod expression;
mod fault;
mod names;
mod pattern;
mod query;
mod reduce;
mod show;
mod steps;
mod syntax;
mod token;
mod truth;
mod value;
mod variables;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use calls::FUNCTIONS;
pub use evaluate::{
    CachedPart, CallerClaims, CallerInputs, Headers, Inputs, Placeholders, Question, RequestInputs,
    evaluate, holds,
};
pub use expression::{
    Attribute, Comparison, Expression, Network, QuestionPart, TextTest, TimePart, Zone,
};
pub use fault::Fault;
pub use jiff::Timestamp;
pub use pattern::Pattern;
pub use reduce::{KnownInputs, Outcomes, Reduced, VariableKind, reduce};
pub use show::WithNames;
pub use steps::MAX_STEPS;
pub use token::is_name;
pub use truth::{and, or};
pub use value::{Constant, Value, claim_size};

/// A point in time since 1970; `None` after the year 9999.
#[must_use]
pub fn time(seconds: i64, nanoseconds: u32) -> Option<Timestamp> {
    Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()
}

/// The names of variables, and the first parts of such names.
pub const VARIABLES: [&str; 13] = [
    "request", "source", "user", "roles", "groups", "issuer", "scheme", "claims", "path", "host",
    "resource", "action", "context",
];

/// The maximum length of a condition in bytes.
pub const MAX_LENGTH: usize = 4096;
/// The maximum depth of its brackets, calls and negations.
pub const MAX_DEPTH: usize = 32;
/// The maximum number of its comparisons and other tests, which `&&`, `||`, `!`, `?:`, `exists` and
/// `all` join.
pub const MAX_COMPARISONS: usize = 64;

/// The most steps for the parts of all conditions that depend on a caller alone. Later parts cannot
/// be computed. A client may present many tokens with long lists, and a policy may have many
/// conditions.
const MAX_CALLER_STEPS: usize = 100 * MAX_STEPS;

/// A condition that a policy states.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The text, as written.
    pub text: Arc<str>,
    /// Its meaning.
    pub expression: Arc<Expression>,
}

/// Conditions are equal if they have the same meaning.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The conditions that have a name.
#[derive(Clone, Debug, Default)]
pub struct NamedConditions(HashMap<Arc<str>, Expression>);

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The offset of the wrong part in the text, in bytes.
    pub offset: usize,
    /// The problem.
    pub message: String,
    /// A remedy.
    pub help: String,
    /// The name of no variable, condition or function, if that is the problem.
    pub unknown: Option<String>,
}

impl ConditionError {
    pub(crate) fn new(offset: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { offset, message: message.into(), help: help.into(), unknown: None }
    }

    /// A part of CEL that conditions do not have.
    pub(crate) fn unsupported(offset: usize, part: &str) -> Self {
        let functions = FUNCTIONS.map(|(name, _)| name).join("`, `");
        let help = format!("conditions have `== != < <= > >= in && || ! ?:`, `{functions}`");
        Self::new(offset, format!("{part} is not supported"), help)
    }

    pub(crate) fn help(self, help: &str) -> Self {
        Self { help: help.to_owned(), ..self }
    }
}

impl Condition {
    /// Parses and checks a text.
    ///
    /// # Errors
    /// The first part of it that is wrong, or that is a part of CEL which conditions do not have.
    pub fn parse(text: &Arc<str>, named: &NamedConditions) -> Result<Self, ConditionError> {
        let expression = check::check(&syntax::parse(text)?, &named.0)?;
        Ok(Self { text: Arc::clone(text), expression: Arc::new(expression) })
    }
}

/// Parses and checks an expression of any type, for tests.
///
/// # Errors
/// As [`Condition::parse`].
pub fn parse_value(text: &str) -> Result<Expression, ConditionError> {
    check::check_value(&syntax::parse(text)?)
}

impl NamedConditions {
    /// Adds a condition, which later conditions may name.
    pub fn add(&mut self, name: Arc<str>, condition: &Condition) {
        self.0.insert(name, (*condition.expression).clone());
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

/// The parts of conditions that depend on the caller alone. Their values are computed once for each
/// caller.
#[derive(Clone, Debug, Default)]
pub struct CallerParts {
    parts: Vec<Expression>,
    /// The indices of the parts by their `Debug` text.
    indices: HashMap<String, usize>,
}

impl CallerParts {
    /// The condition with the parts that depend on the caller alone replaced by
    /// [`Expression::Cached`]. New parts are added.
    pub fn split(&mut self, expression: &Expression) -> Expression {
        let mut residual = expression.clone();
        residual.cache_parts(&mut |part| self.index(part));
        residual
    }

    fn index(&mut self, part: &Expression) -> usize {
        *self.indices.entry(format!("{part:?}")).or_insert_with(|| {
            self.parts.push(part.clone());
            self.parts.len() - 1
        })
    }

    /// The values of the parts for a caller, for [`Inputs::cached`].
    #[must_use]
    pub fn values(&self, caller: &CallerInputs<'_>) -> Box<[CachedPart]> {
        let steps_left = Cell::new(MAX_CALLER_STEPS);
        let inputs =
            Inputs { caller: Some(caller), steps_left: Some(&steps_left), ..Inputs::default() };
        self.parts.iter().map(|part| CachedPart::new(part, &inputs)).collect()
    }
}
