//! Checks the names and types of a parsed condition.

use std::collections::HashMap;
use std::sync::Arc;

use crate::evaluate::{Inputs, evaluate};
use crate::expression::{Attribute, Comparison, Expression, Network};
use crate::syntax::{Syntax, SyntaxKind};
use crate::value::Constant;
use crate::{ConditionError, MAX_ATOMS, MAX_DEPTH};

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
    /// A list of text: `roles`, `groups`.
    Names,
    List,
    /// `claims`, or a part of it: known only with a token.
    Claim,
    /// `cidr(…)`, which only `containsIP` takes.
    Network,
}

impl Type {
    fn is_list(self) -> bool {
        matches!(self, Self::Names | Self::List)
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
            Self::Claim => "a claim",
            Self::Network => "a network",
        }
    }
}

/// A checked expression, its type, and its place for errors.
pub(crate) struct Checked {
    pub(crate) expression: Expression,
    pub(crate) kind: Type,
    pub(crate) at: usize,
    /// The network, if it is `cidr(…)`.
    pub(crate) network: Option<Network>,
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
    let atoms = expression.atoms();
    if atoms > MAX_ATOMS {
        let message = format!("a condition has {atoms} comparisons, more than {MAX_ATOMS}");
        let help = "compare with a list: `x in ['a', 'b']`";
        return Err(ConditionError::new(at, message, help));
    }
    // Also what is compared: conditions that name each other twice would grow exponentially.
    if depth(&expression) > 4 * MAX_DEPTH || expression.size() > MAX_SIZE {
        let message = "a condition is too large";
        return Err(ConditionError::new(at, message, "use fewer named conditions in it"));
    }
    Ok(expression)
}

/// Bounded by the limits of each condition, times the conditions that name each other.
fn depth(expression: &Expression) -> usize {
    1 + expression.parts().into_iter().map(depth).max().unwrap_or(0)
}

pub(crate) struct Checker<'n> {
    named: &'n HashMap<Arc<str>, Expression>,
    /// The names of items of the `exists` and `all` around, with their types.
    pub(crate) items: Vec<(String, Type)>,
}

impl Checked {
    pub(crate) fn is(&self, wanted: Type) -> bool {
        self.kind == wanted || self.kind == Type::Claim || self.kind.is_list() && wanted.is_list()
    }

    pub(crate) fn expect(&self, wanted: Type, subject: &str) -> Result<(), ConditionError> {
        if self.is(wanted) {
            return Ok(());
        }
        let message = format!("{subject} is {}, not {}", wanted.name(), self.kind.name());
        Err(ConditionError::new(self.at, message, help_for(wanted)))
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
            Some(Constant::Text(text)) => Some(text),
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
        Type::Claim => "take a part of `claims`",
        Type::Network => "write a network as `cidr('10.0.0.0/8')`",
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
                operand.expect(Type::Bool, "what `!` negates")?;
                (Expression::Not(operand.boxed()), Type::Bool)
            }
            SyntaxKind::Binary(operator, left, right) => {
                (self.check_binary(at, operator, left, right)?, Type::Bool)
            }
            SyntaxKind::Conditional(condition, then, otherwise) => {
                let condition = self.check(condition)?;
                condition.expect(Type::Bool, "what `?` asks for")?;
                let (then, otherwise) = (self.check(then)?, self.check(otherwise)?);
                if !then.is(otherwise.kind) && otherwise.kind != Type::Claim {
                    let message = format!(
                        "`?:` chooses between {} and {}",
                        then.kind.name(),
                        otherwise.kind.name()
                    );
                    return Err(ConditionError::new(at, message, "choose between equal types"));
                }
                let kind = if then.kind == Type::Claim { otherwise.kind } else { then.kind };
                let parts = [condition, then, otherwise].map(|part| part.expression);
                (Expression::Conditional(Box::new(parts)), kind)
            }
        };
        Ok(Checked { expression, kind, at, network: None })
    }

    fn check_list(&mut self, at: usize, items: &[Syntax]) -> Result<Checked, ConditionError> {
        let items: Vec<Checked> =
            items.iter().map(|item| self.check(item)).collect::<Result<_, _>>()?;
        if let Some(network) = items.iter().find(|item| item.kind == Type::Network) {
            let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)` for each";
            return Err(ConditionError::new(network.at, "a network in a list", help));
        }
        if let Some(first) = items.first() {
            let kind = first.kind;
            if let Some(other) = items.iter().find(|item| !item.is(kind) && kind != Type::Claim) {
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
        Ok(Checked { expression, kind: Type::List, at, network: None })
    }

    fn check_name(&self, at: usize, name: &str) -> Result<(Expression, Type), ConditionError> {
        if let Some(index) = self.items.iter().rposition(|(item, _)| item == name) {
            let kind = self.items.get(index).map_or(Type::Claim, |(_, kind)| *kind);
            return Ok((Expression::Item(self.items.len() - 1 - index), kind));
        }
        let (attribute, kind) = match name {
            "user" => (Attribute::User, Type::Text),
            "roles" => (Attribute::Roles, Type::Names),
            "groups" => (Attribute::Groups, Type::Names),
            "issuer" => (Attribute::Issuer, Type::Text),
            "scheme" => (Attribute::Scheme, Type::Text),
            "claims" => (Attribute::Claims, Type::Claim),
            _ => {
                if let Some(expression) = self.named.get(name) {
                    return Ok((expression.clone(), Type::Bool));
                }
                return Err(self.unknown(at, name));
            }
        };
        Ok((Expression::Attribute(attribute), kind))
    }

    fn unknown(&self, at: usize, name: &str) -> ConditionError {
        let message = match name {
            "request" | "source" | "path" | "host" => {
                format!("`{name}` alone is not a value")
            }
            _ => format!("unknown name `{name}`"),
        };
        let help = match name {
            "request" => {
                "write `request.method`, `host`, `path`, `time`, `headers[…]` or `query[…]`"
            }
            "source" => "write `source.ip`",
            "path" | "host" => "write the name of a placeholder after it, such as `path.id`",
            "method" | "headers" | "query" | "time" => "it is a member of `request`",
            "ip" | "client" | "remote_address" => "write `source.ip`",
            _ => {
                "define it under `conditions`, write text in quotes, or use `request.…`, \
                 `source.ip`, `user`, `roles`, `groups`, `issuer`, `scheme`, `claims.…`, \
                 `path.NAME`, `host.NAME`"
            }
        };
        ConditionError::new(at, message, help)
    }

    /// The variable `ROOT.NAME`.
    pub(crate) fn attribute(&self, value: &Syntax, name: &str) -> Option<(Attribute, Type)> {
        let SyntaxKind::Name(root) = &value.kind else { return None };
        let found = match (&**root, name) {
            ("request", "method") => (Attribute::Method, Type::Text),
            ("request", "host") => (Attribute::Host, Type::Text),
            ("request", "path") => (Attribute::Path, Type::Text),
            ("request", "time") => (Attribute::Time, Type::Time),
            ("source", "ip") => (Attribute::SourceIp, Type::Ip),
            ("path", name) => (Attribute::PathPlaceholder(name.into()), Type::Text),
            ("host", name) => (Attribute::HostPlaceholder(name.into()), Type::Text),
            _ => return None,
        };
        Some(found)
    }

    /// `request.headers` or `request.query`, with this name of a header or parameter.
    pub(crate) fn entry(
        &self,
        value: &Syntax,
        at: usize,
        name: &str,
    ) -> Result<Option<Attribute>, ConditionError> {
        let SyntaxKind::Select(root, map) = &value.kind else { return Ok(None) };
        let SyntaxKind::Name(root) = &root.kind else { return Ok(None) };
        if root != "request" {
            return Ok(None);
        }
        match &**map {
            "query" => Ok(Some(Attribute::Query(name.into()))),
            "headers" => {
                let is_name = !name.is_empty()
                    && name.bytes().all(|byte| {
                        byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
                    });
                let message = if !is_name {
                    format!("`{name}` is not the name of a header")
                } else if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    format!("the names of headers are in lower case, not `{name}`")
                } else if name == "authorization" {
                    "the credentials of a request are not for conditions".to_owned()
                } else {
                    return Ok(Some(Attribute::Header(name.into())));
                };
                let help = if name == "authorization" {
                    "use `user`, `scheme` or `claims`".to_owned()
                } else {
                    format!("write `{}`", name.to_ascii_lowercase())
                };
                Err(ConditionError::new(at, message, help))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn check_member(
        &mut self,
        at: usize,
        value: &Syntax,
        name: &str,
    ) -> Result<Checked, ConditionError> {
        if let Some((attribute, kind)) = self.attribute(value, name) {
            let expression = Expression::Attribute(attribute);
            return Ok(Checked { expression, kind, at, network: None });
        }
        if let Some(attribute) = self.entry(value, at, name)? {
            let expression = Expression::Attribute(attribute);
            return Ok(Checked { expression, kind: Type::Text, at, network: None });
        }
        if let SyntaxKind::Name(root) = &value.kind
            && matches!(&**root, "request" | "source")
        {
            let message = format!("unknown variable `{root}.{name}`");
            let unknown = self.unknown(at, root);
            let help = match name {
                "headers" | "query" => "write a name after it, such as `request.headers['x-name']`",
                "address" | "remote_address" | "client" => "write `source.ip`",
                "body" => "conditions do not see the body",
                _ => &unknown.help,
            };
            return Err(ConditionError::new(at, message, help));
        }
        let value = self.check(value)?;
        if value.kind != Type::Claim {
            let message = format!("{} has no member `{name}`", value.kind.name());
            return Err(ConditionError::new(at, message, "only `claims` has members"));
        }
        let expression = Expression::Member(value.boxed(), name.into());
        Ok(Checked { expression, kind: Type::Claim, at, network: None })
    }

    fn check_index(
        &mut self,
        at: usize,
        value: &Syntax,
        index: &Syntax,
    ) -> Result<Checked, ConditionError> {
        let is_entry = matches!(&value.kind, SyntaxKind::Select(root, map)
            if matches!(&root.kind, SyntaxKind::Name(root) if root == "request")
                && matches!(&**map, "headers" | "query"));
        let index_checked = self.check(index)?;
        if let Some(name) = index_checked.constant_text() {
            let is_root = matches!(&value.kind, SyntaxKind::Name(root)
                if matches!(&**root, "path" | "host" | "request" | "source" | "claims"));
            if is_root || is_entry {
                return self.check_member(index.at, value, name);
            }
        } else if is_entry {
            let help = "the names of headers and parameters are known when the policy is loaded";
            let message = "the name is not a text in quotes";
            return Err(ConditionError::new(index.at, message, help));
        }
        let value = self.check(value)?;
        let kind = match value.kind {
            Type::Claim => Type::Claim,
            Type::Names => Type::Text,
            Type::List => Type::Claim,
            _ => {
                let message = format!("{} has no items", value.kind.name());
                return Err(ConditionError::new(at, message, "only a list has items"));
            }
        };
        if let (Type::Claim, Some(name)) = (value.kind, index_checked.constant_text()) {
            let expression = Expression::Member(value.boxed(), name.into());
            return Ok(Checked { expression, kind, at, network: None });
        }
        if value.kind != Type::Claim {
            index_checked.expect(Type::Number, "an index")?;
        }
        let expression = Expression::Index(value.boxed(), index_checked.boxed());
        Ok(Checked { expression, kind, at, network: None })
    }

    fn check_binary(
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
        if matches!(operator, "&&" | "||") {
            for operand in [&left, &right] {
                operand.expect(Type::Bool, &format!("what `{operator}` joins"))?;
            }
            let (left, right) = (left.boxed(), right.boxed());
            return Ok(if operator == "&&" {
                Expression::And(left, right)
            } else {
                Expression::Or(left, right)
            });
        }
        compare_addresses(&mut left, &mut right)?;
        if !left.is(right.kind) && right.kind != Type::Claim {
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
        let has_order = |kind| {
            matches!(
                kind,
                Type::Bool | Type::Number | Type::Text | Type::Time | Type::Duration | Type::Claim
            )
        };
        let needs_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        if let Some(operand) =
            [&left, &right].into_iter().find(|operand| needs_order && !has_order(operand.kind))
        {
            let message = format!("`{operator}` does not apply to {}", operand.kind.name());
            return Err(ConditionError::new(operand.at, message, "use `==`, `in` or a function"));
        }
        for operand in [&left, &right] {
            if operand.kind == Type::Network {
                let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)`";
                return Err(ConditionError::new(operand.at, "a network is not compared", help));
            }
        }
        Ok(Expression::Compare(comparison, left.boxed(), right.boxed()))
    }

    fn check_in(
        &mut self,
        at: usize,
        left: &Syntax,
        right: &Syntax,
    ) -> Result<Expression, ConditionError> {
        let mut name = self.check(left)?;
        if let SyntaxKind::Select(root, map) = &right.kind
            && matches!(&root.kind, SyntaxKind::Name(root) if root == "request")
            && matches!(&**map, "headers" | "query")
        {
            let Some(text) = name.constant_text().map(str::to_owned) else {
                let help = "write `'x-name' in request.headers`";
                return Err(ConditionError::new(left.at, "the name is not a text in quotes", help));
            };
            let attribute = self.entry(right, left.at, &text)?;
            return attribute.map(Expression::IsPresent).ok_or_else(|| self.unknown(at, "request"));
        }
        if let SyntaxKind::Name(root) = &right.kind
            && matches!(&**root, "path" | "host")
            && let Some(text) = name.constant_text()
            && let Some((attribute, _)) = self.attribute(right, text)
        {
            return Ok(Expression::IsPresent(attribute));
        }
        if name.kind == Type::Network {
            let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)`";
            return Err(ConditionError::new(name.at, "a network is in no list", help));
        }
        let list = self.check(right)?;
        if name.kind == Type::Ip {
            return address_in(name, list);
        }
        if !matches!(list.kind, Type::Names | Type::List | Type::Claim) {
            let message = format!("`in` looks into {}, which is no list", list.kind.name());
            let help = "write `x in ['a', 'b']`, or `text.contains('part')`";
            return Err(ConditionError::new(list.at, message, help));
        }
        if list.kind == Type::Names {
            name.expect(Type::Text, "a name in this list")?;
        }
        if let Expression::Constant(Constant::List(items)) = &list.expression
            && let Some(item) = items.first()
            && !name.is(type_of(item))
        {
            let (left, right) = (name.kind.name(), type_of(item).name());
            let message = format!("`in` looks for {left} in a list of {right}");
            return Err(ConditionError::new(at, message, "compare values of one type"));
        }
        name.at = at;
        Ok(Expression::In(name.boxed(), list.boxed()))
    }
}

fn type_of(constant: &Constant) -> Type {
    match constant {
        Constant::Bool(_) => Type::Bool,
        Constant::Int(_) | Constant::Double(_) => Type::Number,
        Constant::Text(_) => Type::Text,
        Constant::Time(_) => Type::Time,
        Constant::Duration(_) => Type::Duration,
        Constant::Ip(_) => Type::Ip,
        Constant::List(_) => Type::List,
        Constant::Claim(_) => Type::Claim,
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

/// Reads a text that is compared with an address: `source.ip == '192.0.2.7'`. It must be written
/// as addresses are shown, because CEL compares text.
fn compare_addresses(left: &mut Checked, right: &mut Checked) -> Result<(), ConditionError> {
    let other = match (left.kind, right.kind) {
        (Type::Ip, Type::Text) => right,
        (Type::Text, Type::Ip) => left,
        (Type::Ip, Type::Claim) | (Type::Claim, Type::Ip) => {
            let at = if left.kind == Type::Claim { left.at } else { right.at };
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

fn canonical_address(at: usize, text: &str) -> Result<Constant, ConditionError> {
    let address: Option<std::net::IpAddr> = text.parse().ok();
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
        list.expect(Type::List, "what `in` looks into")?;
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
