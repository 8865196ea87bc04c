//! Evaluates a condition by walking its tree.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};

use crate::expression::{
    Attribute, Comparison, Expression, QuestionPart, TextTest, TimePart, Zone,
};
use crate::fault::Fault;
use crate::query;
use crate::steps::{MAX_STEPS, Steps};
use crate::value::{Constant, Value, equals, order};

/// The header lines of a request.
pub trait Headers {
    /// The value of the header with this name. The name is in lower case.
    ///
    /// # Errors
    /// If the header is missing, or in several lines.
    fn header(&self, name: &str) -> Result<&[u8], Fault>;

    /// The number of lines. A look-up compares the name with each of them.
    fn count(&self) -> usize;
}

/// The claims of a caller without a token.
static NO_CLAIMS: LazyLock<serde_json::Map<String, serde_json::Value>> =
    LazyLock::new(serde_json::Map::new);

/// The variables, and what else an evaluation needs.
#[derive(Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// Those of the request.
    pub request: RequestInputs<'a>,
    /// Those of the caller. An expression does not need them if all its parts that read them are
    /// [`Expression::Cached`].
    pub caller: Option<&'a CallerInputs<'a>>,
    /// The values of [`Expression::Cached`].
    pub cached: &'a [CachedPart],
    /// The placeholders of the rule that matches.
    pub placeholders: Placeholders<'a>,
    /// The steps that all conditions of the request together may still take. At 0, an evaluation
    /// fails with [`Fault::TooLong`]. `None`: there is no such limit.
    pub steps_left: Option<&'a Cell<usize>>,
}

/// The value of a part of a condition that depends on the caller alone.
#[derive(Clone, Debug)]
pub struct CachedPart {
    /// The value.
    pub value: Result<Constant, Fault>,
    /// The steps that it took to compute it.
    steps: usize,
}

/// The variables of a request. One that is `None` is unknown.
#[derive(Clone, Copy, Default)]
pub struct RequestInputs<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The canonical host.
    pub host: &'a [u8],
    /// The canonical path, or another interpretation of it.
    pub path: &'a [u8],
    /// The query as received, without its `?`. It is empty if the request has none.
    pub query: Option<&'a [u8]>,
    /// The header lines.
    pub headers: Option<&'a dyn Headers>,
    /// The time of the decision, since 1970.
    pub time: Option<Timestamp>,
    /// The address of the client. An IPv4-mapped address counts as IPv4.
    pub client: Option<IpAddr>,
    /// The names of the client's certificate, as text, or why there are none.
    pub certificate: Option<Result<&'a [Constant], Fault>>,
    /// The question of AuthZEN that the request stands for.
    pub question: Option<&'a Question<'a>>,
}

/// The parts of a question of AuthZEN that only conditions read.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// There is no question: a proxy asks about a request.
    None,
    /// The objects of a question. An object that the question does not have is empty.
    Asked {
        /// `resource.properties`
        resource_properties: &'a serde_json::Map<String, serde_json::Value>,
        /// `action.properties`
        action_properties: &'a serde_json::Map<String, serde_json::Value>,
        /// `context`
        context: &'a serde_json::Map<String, serde_json::Value>,
    },
}

impl<'a> Question<'a> {
    /// # Errors
    /// Without a question, every part is absent. If the parts were empty objects instead,
    /// `!has(context.name)` would be true for each request of a proxy.
    fn part(&self, part: QuestionPart) -> Result<Value<'a>, Fault> {
        match *self {
            Self::None => Err(Fault::Absent),
            Self::Asked { resource_properties, action_properties, context } => {
                Ok(Value::ClaimMap(match part {
                    QuestionPart::ResourceProperties => resource_properties,
                    QuestionPart::ActionProperties => action_properties,
                    QuestionPart::Context => context,
                }))
            }
        }
    }
}

impl RequestInputs<'_> {
    /// No variables: the method, the host and the path are empty, all others are unknown.
    pub const NONE: Self = Self {
        method: b"",
        host: b"",
        path: b"",
        query: None,
        headers: None,
        time: None,
        client: None,
        certificate: None,
        question: None,
    };
}

/// The variables of a caller.
#[derive(Clone, Debug, Default)]
pub struct CallerInputs<'a> {
    /// The user name; `None` if it is anonymous.
    pub user: Option<&'a str>,
    /// The roles that it has without a condition, except the reserved roles.
    pub roles: Vec<&'a str>,
    /// The groups.
    pub groups: Vec<&'a str>,
    /// The issuer of its token.
    pub issuer: Option<&'a str>,
    /// The scheme of its credentials.
    pub scheme: Option<&'a str>,
    /// The claims of its token.
    pub claims: CallerClaims<'a>,
}

/// The claims of a caller.
#[derive(Clone, Copy, Debug, Default)]
pub enum CallerClaims<'a> {
    /// The caller has no token.
    #[default]
    None,
    /// Those of its token.
    Known(&'a serde_json::Map<String, serde_json::Value>),
    /// The caller has a token, but the evaluation does not know its claims.
    Unknown,
}

/// The placeholders of a rule, and their places in the request.
#[derive(Clone, Copy, Default)]
pub struct Placeholders<'a> {
    /// Each placeholder of the path, and the index of its segment.
    pub path: &'a [(Arc<str>, usize)],
    /// Each placeholder of the host, and the index of its label.
    pub host: &'a [(Arc<str>, usize)],
}

/// Whether a condition is true; `None` if that cannot be computed.
#[must_use]
pub fn holds(condition: &Expression, inputs: &Inputs<'_>) -> Option<bool> {
    match evaluate(condition, inputs) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

/// Evaluates an expression.
///
/// # Errors
/// If it has no value: see [`Fault`].
pub fn evaluate<'a>(expression: &'a Expression, inputs: &Inputs<'a>) -> Result<Value<'a>, Fault> {
    evaluate_counted(expression, inputs).0
}

/// The value of an expression, and the steps that it took.
fn evaluate_counted<'a>(
    expression: &'a Expression,
    inputs: &Inputs<'a>,
) -> (Result<Value<'a>, Fault>, usize) {
    if inputs.steps_left.is_some_and(|steps| steps.get() == 0) {
        return (Err(Fault::TooLong), 0);
    }
    let mut evaluation = Evaluation { inputs, items: Vec::new(), steps: Steps::default() };
    let value = evaluation.evaluate(expression);
    let Steps { taken, .. } = evaluation.steps;
    if let Some(left) = inputs.steps_left {
        // `taken` also counts the steps that went over the limit, which were refused.
        left.set(left.get().saturating_sub(taken.min(MAX_STEPS)));
    }
    // Over the limit, there may still be a value, because another operand decided. It does not
    // count: the order in which operands are computed must not matter.
    (evaluation.steps.within_limit().and(value), taken)
}

impl CachedPart {
    pub(crate) fn new(part: &Expression, inputs: &Inputs<'_>) -> Self {
        let (value, steps) = evaluate_counted(part, inputs);
        Self { value: value.map(|value| value.to_constant()), steps }
    }
}

/// A value that took no steps.
impl From<Result<Constant, Fault>> for CachedPart {
    fn from(value: Result<Constant, Fault>) -> Self {
        Self { value, steps: 0 }
    }
}

struct Evaluation<'i, 'a> {
    inputs: &'i Inputs<'a>,
    /// The items of the `exists` and `all` around the current part, the innermost last.
    items: Vec<Value<'a>>,
    steps: Steps,
}

impl<'a> Evaluation<'_, 'a> {
    fn evaluate(&mut self, expression: &'a Expression) -> Result<Value<'a>, Fault> {
        if !matches!(expression, Expression::Cached(_)) {
            self.steps.take(1)?;
        }
        match expression {
            Expression::Cached(place) => {
                let part = self.inputs.cached.get(*place).ok_or(Fault::Unknown)?;
                self.steps.add_before(part.steps)?;
                part.value.as_ref().map(Constant::borrowed).map_err(|fault| *fault)
            }
            Expression::Constant(constant) => Ok(constant.borrowed()),
            Expression::List(items) => {
                let items: Result<_, _> = items.iter().map(|item| self.evaluate(item)).collect();
                Ok(Value::List(items?))
            }
            Expression::Attribute(attribute) => self.attribute(attribute),
            Expression::IsPresent(attribute) => match self.attribute(attribute) {
                Err(Fault::Absent) => Ok(Value::Bool(false)),
                Err(fault @ (Fault::Unknown | Fault::TooLong)) => Err(fault),
                Ok(_) | Err(Fault::Repeated | Fault::Type | Fault::Malformed) => {
                    Ok(Value::Bool(true))
                }
            },
            Expression::Item(level) => {
                let index = self.items.len().checked_sub(1 + level).ok_or(Fault::Absent)?;
                let item = self.items.get(index).ok_or(Fault::Absent)?;
                self.steps.take(item.steps_to_copy())?;
                Ok(item.clone())
            }
            Expression::Member(object, name) => member(&self.evaluate(object)?, name),
            Expression::HasMember(object, name) => match self.evaluate(object)? {
                Value::ClaimMap(members) => Ok(Value::Bool(members.contains_key(&**name))),
                _ => Err(Fault::Type),
            },
            Expression::Index(list, index) => {
                let (list, index) = (self.evaluate(list)?, self.evaluate(index)?);
                match index {
                    Value::Text(name) => member(&list, &name),
                    Value::Int(index) => {
                        let index = usize::try_from(index).map_err(|_| Fault::Absent)?;
                        list.items().ok_or(Fault::Type)?;
                        list.item(index).ok_or(Fault::Absent)
                    }
                    _ => Err(Fault::Type),
                }
            }
            Expression::Not(operand) => Ok(Value::Bool(!self.truth(operand)?)),
            Expression::And(left, right) => self.join(left, right, false),
            Expression::Or(left, right) => self.join(left, right, true),
            Expression::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                let chosen = if self.truth(condition)? { then } else { otherwise };
                self.evaluate(chosen)
            }
            Expression::Compare(comparison, left, right) => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                compare(*comparison, &left, &right, &mut self.steps).map(Value::Bool)
            }
            Expression::In(item, list) => {
                let (item, list) = (self.evaluate(item)?, self.evaluate(list)?);
                self.is_in(&item, &list).map(Value::Bool)
            }
            Expression::TextTest(test, text, part) => {
                let (text, part) = (self.text(text)?, self.text(part)?);
                self.steps.read(text.len() + part.len())?;
                Ok(Value::Bool(match test {
                    TextTest::StartsWith => text.starts_with(&*part),
                    TextTest::EndsWith => text.ends_with(&*part),
                    TextTest::Contains => text.contains(&*part),
                }))
            }
            Expression::Matches(text, pattern) => {
                let text = self.text(text)?;
                self.steps.take(pattern.steps(text.len()))?;
                Ok(Value::Bool(pattern.matches(&text)))
            }
            Expression::Size(value) => {
                let value = self.evaluate(value)?;
                self.read(&value)?;
                size(&value).map(Value::Int)
            }
            Expression::LowerAscii(text) => {
                let text = self.text(text)?;
                self.steps.read(2 * text.len())?;
                let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
                Ok(Value::Text(if is_lower { text } else { text.to_ascii_lowercase().into() }))
            }
            Expression::Timestamp(value) => {
                let value = self.evaluate(value)?;
                self.read(&value)?;
                timestamp(&value).map(Value::Time)
            }
            Expression::Duration(value) => match self.evaluate(value)? {
                Value::Text(text) => {
                    // The text may have a number and a unit in each two bytes.
                    self.steps.read(16 * text.len())?;
                    duration(&text).map(Value::Duration).ok_or(Fault::Malformed)
                }
                value @ Value::Duration(_) => Ok(value),
                _ => Err(Fault::Type),
            },
            Expression::Ip(value) => match self.evaluate(value)? {
                Value::Text(text) => {
                    self.steps.read(text.len())?;
                    address(&text).map(Value::Ip).ok_or(Fault::Malformed)
                }
                value @ Value::Ip(_) => Ok(value),
                _ => Err(Fault::Type),
            },
            Expression::ContainsIp(network, address) => match self.evaluate(address)? {
                Value::Ip(address) => Ok(Value::Bool(network.contains(address))),
                _ => Err(Fault::Type),
            },
            Expression::TimePart(part, time, zone) => {
                let time = self.evaluate(time)?;
                time_part(*part, &time, zone).map(Value::Int)
            }
            Expression::Exists(list, predicate) => self.quantify(list, predicate, true),
            Expression::All(list, predicate) => self.quantify(list, predicate, false),
            Expression::IsClaim(placeholder, claim) => {
                let claim = self.evaluate(claim);
                match claim {
                    Err(fault @ (Fault::Unknown | Fault::TooLong)) => Err(fault),
                    claim => self.is_claim(placeholder, &claim).map(Value::Bool),
                }
            }
        }
    }

    fn truth(&mut self, expression: &'a Expression) -> Result<bool, Fault> {
        match self.evaluate(expression)? {
            Value::Bool(truth) => Ok(truth),
            _ => Err(Fault::Type),
        }
    }

    fn text(&mut self, expression: &'a Expression) -> Result<Cow<'a, str>, Fault> {
        match self.evaluate(expression)? {
            Value::Text(text) => Ok(text),
            _ => Err(Fault::Type),
        }
    }

    /// Takes the steps for reading a text. Other values take none: a list knows its length.
    fn read(&mut self, value: &Value<'_>) -> Result<(), Fault> {
        match value {
            Value::Text(text) => self.steps.read(text.len()),
            _ => Ok(()),
        }
    }

    /// `&&` and `||`: an operand with the value `deciding` decides, whatever the other is.
    fn join(
        &mut self,
        left: &'a Expression,
        right: &'a Expression,
        deciding: bool,
    ) -> Result<Value<'a>, Fault> {
        let left = self.truth(left);
        if left == Ok(deciding) {
            return Ok(Value::Bool(deciding));
        }
        let right = self.truth(right);
        if right == Ok(deciding) {
            return Ok(Value::Bool(deciding));
        }
        left.and(right).map(Value::Bool)
    }

    /// `exists` and `all`: an item for which the predicate is `deciding` decides.
    fn quantify(
        &mut self,
        list: &'a Expression,
        predicate: &'a Expression,
        deciding: bool,
    ) -> Result<Value<'a>, Fault> {
        let list = self.evaluate(list)?;
        let mut fault = None;
        for item in list.items().ok_or(Fault::Type)? {
            self.steps.take(1 + item.steps_to_copy())?;
            self.items.push(item);
            let truth = self.truth(predicate);
            self.items.pop();
            match truth {
                Ok(truth) if truth == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                Err(error) => fault = Some(error),
            }
        }
        fault.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn is_in(&mut self, item: &Value<'_>, list: &Value<'_>) -> Result<bool, Fault> {
        if let (Value::ClaimMap(members), Value::Text(name)) = (list, item) {
            return Ok(members.contains_key(&**name));
        }
        for other in list.items().ok_or(Fault::Type)? {
            self.steps.take(other.steps_to_copy())?;
            if equals(item, &other, &mut self.steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn attribute(&mut self, attribute: &Attribute) -> Result<Value<'a>, Fault> {
        let Inputs { request, caller, placeholders, .. } = *self.inputs;
        let known_caller = caller.ok_or(Fault::Unknown);
        match attribute {
            Attribute::Method => self.request_text(request.method),
            Attribute::Host => self.request_text(request.host),
            Attribute::Path => self.request_text(request.path),
            Attribute::Header(name) => {
                let headers = request.headers.ok_or(Fault::Unknown)?;
                self.steps.take(headers.count() / LINES_PER_STEP)?;
                self.request_text(headers.header(name)?)
            }
            Attribute::Query(name) => {
                let query = request.query.ok_or(Fault::Unknown)?;
                // The look-up compares byte by byte, which costs more than reading a text.
                self.steps.read(8 * query.len())?;
                query::parameter(query, name).map(Value::Text)
            }
            Attribute::Time => request.time.map(Value::Time).ok_or(Fault::Unknown),
            Attribute::SourceIp => {
                request.client.map(|ip| Value::Ip(ip.to_canonical())).ok_or(Fault::Unknown)
            }
            Attribute::Certificate => {
                request.certificate.ok_or(Fault::Unknown)?.map(Value::Constants)
            }
            Attribute::User => known_caller?.user.map(borrowed).ok_or(Fault::Absent),
            Attribute::Roles => Ok(Value::Names(&known_caller?.roles)),
            Attribute::Groups => Ok(Value::Names(&known_caller?.groups)),
            Attribute::Issuer => known_caller?.issuer.map(borrowed).ok_or(Fault::Absent),
            Attribute::Scheme => known_caller?.scheme.map(borrowed).ok_or(Fault::Absent),
            Attribute::Claims => match known_caller?.claims {
                CallerClaims::None => Ok(Value::ClaimMap(&NO_CLAIMS)),
                CallerClaims::Known(claims) => Ok(Value::ClaimMap(claims)),
                CallerClaims::Unknown => Err(Fault::Unknown),
            },
            Attribute::PathPlaceholder(name) => {
                self.steps.read(request.path.len())?;
                segment(request, only_place(placeholders.path, name)?)
            }
            Attribute::HostPlaceholder(name) => {
                label(request, only_place(placeholders.host, name)?)
            }
            Attribute::Question(part) => request.question.ok_or(Fault::Unknown)?.part(*part),
        }
    }

    fn request_text(&mut self, bytes: &'a [u8]) -> Result<Value<'a>, Fault> {
        self.steps.read(bytes.len())?;
        text(bytes)
    }

    /// Whether each placeholder with this name has the claim as its value. An empty claim, `.` and
    /// `..` never count. True if the matching pattern has no such placeholder: then another pattern
    /// of the rule has it.
    fn is_claim(
        &mut self,
        placeholder: &Attribute,
        claim: &Result<Value<'_>, Fault>,
    ) -> Result<bool, Fault> {
        let Inputs { request, placeholders, .. } = *self.inputs;
        let (places, name, whole) = match placeholder {
            Attribute::PathPlaceholder(name) => (placeholders.path, name, request.path),
            Attribute::HostPlaceholder(name) => (placeholders.host, name, request.host),
            _ => return Ok(false),
        };
        let is_path = matches!(placeholder, Attribute::PathPlaceholder(_));
        self.steps.read(places.len() * whole.len())?;
        Ok(places.iter().filter(|(placeholder, _)| placeholder == name).all(|(_, place)| {
            let value = if is_path { segment(request, *place) } else { label(request, *place) };
            matches!((value, claim), (Ok(Value::Text(value)), Ok(Value::Text(claim)))
                if value == *claim && may_be_claim(&value))
        }))
    }
}

/// Whether the value of a placeholder may be that of a claim.
pub(crate) fn may_be_claim(value: &str) -> bool {
    !matches!(value, "" | "." | "..")
}

/// The number of header lines that a look-up reads in one step.
const LINES_PER_STEP: usize = 16;

fn borrowed(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn text(bytes: &[u8]) -> Result<Value<'_>, Fault> {
    std::str::from_utf8(bytes).map(borrowed).map_err(|_| Fault::Malformed)
}

/// The place of the only placeholder with this name.
fn only_place(placeholders: &[(Arc<str>, usize)], name: &str) -> Result<usize, Fault> {
    let mut places = placeholders.iter().filter(|(placeholder, _)| **placeholder == *name);
    match (places.next(), places.next()) {
        (Some((_, place)), None) => Ok(*place),
        (Some(_), Some(_)) => Err(Fault::Repeated),
        (None, _) => Err(Fault::Absent),
    }
}

/// A segment of the path, decoded.
fn segment(request: RequestInputs<'_>, place: usize) -> Result<Value<'_>, Fault> {
    let path = request.path.strip_prefix(b"/").unwrap_or(request.path);
    let segment = path.split(|byte| *byte == b'/').nth(place).ok_or(Fault::Absent)?;
    query::decoded(segment).map(Value::Text)
}

/// A label of the host.
fn label(request: RequestInputs<'_>, place: usize) -> Result<Value<'_>, Fault> {
    text(request.host.split(|byte| *byte == b'.').nth(place).ok_or(Fault::Absent)?)
}

fn member<'a>(object: &Value<'a>, name: &str) -> Result<Value<'a>, Fault> {
    match object {
        Value::ClaimMap(members) => members.get(name).map(Value::from_claim).ok_or(Fault::Absent),
        _ => Err(Fault::Type),
    }
}

fn compare(
    comparison: Comparison,
    left: &Value<'_>,
    right: &Value<'_>,
    steps: &mut Steps,
) -> Result<bool, Fault> {
    let accepted: &[Ordering] = match comparison {
        Comparison::Equal => return equals(left, right, steps),
        Comparison::NotEqual => return equals(left, right, steps).map(|are_equal| !are_equal),
        Comparison::Less => &[Ordering::Less],
        Comparison::AtMost => &[Ordering::Less, Ordering::Equal],
        Comparison::Greater => &[Ordering::Greater],
        Comparison::AtLeast => &[Ordering::Greater, Ordering::Equal],
    };
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        steps.read(left.len().min(right.len()))?;
    }
    match order(left, right) {
        Some(order) => Ok(accepted.contains(&order)),
        // `NaN` is neither less nor greater.
        None if matches!(left, Value::Double(_)) || matches!(right, Value::Double(_)) => {
            let are_numbers = [left, right]
                .into_iter()
                .all(|value| matches!(value, Value::Int(_) | Value::Double(_)));
            if are_numbers { Ok(false) } else { Err(Fault::Type) }
        }
        None => Err(Fault::Type),
    }
}

fn size(value: &Value<'_>) -> Result<i64, Fault> {
    let size = match value {
        Value::Text(text) => text.chars().count(),
        Value::ClaimMap(members) => members.len(),
        _ => value.item_count().ok_or(Fault::Type)?,
    };
    i64::try_from(size).map_err(|_| Fault::Malformed)
}

/// An address. An IPv4-mapped address counts as IPv4. If it is written with dots
/// (`::ffff:192.0.2.1`), it is malformed, as in CEL.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    let is_mixed = text.contains(':') && text.contains('.');
    text.parse().ok().filter(|_| !is_mixed).map(|address: IpAddr| address.to_canonical())
}

/// A time in the years that CEL has: 1 to 9999.
fn timestamp(value: &Value<'_>) -> Result<Timestamp, Fault> {
    let time = match value {
        Value::Text(text) if is_rfc3339(text) => text.parse().map_err(|_| Fault::Malformed)?,
        Value::Text(_) => return Err(Fault::Malformed),
        Value::Int(seconds) => Timestamp::from_second(*seconds).map_err(|_| Fault::Malformed)?,
        Value::Time(time) => *time,
        _ => return Err(Fault::Type),
    };
    let year = time.to_zoned(jiff::tz::TimeZone::UTC).year();
    if (1..=9999).contains(&year) { Ok(time) } else { Err(Fault::Malformed) }
}

/// Whether a text has the form of RFC 3339, 5.6. `jiff` reads other forms, too.
fn is_rfc3339(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some((time, end)) = time.split_at_checked(8) else { return false };
    let offset = match end.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => end,
    };
    has_form(date, "0000-00-00")
        && has_form(time, "00:00:00")
        && (offset.eq_ignore_ascii_case("Z")
            || offset.strip_prefix(['+', '-']).is_some_and(|offset| has_form(offset, "00:00")))
}

/// Whether a text has a digit where the form has `0`, and elsewhere the same character as the form.
fn has_form(text: &str, form: &str) -> bool {
    let mut pairs = text.bytes().zip(form.bytes());
    text.len() == form.len()
        && pairs.all(|(byte, form)| if form == b'0' { byte.is_ascii_digit() } else { byte == form })
}

/// A duration as Go writes it: numbers with units, such as `-1h30m` or `1.5s`.
fn duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    /// 10,000 years, as in Protocol Buffers.
    const MAX_SECONDS: i64 = 315_576_000_000;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut nanoseconds: i128 = 0;
    let mut remainder = unsigned;
    match unsigned {
        "" => return None,
        "0" => return Some(SignedDuration::ZERO),
        _ => {}
    }
    while !remainder.is_empty() {
        let end = remainder.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = remainder.split_at_checked(end)?;
        let unit_end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = after.split_at_checked(unit_end.unwrap_or(after.len()))?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut scale = i128::from(*factor);
        nanoseconds = nanoseconds.checked_add(whole.checked_mul(scale)?)?;
        for digit in fraction.chars() {
            scale /= 10;
            let part = scale * i128::from(digit.to_digit(10)?);
            nanoseconds = nanoseconds.checked_add(part)?;
        }
        remainder = after;
    }
    let signed = if text.starts_with('-') { -nanoseconds } else { nanoseconds };
    let is_small = signed.abs() <= i128::from(MAX_SECONDS) * 1_000_000_000;
    is_small.then(|| SignedDuration::from_nanos_i128(signed))
}

fn time_part(part: TimePart, time: &Value<'_>, zone: &Zone) -> Result<i64, Fault> {
    let time = match time {
        Value::Time(time) => zone.to_datetime(*time),
        Value::Duration(duration) => {
            return match part {
                TimePart::Hours => Ok(duration.as_hours()),
                TimePart::Minutes => Ok(duration.as_mins()),
                TimePart::Seconds => Ok(duration.as_secs()),
                TimePart::Milliseconds => Ok(i64::from(duration.subsec_millis())),
                _ => Err(Fault::Type),
            };
        }
        _ => return Err(Fault::Type),
    };
    Ok(match part {
        TimePart::FullYear => time.year().into(),
        TimePart::Month => i64::from(time.month()) - 1,
        TimePart::Date => time.day().into(),
        TimePart::DayOfMonth => i64::from(time.day()) - 1,
        TimePart::DayOfWeek => time.weekday().to_sunday_zero_offset().into(),
        TimePart::DayOfYear => i64::from(time.day_of_year()) - 1,
        TimePart::Hours => time.hour().into(),
        TimePart::Minutes => time.minute().into(),
        TimePart::Seconds => time.second().into(),
        TimePart::Milliseconds => time.millisecond().into(),
    })
}
