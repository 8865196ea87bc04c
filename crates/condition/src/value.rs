//! The values of conditions, and how they compare.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::fault::Fault;
use crate::steps::{BYTES, Steps};

/// A value that does not depend on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// Text.
    Text(Arc<str>),
    /// A point in time.
    Time(Timestamp),
    /// A length of time.
    Duration(SignedDuration),
    /// An IP address.
    Ip(IpAddr),
    /// A list.
    List(Arc<[Constant]>),
    /// A claim that is a list, an object or `null`.
    Claim(Arc<serde_json::Value>),
}

/// Shows the value as CEL writes it.
impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::Text(text) => {
                f.write_str("'")?;
                for letter in text.chars() {
                    match letter {
                        '\\' | '\'' => write!(f, "\\{letter}")?,
                        '\n' => f.write_str("\\n")?,
                        '\r' => f.write_str("\\r")?,
                        _ => f.write_str(letter.encode_utf8(&mut [0; 4]))?,
                    }
                }
                f.write_str("'")
            }
            Self::Time(time) => write!(f, "timestamp('{time}')"),
            Self::Duration(duration) => {
                let sign = if duration.is_negative() { "-" } else { "" };
                let length = duration.unsigned_abs();
                let seconds = format!("{}.{:09}", length.as_secs(), length.subsec_nanos());
                let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
                write!(f, "duration('{sign}{seconds}s')")
            }
            Self::Ip(address) => write!(f, "ip('{address}')"),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Claim(claim) => claim.fmt(f),
        }
    }
}

/// A value during an evaluation. It borrows from the request, the caller or the condition.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// A point in time.
    Time(Timestamp),
    /// A length of time.
    Duration(SignedDuration),
    /// An IP address.
    Ip(IpAddr),
    /// A list of constants.
    Constants(&'a [Constant]),
    /// A list of names.
    Names(&'a [&'a str]),
    /// A list of values.
    List(Vec<Value<'a>>),
    /// A claim that is a list.
    ClaimList(&'a [serde_json::Value]),
    /// A claim that is an object, all claims, or an object of a question of AuthZEN.
    ClaimMap(&'a serde_json::Map<String, serde_json::Value>),
    /// A claim that is `null`. It equals nothing else.
    Null,
}

impl Constant {
    /// The same value, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Time(time) => Value::Time(*time),
            Self::Duration(duration) => Value::Duration(*duration),
            Self::Ip(address) => Value::Ip(*address),
            Self::List(items) => Value::Constants(items),
            Self::Claim(claim) => Value::from_claim(claim),
        }
    }

    /// The bytes that it has allocated on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 16,
            Self::List(items) => {
                items.iter().map(|item| size_of::<Self>() + item.heap_size()).sum::<usize>() + 16
            }
            Self::Claim(claim) => claim_size(claim),
            Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Time(_)
            | Self::Duration(_)
            | Self::Ip(_) => 0,
        }
    }
}

/// The memory of a claim. Parsed, it takes many times that of its text (`{"a":0}` takes 640 bytes).
#[must_use]
pub fn claim_size(claim: &serde_json::Value) -> usize {
    match claim {
        serde_json::Value::String(text) => size_of_val(claim) + text.len(),
        serde_json::Value::Array(items) => {
            size_of_val(claim) + items.iter().map(claim_size).sum::<usize>()
        }
        serde_json::Value::Object(members) => {
            let members = members.iter().map(|(name, member)| name.len() + claim_size(member));
            640 + members.sum::<usize>()
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            size_of_val(claim)
        }
    }
}

impl<'a> Value<'a> {
    /// The value of a claim.
    #[must_use]
    pub fn from_claim(claim: &'a serde_json::Value) -> Self {
        match claim {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::Text(Cow::Borrowed(text)),
            serde_json::Value::Array(items) => Self::ClaimList(items),
            serde_json::Value::Object(members) => Self::ClaimMap(members),
        }
    }

    /// The same value, which borrows nothing.
    #[must_use]
    pub fn to_constant(&self) -> Constant {
        match self {
            Self::Bool(value) => Constant::Bool(*value),
            Self::Int(value) => Constant::Int(*value),
            Self::Double(value) => Constant::Double(*value),
            Self::Text(text) => Constant::Text((&**text).into()),
            Self::Time(time) => Constant::Time(*time),
            Self::Duration(duration) => Constant::Duration(*duration),
            Self::Ip(address) => Constant::Ip(*address),
            Self::Constants(items) => Constant::List((*items).into()),
            Self::Names(names) => {
                Constant::List(names.iter().map(|name| Constant::Text((*name).into())).collect())
            }
            Self::List(items) => Constant::List(items.iter().map(Self::to_constant).collect()),
            Self::ClaimList(items) => Constant::Claim(Arc::new(items.to_vec().into())),
            Self::ClaimMap(members) => Constant::Claim(Arc::new((*members).clone().into())),
            Self::Null => Constant::Claim(Arc::new(serde_json::Value::Null)),
        }
    }

    /// The items of a list, or `None` for another value.
    pub(crate) fn items(&self) -> Option<Items<'_, 'a>> {
        self.item_count().map(|_| Items { list: self, next: 0 })
    }

    /// The number of items of a list, or `None` for another value.
    pub(crate) fn item_count(&self) -> Option<usize> {
        match self {
            Self::Constants(items) => Some(items.len()),
            Self::Names(names) => Some(names.len()),
            Self::List(items) => Some(items.len()),
            Self::ClaimList(items) => Some(items.len()),
            _ => None,
        }
    }

    /// The steps for copying it. The parts that were computed before determine whether a text or a
    /// list is borrowed or owned. The steps must not depend on that: they are the same for both.
    pub(crate) fn steps_to_copy(&self) -> usize {
        match self {
            Self::Text(text) => text.len() / BYTES,
            Self::List(items) => items.iter().map(|item| 1 + item.steps_to_copy()).sum(),
            Self::Constants(items) => {
                items.iter().map(|item| 1 + item.borrowed().steps_to_copy()).sum()
            }
            Self::Names(names) => names.iter().map(|name| 1 + name.len() / BYTES).sum(),
            _ => 0,
        }
    }

    /// The item with this index.
    pub(crate) fn item(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Constants(items) => items.get(index).map(Constant::borrowed),
            Self::Names(names) => names.get(index).map(|name| Self::Text(Cow::Borrowed(name))),
            Self::List(items) => items.get(index).cloned(),
            Self::ClaimList(items) => items.get(index).map(Self::from_claim),
            Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Text(_)
            | Self::Time(_)
            | Self::Duration(_)
            | Self::Ip(_)
            | Self::ClaimMap(_)
            | Self::Null => None,
        }
    }
}

/// The items of a list.
pub(crate) struct Items<'v, 'a> {
    list: &'v Value<'a>,
    next: usize,
}

impl<'a> Iterator for Items<'_, 'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.next += 1;
        self.list.item(self.next - 1)
    }
}

/// Whether two values are equal (CEL: *Equality*). Numbers compare as numbers, whatever their
/// types; other values of different types are not equal.
pub(crate) fn equals(
    left: &Value<'_>,
    right: &Value<'_>,
    steps: &mut Steps,
) -> Result<bool, Fault> {
    steps.take(1)?;
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => {
            steps.read(left.len().min(right.len()))?;
            left == right
        }
        (Value::Time(left), Value::Time(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Ip(left), Value::Ip(right)) => left == right,
        (Value::Null, Value::Null) => true,
        (Value::ClaimMap(left), Value::ClaimMap(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (name, member) in *left {
                let Some(other) = right.get(name) else { return Ok(false) };
                if !equals(&Value::from_claim(member), &Value::from_claim(other), steps)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
            order(left, right) == Some(Ordering::Equal)
        }
        _ => {
            let (Some(left), Some(right)) = (left.items(), right.items()) else { return Ok(false) };
            return lists_are_equal(left, right, steps);
        }
    })
}

fn lists_are_equal(
    mut left: Items<'_, '_>,
    mut right: Items<'_, '_>,
    steps: &mut Steps,
) -> Result<bool, Fault> {
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ok(true),
            (Some(left), Some(right)) => {
                steps.take(left.steps_to_copy() + right.steps_to_copy())?;
                if !equals(&left, &right, steps)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
}

/// The order of two values of a type that has an order; `None` for others and for `NaN`.
pub(crate) fn order(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Double(right)) => order_mixed(*left, *right),
        (Value::Double(left), Value::Int(right)) => {
            order_mixed(*right, *left).map(Ordering::reverse)
        }
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Time(left), Value::Time(right)) => Some(left.cmp(right)),
        (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Compares as numbers, without rounding: not every `i64` is an `f64`.
#[expect(clippy::cast_possible_truncation, reason = "in the range of i64, checked before")]
fn order_mixed(int: i64, double: f64) -> Option<Ordering> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        return None;
    }
    if double >= LIMIT {
        return Some(Ordering::Less);
    }
    if double < -LIMIT {
        return Some(Ordering::Greater);
    }
    let whole = double.trunc() as i64;
    Some(int.cmp(&whole).then_with(|| 0.0.partial_cmp(&double.fract()).unwrap_or(Ordering::Equal)))
}
