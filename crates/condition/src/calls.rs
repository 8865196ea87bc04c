//! Checks calls of functions.

use jiff::tz::TimeZone;

use crate::check::{Checked, Checker, Type, fold};
use crate::expression::{Attribute, Expression, Network, TextTest, TimePart, Zone};
use crate::names::{RequestMap, attribute};
use crate::pattern::Pattern;
use crate::syntax::{Syntax, SyntaxKind};
use crate::value::Constant;
use crate::{ConditionError, VARIABLES};

/// The functions, each with an example of a call.
pub const FUNCTIONS: [(&str, &str); 24] = [
    ("has", "has(claims.name)"),
    ("size", "size(groups)"),
    ("exists", "groups.exists(x, x == 'a')"),
    ("all", "groups.all(x, x == 'a')"),
    ("startsWith", "user.startsWith('a')"),
    ("endsWith", "user.endsWith('a')"),
    ("contains", "user.contains('a')"),
    ("matches", "user.matches('^a')"),
    ("lowerAscii", "user.lowerAscii()"),
    ("timestamp", "timestamp('2026-01-31T00:00:00Z')"),
    ("duration", "duration('1h')"),
    ("getFullYear", "request.time.getFullYear()"),
    ("getMonth", "request.time.getMonth()"),
    ("getDate", "request.time.getDate()"),
    ("getDayOfMonth", "request.time.getDayOfMonth()"),
    ("getDayOfWeek", "request.time.getDayOfWeek()"),
    ("getDayOfYear", "request.time.getDayOfYear()"),
    ("getHours", "request.time.getHours('Europe/Berlin')"),
    ("getMinutes", "request.time.getMinutes()"),
    ("getSeconds", "request.time.getSeconds()"),
    ("getMilliseconds", "request.time.getMilliseconds()"),
    ("ip", "ip('192.0.2.7')"),
    ("cidr", "cidr('10.0.0.0/8').containsIP(source.ip)"),
    ("containsIP", "cidr('10.0.0.0/8').containsIP(source.ip)"),
];

impl Checker<'_> {
    pub(crate) fn check_call(
        &mut self,
        at: usize,
        target: Option<&Syntax>,
        name: &str,
        arguments: &[Syntax],
    ) -> Result<Checked, ConditionError> {
        let (expression, kind) = match (target, name, arguments) {
            (None, "has", [argument]) => (self.check_has(argument)?, Type::Bool),
            (Some(list), "exists" | "all", [item, predicate]) => {
                (self.check_quantifier(name, list, item, predicate)?, Type::Bool)
            }
            (None, "cidr", [argument]) => {
                let argument = self.check(argument)?;
                let network = argument.constant_text().and_then(Network::parse);
                let Some(network) = network else {
                    let message = "`cidr()` is not a network in quotes";
                    let help = "write `cidr('10.0.0.0/8')`";
                    return Err(ConditionError::new(argument.at, message, help));
                };
                (argument.expression, Type::Network(network))
            }
            (Some(network), "containsIP", [address]) => {
                let network = self.check(network)?;
                let Type::Network(network) = network.kind else {
                    let message =
                        format!("`containsIP` needs a network, not {}", network.kind.name());
                    let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)`";
                    return Err(ConditionError::new(network.at, message, help));
                };
                let address = self.address(address)?;
                (Expression::ContainsIp(network, address.boxed()), Type::Bool)
            }
            (None, "ip", [argument]) => (self.address(argument)?.expression, Type::Ip),
            (None, "timestamp", [argument]) => {
                let argument = self.check(argument)?;
                let is_right = [Type::Text, Type::Number, Type::Time].contains(&argument.kind);
                if !is_right {
                    argument.expect(Type::Text, "the argument of `timestamp`")?;
                }
                let expression = Expression::Timestamp(argument.boxed());
                let help = "write a time as `timestamp('2026-01-31T00:00:00Z')`";
                (fold(expression, at, "this is not a time", help)?, Type::Time)
            }
            (None, "duration", [argument]) => {
                let argument = self.check(argument)?;
                if argument.kind != Type::Duration {
                    argument.expect(Type::Text, "the argument of `duration`")?;
                }
                let expression = Expression::Duration(argument.boxed());
                let help = "write a duration as `duration('1h30m')`";
                (fold(expression, at, "this is not a duration", help)?, Type::Duration)
            }
            (None, "size", [value]) | (Some(value), "size", []) => {
                let value = self.check(value)?;
                if !matches!(value.kind, Type::Names | Type::List | Type::Dynamic) {
                    value.expect(Type::Text, "the argument of `size`")?;
                }
                (Expression::Size(value.boxed()), Type::Number)
            }
            (Some(text), "lowerAscii", []) => {
                let text = self.check(text)?;
                text.expect(Type::Text, "the text of `lowerAscii`")?;
                (Expression::LowerAscii(text.boxed()), Type::Text)
            }
            (Some(text), "matches", [pattern]) | (None, "matches", [text, pattern]) => {
                (self.check_matches(text, pattern)?, Type::Bool)
            }
            (Some(text), "startsWith" | "endsWith" | "contains", [part]) => {
                let (text, part) = (self.check(text)?, self.check(part)?);
                if text.kind == Type::Ip {
                    let message = format!("`{name}` does not apply to an address");
                    let help = "write `cidr('10.0.0.0/8').containsIP(source.ip)`";
                    return Err(ConditionError::new(text.at, message, help));
                }
                if matches!(text.kind, Type::Names | Type::List) {
                    let message = format!("`{name}` does not apply to a list");
                    return Err(ConditionError::new(text.at, message, "write `x in list`"));
                }
                text.expect(Type::Text, &format!("the text of `{name}`"))?;
                part.expect(Type::Text, &format!("the argument of `{name}`"))?;
                let test = match name {
                    "startsWith" => TextTest::StartsWith,
                    "endsWith" => TextTest::EndsWith,
                    _ => TextTest::Contains,
                };
                (Expression::TextTest(test, text.boxed(), part.boxed()), Type::Bool)
            }
            (Some(time), _, [] | [_]) if time_part(name).is_some() => {
                (self.check_time_part(at, name, time, arguments.first())?, Type::Number)
            }
            _ => return Err(unknown_function(at, target.is_some(), name, arguments.len())),
        };
        Ok(Checked { expression, kind, at })
    }

    /// An address: `source.ip`, `ip(…)`, or text.
    fn address(&mut self, syntax: &Syntax) -> Result<Checked, ConditionError> {
        let checked = self.check(syntax)?;
        if checked.kind == Type::Ip {
            return Ok(checked);
        }
        checked.expect(Type::Text, "an address")?;
        let Checked { expression, at, .. } = checked;
        let expression = Expression::Ip(Box::new(expression));
        let help = "write an address as `192.0.2.7` or `2001:db8::1`, a network as `cidr('…')`";
        let expression = fold(expression, at, "this is not an address", help)?;
        Ok(Checked { expression, kind: Type::Ip, at })
    }

    fn check_has(&mut self, argument: &Syntax) -> Result<Expression, ConditionError> {
        let SyntaxKind::Select(value, name) = &argument.kind else {
            let help = "write `has(claims.name)`, or `'name' in claims`";
            let message = "`has()` takes a member, such as `claims.name`";
            return Err(ConditionError::new(argument.at, message, help));
        };
        if let Some((attribute, _)) = attribute(value, name) {
            if attribute.is_placeholder() || attribute == Attribute::Certificate {
                return Ok(Expression::IsPresent(attribute));
            }
            // Requests of proxies have no question, so `!has(…)` would be true for each of them.
            if matches!(attribute, Attribute::Question(_)) {
                let message = format!("`has({attribute})` does not say which property");
                let help = format!("write `has({attribute}.name)`");
                return Err(ConditionError::new(argument.at, message, help));
            }
            return Ok(Expression::Constant(Constant::Bool(true)));
        }
        if let Some(map) = RequestMap::from_syntax(value) {
            return map.entry(argument.at, name).map(Expression::IsPresent);
        }
        let object = self.check_object(argument.at, value, name)?;
        Ok(Expression::HasMember(object, name.as_str().into()))
    }

    fn check_quantifier(
        &mut self,
        name: &str,
        list: &Syntax,
        item: &Syntax,
        predicate: &Syntax,
    ) -> Result<Expression, ConditionError> {
        let list = self.check(list)?;
        let kind = match list.kind {
            Type::Names => Type::Text,
            Type::List | Type::Dynamic => Type::Dynamic,
            _ => {
                let message = format!("`{name}` looks into {}", list.kind.name());
                let help =
                    "it looks into `roles`, `groups`, `source.certificate` and lists of claims";
                return Err(ConditionError::new(list.at, message, help));
            }
        };
        let SyntaxKind::Name(variable) = &item.kind else {
            let help = format!("write `{name}(x, x == 'a')`");
            return Err(ConditionError::new(item.at, "this is not the name of an item", help));
        };
        if VARIABLES.contains(&variable.as_str()) {
            let message = format!("`{variable}` is a variable, and cannot name an item");
            return Err(ConditionError::new(item.at, message, "take another name, such as `x`"));
        }
        self.items.push((variable.clone(), kind));
        let predicate = self.check(predicate);
        self.items.pop();
        let predicate = predicate?;
        predicate.expect(Type::Bool, &format!("the condition of `{name}`"))?;
        let (list, predicate) = (list.boxed(), predicate.boxed());
        Ok(if name == "all" {
            Expression::All(list, predicate)
        } else {
            Expression::Exists(list, predicate)
        })
    }

    fn check_matches(
        &mut self,
        text: &Syntax,
        pattern: &Syntax,
    ) -> Result<Expression, ConditionError> {
        let (text, pattern) = (self.check(text)?, self.check(pattern)?);
        text.expect(Type::Text, "the text of `matches`")?;
        let Some(regex) = pattern.constant_text() else {
            let help = "a regular expression is compiled when the policy is loaded";
            let message = "the regular expression is not a text in quotes";
            return Err(ConditionError::new(pattern.at, message, help));
        };
        let compiled = Pattern::new(regex).map_err(|why| {
            let message = format!("the regular expression is invalid: {why}");
            ConditionError::new(pattern.at, message, "the syntax is that of RE2")
        })?;
        Ok(Expression::Matches(text.boxed(), compiled))
    }

    fn check_time_part(
        &mut self,
        at: usize,
        name: &str,
        time: &Syntax,
        zone: Option<&Syntax>,
    ) -> Result<Expression, ConditionError> {
        let time = self.check(time)?;
        let Some(part) = time_part(name) else {
            return Err(unknown_function(at, true, name, 0));
        };
        if time.kind == Type::Duration {
            let has_part = matches!(
                part,
                TimePart::Hours | TimePart::Minutes | TimePart::Seconds | TimePart::Milliseconds
            );
            if !has_part || zone.is_some() {
                let message = format!("a duration has no `{name}` like this");
                let help = "a duration has `getHours()`, `getMinutes()`, `getSeconds()`";
                return Err(ConditionError::new(at, message, help));
            }
        } else {
            time.expect(Type::Time, &format!("the time of `{name}`"))?;
        }
        let zone = match zone {
            None => Zone::new(TimeZone::UTC, None),
            Some(zone) => {
                let zone = self.check(zone)?;
                let help = "write a name such as `'Europe/Berlin'`, or `'+02:00'`";
                let Some(name) = zone.constant_text() else {
                    let message = "this is not a time zone in quotes";
                    return Err(ConditionError::new(zone.at, message, help));
                };
                let time_zone = read_zone(name).ok_or_else(|| {
                    ConditionError::new(zone.at, format!("unknown time zone `{name}`"), help)
                })?;
                Zone::new(time_zone, Some(name))
            }
        };
        Ok(Expression::TimePart(part, time.boxed(), zone))
    }
}

/// A zone by its name, or by its offset from UTC: `+HH:MM` or `-HH:MM`.
fn read_zone(name: &str) -> Option<TimeZone> {
    let digits = name.strip_prefix(['+', '-']).unwrap_or(name);
    let Some((hours, minutes)) = digits.split_once(':') else {
        return match name {
            "UTC" | "Z" => Some(TimeZone::UTC),
            _ => TimeZone::get(name).ok(),
        };
    };
    let is_number = [hours, minutes]
        .into_iter()
        .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()));
    let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?);
    if !is_number || hours >= 24 || minutes >= 60 {
        return None;
    }
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let seconds = sign * (hours * 3600 + minutes * 60);
    let offset = jiff::tz::Offset::from_seconds(seconds).ok()?;
    Some(TimeZone::fixed(offset))
}

fn time_part(name: &str) -> Option<TimePart> {
    Some(match name {
        "getFullYear" => TimePart::FullYear,
        "getMonth" => TimePart::Month,
        "getDate" => TimePart::Date,
        "getDayOfMonth" => TimePart::DayOfMonth,
        "getDayOfWeek" => TimePart::DayOfWeek,
        "getDayOfYear" => TimePart::DayOfYear,
        "getHours" => TimePart::Hours,
        "getMinutes" => TimePart::Minutes,
        "getSeconds" => TimePart::Seconds,
        "getMilliseconds" => TimePart::Milliseconds,
        _ => return None,
    })
}

fn unknown_function(at: usize, is_method: bool, name: &str, arguments: usize) -> ConditionError {
    let dot = if is_method { "." } else { "" };
    if let Some((_, call)) = FUNCTIONS.iter().find(|(function, _)| *function == name) {
        let message = format!("`{dot}{name}()` is not called like this");
        return ConditionError::new(at, message, format!("write `{call}`"));
    }
    let plural = if arguments == 1 { "" } else { "s" };
    let message = format!("the function `{dot}{name}()` with {arguments} argument{plural}");
    let error = ConditionError::unsupported(at, &message);
    ConditionError { unknown: Some(name.to_owned()), ..error }
}
