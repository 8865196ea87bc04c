//! Shows an expression as CEL writes it.

use std::fmt;
use std::sync::Arc;

use crate::Condition;
use crate::expression::{
    Attribute, Comparison, Expression, Network, QuestionPart, TextTest, TimePart,
};
use crate::token::is_name;
use crate::value::Constant;

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("request.method"),
            Self::Host => f.write_str("request.host"),
            Self::Path => f.write_str("request.path"),
            Self::Header(name) => {
                write!(f, "request.headers[{}]", Constant::Text(name.clone()))
            }
            Self::Query(name) => {
                write!(f, "request.query[{}]", Constant::Text(name.clone()))
            }
            Self::Time => f.write_str("request.time"),
            Self::SourceIp => f.write_str("source.ip"),
            Self::Certificate => f.write_str("source.certificate"),
            Self::User => f.write_str("user"),
            Self::Roles => f.write_str("roles"),
            Self::Groups => f.write_str("groups"),
            Self::Issuer => f.write_str("issuer"),
            Self::Scheme => f.write_str("scheme"),
            Self::Claims => f.write_str("claims"),
            Self::PathPlaceholder(name) => write_member(f, &"path", name),
            Self::HostPlaceholder(name) => write_member(f, &"host", name),
            Self::Question(QuestionPart::ResourceProperties) => f.write_str("resource.properties"),
            Self::Question(QuestionPart::ActionProperties) => f.write_str("action.properties"),
            Self::Question(QuestionPart::Context) => f.write_str("context"),
        }
    }
}

/// An expression. A part of it that is a named condition is shown as the name.
#[derive(Clone, Copy, Debug)]
pub struct WithNames<'e> {
    expression: &'e Expression,
    names: &'e [(Arc<str>, Condition)],
}

impl Expression {
    /// Shows it with the names of conditions in place of their texts.
    #[must_use]
    pub fn with_names<'e>(&'e self, names: &'e [(Arc<str>, Condition)]) -> WithNames<'e> {
        WithNames { expression: self, names }
    }

    /// The name of the condition that equals this whole expression.
    #[must_use]
    pub fn name_among<'e>(&self, names: &'e [(Arc<str>, Condition)]) -> Option<&'e str> {
        let named = names.iter().find(|(_, condition)| *condition.expression == *self);
        named.map(|(name, _)| &**name)
    }
}

impl fmt::Display for WithNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expression, names } = *self;
        Shown { expression, names, depth: 0 }.fmt(f)
    }
}

/// Shows the expression on one line. The items of `exists` and `all` are `x`, `y`, `z`, `x3` ….
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown { expression: self, names: &[], depth: 0 }.fmt(f)
    }
}

/// An expression with `depth` calls of `exists` and `all` around it.
#[derive(Clone, Copy)]
struct Shown<'e> {
    expression: &'e Expression,
    names: &'e [(Arc<str>, Condition)],
    depth: usize,
}

/// The name of the item of an `exists` or `all`. The number says how many others are around it.
struct ItemName(usize);

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("x"),
            1 => f.write_str("y"),
            2 => f.write_str("z"),
            depth => write!(f, "x{depth}"),
        }
    }
}

impl<'e> Shown<'e> {
    fn part(self, expression: &'e Expression) -> Self {
        Self { expression, ..self }
    }

    fn operand(self, expression: &'e Expression, minimum: Precedence) -> Operand<'e> {
        Operand { shown: self.part(expression), minimum }
    }

    /// The operand of a dot, a `[`, a `!` or a relation.
    fn tight_operand(self, expression: &'e Expression) -> Operand<'e> {
        self.operand(expression, Precedence::Member)
    }

    /// The predicate of an `exists` or `all`.
    fn predicate(self, expression: &'e Expression) -> Self {
        Self { expression, depth: self.depth + 1, ..self }
    }

    fn name(self) -> Option<&'e str> {
        self.expression.name_among(self.names)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        match self.expression {
            Expression::Constant(constant) => constant.fmt(f),
            Expression::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, self.part(item))?;
                }
                f.write_str("]")
            }
            Expression::Attribute(attribute) => attribute.fmt(f),
            Expression::IsPresent(Attribute::Header(name)) => {
                write!(f, "{} in request.headers", Constant::Text(name.clone()))
            }
            Expression::IsPresent(Attribute::Query(name)) => {
                write!(f, "{} in request.query", Constant::Text(name.clone()))
            }
            Expression::IsPresent(attribute) => write!(f, "has({attribute})"),
            Expression::Item(level) => ItemName(self.depth.saturating_sub(1 + level)).fmt(f),
            Expression::Member(object, name) => write_member(f, &self.tight_operand(object), name),
            Expression::HasMember(object, name) if is_name(name) => {
                write!(f, "has({}.{name})", self.tight_operand(object))
            }
            Expression::HasMember(object, name) => {
                write!(f, "{} in {}", Constant::Text(name.clone()), self.tight_operand(object))
            }
            Expression::Index(list, index) => {
                write!(f, "{}[{}]", self.tight_operand(list), self.part(index))
            }
            Expression::Not(operand) => write!(f, "!{}", self.tight_operand(operand)),
            Expression::And(left, right) => {
                write!(
                    f,
                    "{} && {}",
                    self.operand(left, Precedence::And),
                    self.operand(right, Precedence::Relation)
                )
            }
            Expression::Or(left, right) => {
                write!(
                    f,
                    "{} || {}",
                    self.operand(left, Precedence::Or),
                    self.operand(right, Precedence::And)
                )
            }
            Expression::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                write!(
                    f,
                    "{} ? {} : {}",
                    self.operand(condition, Precedence::Or),
                    self.operand(then, Precedence::Or),
                    self.part(otherwise)
                )
            }
            Expression::Compare(comparison, left, right) => {
                write!(f, "{} {comparison} {}", self.tight_operand(left), self.tight_operand(right))
            }
            Expression::In(item, list) => {
                write!(f, "{} in {}", self.tight_operand(item), self.tight_operand(list))
            }
            Expression::TextTest(test, text, part) => {
                let name = match test {
                    TextTest::StartsWith => "startsWith",
                    TextTest::EndsWith => "endsWith",
                    TextTest::Contains => "contains",
                };
                write!(f, "{}.{name}({})", self.tight_operand(text), self.part(part))
            }
            Expression::Matches(text, pattern) => {
                let pattern = Constant::Text(pattern.text().into());
                write!(f, "{}.matches({pattern})", self.tight_operand(text))
            }
            Expression::Size(value) => write!(f, "size({})", self.part(value)),
            Expression::LowerAscii(text) => write!(f, "{}.lowerAscii()", self.tight_operand(text)),
            Expression::Timestamp(value) => write!(f, "timestamp({})", self.part(value)),
            Expression::Duration(value) => write!(f, "duration({})", self.part(value)),
            Expression::Ip(value) => write!(f, "ip({})", self.part(value)),
            Expression::ContainsIp(network, address) => {
                let Network { address: network, prefix } = network;
                write!(f, "cidr('{network}/{prefix}').containsIP({})", self.part(address))
            }
            Expression::TimePart(part, time, zone) => match zone.name() {
                Some(zone) => write!(f, "{}.{part}('{zone}')", self.tight_operand(time)),
                None => write!(f, "{}.{part}()", self.tight_operand(time)),
            },
            Expression::Exists(list, predicate) => write!(
                f,
                "{}.exists({}, {})",
                self.tight_operand(list),
                ItemName(self.depth),
                self.predicate(predicate)
            ),
            Expression::All(list, predicate) => write!(
                f,
                "{}.all({}, {})",
                self.tight_operand(list),
                ItemName(self.depth),
                self.predicate(predicate)
            ),
            // Its placeholder has the name of the claim: `{claims.tenant}` in a pattern.
            Expression::IsClaim(Attribute::HostPlaceholder(name), _) => {
                write!(f, "{{{name}}} is the label of the host")
            }
            Expression::IsClaim(placeholder, claim) => match placeholder {
                Attribute::PathPlaceholder(name) => {
                    write!(f, "{{{name}}} is the segment of the path")
                }
                _ => write!(f, "{placeholder} == {}", self.part(claim)),
            },
            Expression::Cached(place) => write!(f, "cached[{place}]"),
        }
    }
}

/// How strongly an expression binds, as in CEL's grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Conditional,
    Or,
    And,
    Relation,
    Member,
}

/// An operand. It is shown in brackets if it binds more weakly than the minimum.
struct Operand<'e> {
    shown: Shown<'e>,
    minimum: Precedence,
}

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shown, minimum } = self;
        let precedence = match shown.expression {
            _ if shown.name().is_some() => Precedence::Member,
            Expression::Conditional(_) => Precedence::Conditional,
            Expression::Or(..) => Precedence::Or,
            Expression::And(..) => Precedence::And,
            Expression::Compare(..)
            | Expression::In(..)
            | Expression::IsClaim(..)
            | Expression::IsPresent(Attribute::Header(_) | Attribute::Query(_)) => {
                Precedence::Relation
            }
            Expression::HasMember(_, name) if !is_name(name) => Precedence::Relation,
            _ => Precedence::Member,
        };
        if precedence < *minimum { write!(f, "({shown})") } else { shown.fmt(f) }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        })
    }
}

impl fmt::Display for TimePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FullYear => "getFullYear",
            Self::Month => "getMonth",
            Self::Date => "getDate",
            Self::DayOfMonth => "getDayOfMonth",
            Self::DayOfWeek => "getDayOfWeek",
            Self::DayOfYear => "getDayOfYear",
            Self::Hours => "getHours",
            Self::Minutes => "getMinutes",
            Self::Seconds => "getSeconds",
            Self::Milliseconds => "getMilliseconds",
        })
    }
}

/// `OBJECT.NAME`, or `OBJECT['NAME']` if the name cannot follow a dot.
fn write_member(
    f: &mut fmt::Formatter<'_>,
    object: &dyn fmt::Display,
    name: &Arc<str>,
) -> fmt::Result {
    if is_name(name) {
        write!(f, "{object}.{name}")
    } else {
        write!(f, "{object}[{}]", Constant::Text(name.clone()))
    }
}
