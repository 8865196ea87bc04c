//! Conditions that are never true, because their parts exclude each other.

use std::cmp::Ordering;

use condition::{Comparison, Constant, Expression, Network};

/// Two parts of a condition that are never true together.
pub(crate) fn contradiction(expression: &Expression) -> Option<(&Expression, &Expression)> {
    if let Expression::Or(left, right) = expression {
        let pair = contradiction(left)?;
        return contradiction(right).map(|_| pair);
    }
    let mut parts = Vec::new();
    collect_conjuncts(expression, &mut parts);
    if let [only] = &*parts
        && std::ptr::eq(*only, expression)
    {
        return None;
    }
    let inner = parts.iter().find_map(|part| contradiction(part));
    inner.or_else(|| {
        parts.iter().enumerate().find_map(|(index, part)| {
            let others = parts.iter().skip(index + 1);
            others.copied().find(|other| exclude(part, other)).map(|other| (*part, other))
        })
    })
}

fn collect_conjuncts<'e>(expression: &'e Expression, parts: &mut Vec<&'e Expression>) {
    if let Expression::And(left, right) = expression {
        collect_conjuncts(left, parts);
        collect_conjuncts(right, parts);
    } else {
        parts.push(expression);
    }
}

/// What a part says about a value.
enum Test<'e> {
    Compared(Comparison, &'e Constant),
    OneOf(&'e [Constant]),
    Within(&'e Network),
}

fn exclude(part: &Expression, other: &Expression) -> bool {
    if is_negation(part, other) || is_negation(other, part) {
        return true;
    }
    let (Some((value, test)), Some((other_value, other_test))) = (test(part), test(other)) else {
        return false;
    };
    value == other_value && (test.excludes(&other_test) || other_test.excludes(&test))
}

fn is_negation(part: &Expression, other: &Expression) -> bool {
    matches!(part, Expression::Not(negated) if **negated == *other)
}

/// The value that a part is about, and what it says of it.
fn test(part: &Expression) -> Option<(&Expression, Test<'_>)> {
    match part {
        Expression::Compare(comparison, left, right) => match (&**left, &**right) {
            (Expression::Constant(_), Expression::Constant(_)) => None,
            (value, Expression::Constant(constant)) => {
                Some((value, Test::Compared(*comparison, constant)))
            }
            (Expression::Constant(constant), value) => {
                Some((value, Test::Compared(flipped(*comparison), constant)))
            }
            _ => None,
        },
        Expression::In(value, list) => match &**list {
            Expression::Constant(Constant::List(items)) => Some((value, Test::OneOf(items))),
            _ => None,
        },
        Expression::ContainsIp(network, value) => Some((value, Test::Within(network))),
        _ => None,
    }
}

fn flipped(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::AtMost => Comparison::AtLeast,
        Comparison::Greater => Comparison::Less,
        Comparison::AtLeast => Comparison::AtMost,
        Comparison::Equal | Comparison::NotEqual => comparison,
    }
}

impl Test<'_> {
    /// Whether it is certain that no value passes both tests.
    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Compared(Comparison::Equal, value), _) => other.fails(value),
            (Self::OneOf(values), _) => values.iter().all(|value| other.fails(value)),
            (Self::Compared(least, low), Self::Compared(most, high)) => {
                let is_strict = match (least, most) {
                    (Comparison::AtLeast, Comparison::AtMost) => false,
                    (
                        Comparison::AtLeast | Comparison::Greater,
                        Comparison::AtMost | Comparison::Less,
                    ) => true,
                    _ => return false,
                };
                match order(low, high) {
                    Some(Ordering::Greater) => true,
                    Some(Ordering::Equal) => is_strict,
                    Some(Ordering::Less) | None => false,
                }
            }
            (Self::Within(network), Self::Within(other)) => {
                !network.contains(other.address) && !other.contains(network.address)
            }
            _ => false,
        }
    }

    /// Whether this value certainly does not pass.
    fn fails(&self, value: &Constant) -> bool {
        match self {
            Self::Compared(comparison, constant) => match (comparison, order(value, constant)) {
                (_, None) => false,
                (Comparison::Equal, Some(order)) => order != Ordering::Equal,
                (Comparison::NotEqual, Some(order)) => order == Ordering::Equal,
                (Comparison::Less, Some(order)) => order != Ordering::Less,
                (Comparison::AtMost, Some(order)) => order == Ordering::Greater,
                (Comparison::Greater, Some(order)) => order != Ordering::Greater,
                (Comparison::AtLeast, Some(order)) => order == Ordering::Less,
            },
            Self::OneOf(values) => values
                .iter()
                .all(|item| order(value, item).is_some_and(|order| order != Ordering::Equal)),
            Self::Within(_) => false,
        }
    }
}

/// The order of two constants of one type.
fn order(value: &Constant, other: &Constant) -> Option<Ordering> {
    match (value, other) {
        (Constant::Int(value), Constant::Int(other)) => Some(value.cmp(other)),
        (Constant::Text(value), Constant::Text(other)) => Some(value.cmp(other)),
        (Constant::Bool(value), Constant::Bool(other)) => Some(value.cmp(other)),
        (Constant::Time(value), Constant::Time(other)) => Some(value.cmp(other)),
        (Constant::Duration(value), Constant::Duration(other)) => Some(value.cmp(other)),
        (Constant::Ip(value), Constant::Ip(other)) => Some(value.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use condition::{Condition, NamedConditions};

    use super::*;

    #[test]
    fn parts_that_exclude_each_other_are_never_true() {
        for (text, is_never) in [
            ("user == 'a' && user == 'b'", true),
            ("user == 'a' && 'b' == user", true),
            ("user == 'a' && user in ['b', 'c']", true),
            ("user in ['a', 'b'] && user in ['c']", true),
            ("user == 'a' && user != 'a'", true),
            ("user == 'a' && scheme == 'basic' && user == 'b'", true),
            ("roles.exists(r, r == 'a') && !roles.exists(r, r == 'a')", true),
            ("request.time.getHours() >= 18 && request.time.getHours() < 8", true),
            ("request.time.getHours() > 8 && 8 >= request.time.getHours()", true),
            (
                "cidr('10.0.0.0/8').containsIP(source.ip) && cidr('192.0.2.0/24').containsIP(source.ip)",
                true,
            ),
            ("user == 'a' && user == 'b' || user == 'c' && user == 'd'", true),
            ("issuer == 'x' && (user == 'a' && user == 'b')", true),
            ("user == 'a' && user == 'b' || user == 'c'", false),
            ("user == 'a' || user == 'b'", false),
            ("user == 'a' && scheme == 'b'", false),
            ("user == 'a' && user in ['a', 'b']", false),
            ("claims.n == 1 && claims.n == 1.0", false),
            ("claims.n > 3 && claims.n < 4", false),
            ("request.time.getHours() >= 8 && request.time.getHours() <= 8", false),
            (
                "cidr('10.0.0.0/8').containsIP(source.ip) && cidr('10.1.0.0/16').containsIP(source.ip)",
                false,
            ),
            (
                "request.time.getHours('UTC') == 1 && request.time.getHours('Europe/Berlin') == 2",
                false,
            ),
        ] {
            let text: Arc<str> = text.into();
            let condition = Condition::parse(&text, &NamedConditions::default())
                .unwrap_or_else(|error| panic!("{text}: {}", error.message));
            assert_eq!(contradiction(&condition.expression).is_some(), is_never, "{text}");
        }
    }
}
