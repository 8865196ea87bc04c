//! Checks the names and types of a parsed condition. `names` checks names and members,
//! `comparison` the operators between two values, `calls` the functions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::evaluate::{Inputs, evaluate};
use crate::expression::{Expression, Network};
use crate::syntax::{Syntax, SyntaxKind};
use crate::value::Constant;
use crate::{ConditionError, MAX_COMPARISONS, MAX_DEPTH};

/// The maximum number of the parts of a condition, with those of the conditions that it names.
const MAX_SIZE: usize = 1_000;

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Number,
    Text,
    Time,
    Duration,
    Ip,
    /// A list of text: `roles`, `groups`, `source.certificate`.
    Names,
    List,
    /// Known only to the evaluation, as CEL's `dyn`: `claims`, a part of it, or an item of a list.
    Dynamic,
    /// `cidr(…)`, which only `containsIP` takes. Its expression is the text, and never evaluated.
    Network(Network),
}

impl Type {
    fn is_list(self) -> bool {
        matches!(self, Self::Names | Self::List)
    }

    pub(crate) fn has_order(self) -> bool {
        !matches!(self, Self::Ip | Self::Names | Self::List | Self::Network(_))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Time => "a time",
            Self::Duration => "a duration",
            Self::Ip => "an address",
            Self::Names | Self::List => "a list",
            Self::Dynamic => "a value of unknown type",
            Self::Network(_) => "a network",
        }
    }
}

/// A checked expression, its type, and its place for errors.
pub(crate) struct Checked {
    pub(crate) expression: Expression,
    pub(crate) kind: Type,
    pub(crate) at: usize,
}

/// Checks a parsed condition. `named` has the conditions that it may name.
pub(crate) fn check(
    syntax: &Syntax,
    named: &HashMap<Arc<str>, Expression>,
) -> Result<Expression, ConditionError> {
    let checked = Checker { named, items: Vec::new() }.check(syntax)?;
    checked.expect(Type::Bool, "a condition")?;
    limit(syntax.at, checked.expression)
}

/// Checks an expression of any type.
pub(crate) fn check_value(syntax: &Syntax) -> Result<Expression, ConditionError> {
    let named = HashMap::new();
    let checked = Checker { named: &named, items: Vec::new() }.check(syntax)?;
    limit(syntax.at, checked.expression)
}

fn limit(at: usize, expression: Expression) -> Result<Expression, ConditionError> {
    let comparisons = expression.comparisons();
    if comparisons > MAX_COMPARISONS {
        let message =
            format!("a condition has {comparisons} comparisons, more than {MAX_COMPARISONS}");
        let help = "compare with a list: `x in ['a', 'b']`";
        return Err(ConditionError::new(at, message, help));
    }
    // Here all parts count: if each condition named the previous condition twice, each would be
    // twice as large as the previous condition.
    if depth(&expression) > 4 * MAX_DEPTH || expression.size() > MAX_SIZE {
        let message = "a condition is too large";
        return Err(ConditionError::new(at, message, "use fewer named conditions in it"));
    }
    Ok(expression)
}

/// The number of levels of an expression. The recursion is bounded: a text has a maximum length,
/// and the conditions that it names have passed [`limit`].
fn depth(expression: &Expression) -> usize {
    1 + expression.parts().into_iter().map(depth).max().unwrap_or(0)
}

pub(crate) struct Checker<'n> {
    pub(crate) named: &'n HashMap<Arc<str>, Expression>,
    /// The names of the items of each `exists` and `all` around this part, with their types. The
    /// innermost is the last.
    pub(crate) items: Vec<(String, Type)>,
}

impl Checked {
    /// Whether it may have this type. A value of unknown type may, and all lists are alike.
    pub(crate) fn is(&self, wanted: Type) -> bool {
        self.kind == wanted || self.kind == Type::Dynamic || self.kind.is_list() && wanted.is_list()
    }

    pub(crate) fn expect(&self, wanted: Type, subject: &str) -> Result<(), ConditionError> {
        if self.is(wanted) {
            return Ok(());
        }
        let message = format!("{subject} must be {}, not {}", wanted.name(), self.kind.name());
        Err(ConditionError::new(self.at, message, help_for(wanted)))
    }

    /// Fails for a network.
    pub(crate) fn expect_value(&self) -> Result<(), ConditionError> {
        if !matches!(self.kind, Type::Network(_)) {
            return Ok(());
        }
        let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)`";
        Err(ConditionError::new(self.at, "only `containsIP` takes a network", help))
    }

    pub(crate) fn boxed(self) -> Box<Expression> {
        Box::new(self.expression)
    }

    pub(crate) fn constant(&self) -> Option<&Constant> {
        match &self.expression {
            Expression::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    pub(crate) fn constant_text(&self) -> Option<&str> {
        match self.constant() {
            Some(Constant::Text(text)) if self.kind == Type::Text => Some(text),
            _ => None,
        }
    }
}

fn help_for(wanted: Type) -> &'static str {
    match wanted {
        Type::Bool => "compare it, such as `user == 'alice'`",
        Type::Number => "write a number without quotes",
        Type::Text => "write text in quotes",
        Type::Time => "write a time as `timestamp('2026-01-31T00:00:00Z')`",
        Type::Duration => "write a duration as `duration('1h30m')`",
        Type::Ip => "write an address as `ip('192.0.2.7')`",
        Type::Names | Type::List => "write a list as `['a', 'b']`",
        Type::Dynamic => "take a part of `claims`, such as `claims.name`",
        Type::Network(_) => "write a network as `cidr('10.0.0.0/8')`",
    }
}

impl Checker<'_> {
    pub(crate) fn check(&mut self, syntax: &Syntax) -> Result<Checked, ConditionError> {
        let at = syntax.at;
        let (expression, kind) = match &syntax.kind {
            SyntaxKind::Constant(constant) => {
                (Expression::Constant(constant.clone()), type_of(constant))
            }
            SyntaxKind::List(items) => return self.check_list(at, items),
            SyntaxKind::Name(name) => self.check_name(at, name)?,
            SyntaxKind::Select(value, name) => return self.check_member(at, value, name),
            SyntaxKind::Index(value, index) => return self.check_index(at, value, index),
            SyntaxKind::Call(target, name, arguments) => {
                return self.check_call(at, target.as_deref(), name, arguments);
            }
            SyntaxKind::Not(operand) => {
                let operand = self.check(operand)?;
                operand.expect(Type::Bool, "the operand of `!`")?;
                (Expression::Not(operand.boxed()), Type::Bool)
            }
            SyntaxKind::Binary(operator, left, right) => {
                (self.check_binary(at, operator, left, right)?, Type::Bool)
            }
            SyntaxKind::Conditional(condition, then, otherwise) => {
                let condition = self.check(condition)?;
                condition.expect(Type::Bool, "the condition of `?:`")?;
                let (then, otherwise) = (self.check(then)?, self.check(otherwise)?);
                then.expect_value()?;
                if !then.is(otherwise.kind) && otherwise.kind != Type::Dynamic {
                    let message = format!(
                        "`?:` chooses between {} and {}",
                        then.kind.name(),
                        otherwise.kind.name()
                    );
                    return Err(ConditionError::new(at, message, "choose between equal types"));
                }
                let kind = if then.kind == Type::Dynamic { otherwise.kind } else { then.kind };
                let parts = [condition, then, otherwise].map(|part| part.expression);
                (Expression::Conditional(Box::new(parts)), kind)
            }
        };
        Ok(Checked { expression, kind, at })
    }

    fn check_list(&mut self, at: usize, items: &[Syntax]) -> Result<Checked, ConditionError> {
        let items: Vec<Checked> =
            items.iter().map(|item| self.check(item)).collect::<Result<_, _>>()?;
        items.iter().try_for_each(Checked::expect_value)?;
        if let Some(first) = items.first() {
            let kind = first.kind;
            if let Some(other) = items.iter().find(|item| !item.is(kind) && kind != Type::Dynamic) {
                let message = format!("a list of {} and {}", kind.name(), other.kind.name());
                return Err(ConditionError::new(other.at, message, "write one type in a list"));
            }
        }
        let constants: Option<Vec<Constant>> =
            items.iter().map(|item| item.constant().cloned()).collect();
        let expression = match constants {
            Some(constants) => Expression::Constant(Constant::List(constants.into())),
            None => Expression::List(items.into_iter().map(|item| item.expression).collect()),
        };
        Ok(Checked { expression, kind: Type::List, at })
    }
}

pub(crate) fn type_of(constant: &Constant) -> Type {
    match constant {
        Constant::Bool(_) => Type::Bool,
        Constant::Int(_) | Constant::Double(_) => Type::Number,
        Constant::Text(_) => Type::Text,
        Constant::Time(_) => Type::Time,
        Constant::Duration(_) => Type::Duration,
        Constant::Ip(_) => Type::Ip,
        Constant::List(_) => Type::List,
        Constant::Claim(_) => Type::Dynamic,
    }
}

/// Computes a function of constants when the policy is loaded.
pub(crate) fn fold(
    expression: Expression,
    at: usize,
    message: &str,
    help: &str,
) -> Result<Expression, ConditionError> {
    let is_constant =
        expression.parts().into_iter().all(|part| matches!(part, Expression::Constant(_)));
    if !is_constant {
        return Ok(expression);
    }
    match evaluate(&expression, &Inputs::default()) {
        Ok(value) => Ok(Expression::Constant(value.to_constant())),
        Err(_) => Err(ConditionError::new(at, message, help)),
    }
}
