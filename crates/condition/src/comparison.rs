//! Checks `&&`, `||`, comparisons and `in`.

use std::net::IpAddr;

use crate::ConditionError;
use crate::check::{Checked, Checker, Type, type_of};
use crate::expression::{Comparison, Expression};
use crate::names::{RequestMap, attribute};
use crate::syntax::{Syntax, SyntaxKind};
use crate::value::Constant;

impl Checker<'_> {
    pub(crate) fn check_binary(
        &mut self,
        at: usize,
        operator: &str,
        left: &Syntax,
        right: &Syntax,
    ) -> Result<Expression, ConditionError> {
        if operator == "in" {
            return self.check_in(at, left, right);
        }
        let (mut left, mut right) = (self.check(left)?, self.check(right)?);
        for operand in [&left, &right] {
            operand.expect_value()?;
        }
        if matches!(operator, "&&" | "||") {
            for operand in [&left, &right] {
                operand.expect(Type::Bool, &format!("an operand of `{operator}`"))?;
            }
            let (left, right) = (left.boxed(), right.boxed());
            return Ok(if operator == "&&" {
                Expression::And(left, right)
            } else {
                Expression::Or(left, right)
            });
        }
        compare_addresses(&mut left, &mut right)?;
        if !left.is(right.kind) && right.kind != Type::Dynamic {
            let (left, right) = (left.kind.name(), right.kind.name());
            let message = format!("`{operator}` compares {left} with {right}");
            return Err(ConditionError::new(at, message, "compare values of one type"));
        }
        let comparison = match operator {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            _ => Comparison::AtLeast,
        };
        let needs_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let without_order = [&left, &right].into_iter().find(|operand| !operand.kind.has_order());
        if let Some(operand) = without_order.filter(|_| needs_order) {
            let message = format!("`{operator}` does not apply to {}", operand.kind.name());
            return Err(ConditionError::new(operand.at, message, "use `==`, `in` or a function"));
        }
        Ok(Expression::Compare(comparison, left.boxed(), right.boxed()))
    }

    fn check_in(
        &mut self,
        at: usize,
        left: &Syntax,
        right: &Syntax,
    ) -> Result<Expression, ConditionError> {
        let item = self.check(left)?;
        item.expect_value()?;
        if let Some(map) = RequestMap::from_syntax(right) {
            let Some(name) = item.constant_text() else {
                let help = "write `'x-name' in request.headers`";
                return Err(ConditionError::new(left.at, "the name is not a text in quotes", help));
            };
            return map.entry(left.at, name).map(Expression::IsPresent);
        }
        if let SyntaxKind::Name(root) = &right.kind
            && matches!(&**root, "path" | "host")
            && let Some(name) = item.constant_text()
            && let Some((attribute, _)) = attribute(right, name)
        {
            return Ok(Expression::IsPresent(attribute));
        }
        let list = self.check(right)?;
        if item.kind == Type::Ip {
            return address_in(item, list);
        }
        if !matches!(list.kind, Type::Names | Type::List | Type::Dynamic) {
            let message = format!("`in` looks into {}, which is no list", list.kind.name());
            let help = "write `x in ['a', 'b']`, or `text.contains('part')`";
            return Err(ConditionError::new(list.at, message, help));
        }
        if list.kind == Type::Names {
            item.expect(Type::Text, "a name in this list")?;
        }
        if let Expression::Constant(Constant::List(items)) = &list.expression
            && let Some(first) = items.first()
            && !item.is(type_of(first))
        {
            let (left, right) = (item.kind.name(), type_of(first).name());
            let message = format!("`in` looks for {left} in a list of {right}");
            return Err(ConditionError::new(at, message, "compare values of one type"));
        }
        Ok(Expression::In(item.boxed(), list.boxed()))
    }
}

/// Reads a text that is compared with an address: `source.ip == '192.0.2.7'`.
fn compare_addresses(left: &mut Checked, right: &mut Checked) -> Result<(), ConditionError> {
    let other = match (left.kind, right.kind) {
        (Type::Ip, Type::Text) => right,
        (Type::Text, Type::Ip) => left,
        (Type::Ip, Type::Dynamic) | (Type::Dynamic, Type::Ip) => {
            let at = if left.kind == Type::Dynamic { left.at } else { right.at };
            let help = "write `ip(…)` around the claim";
            return Err(ConditionError::new(at, "an address compared with a claim", help));
        }
        _ => return Ok(()),
    };
    let Some(text) = other.constant_text() else {
        let help = "write `ip(…)` around the text";
        return Err(ConditionError::new(other.at, "an address compared with text", help));
    };
    other.expression = Expression::Constant(canonical_address(other.at, text)?);
    other.kind = Type::Ip;
    Ok(())
}

/// Reads an address in its canonical form. Other implementations of CEL may have `source.ip` as
/// text, and only the canonical form means the same there.
fn canonical_address(at: usize, text: &str) -> Result<Constant, ConditionError> {
    let address: Option<IpAddr> = text.parse().ok();
    match address {
        Some(address) if address.to_string() == text && address.to_canonical() == address => {
            Ok(Constant::Ip(address))
        }
        Some(address) => {
            let message = format!("`{text}` is never equal to an address");
            Err(ConditionError::new(at, message, format!("write `{}`", address.to_canonical())))
        }
        None => {
            let message = format!("`{text}` is not an address");
            let help = "write `192.0.2.7`, or `cidr('10.0.0.0/8').containsIP(source.ip)`";
            Err(ConditionError::new(at, message, help))
        }
    }
}

/// `source.ip in ['192.0.2.7', '192.0.2.8']`
fn address_in(address: Checked, list: Checked) -> Result<Expression, ConditionError> {
    let Expression::Constant(Constant::List(items)) = &list.expression else {
        list.expect(Type::List, "the list of `in`")?;
        let help = "write the addresses as a list: `source.ip in ['192.0.2.7']`";
        return Err(ConditionError::new(
            list.at,
            "the list of addresses is not written here",
            help,
        ));
    };
    let items: Vec<Constant> = items
        .iter()
        .map(|item| match item {
            Constant::Text(text) => canonical_address(list.at, text),
            Constant::Ip(address) => Ok(Constant::Ip(*address)),
            other => {
                let message = format!("`in` looks for an address in a list with {other}");
                Err(ConditionError::new(list.at, message, "write addresses in quotes"))
            }
        })
        .collect::<Result<_, _>>()?;
    let list = Expression::Constant(Constant::List(items.into()));
    Ok(Expression::In(address.boxed(), Box::new(list)))
}
