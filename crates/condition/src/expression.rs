//! A condition after its names and types are checked.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::pattern::Pattern;
use crate::value::Constant;

/// An expression. Its types are checked, except those of claims and of items of lists. Only these
/// can have a value of the wrong type, which is a [`crate::Fault::Type`] in the evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A value that is written in the condition.
    Constant(Constant),
    /// A list with values that depend on the request.
    List(Vec<Expression>),
    /// A variable.
    Attribute(Attribute),
    /// Whether a header, a parameter of the query or a placeholder is there.
    IsPresent(Attribute),
    /// The item that an `exists` or `all` around this looks at; 0 is the innermost of these.
    Item(usize),
    /// A member of an object among the claims.
    Member(Box<Expression>, Arc<str>),
    /// Whether an object among the claims has a member.
    HasMember(Box<Expression>, Arc<str>),
    /// An item of a list, or a member of an object.
    Index(Box<Expression>, Box<Expression>),
    /// `!a`
    Not(Box<Expression>),
    /// `a && b`: false if either is false, even if the other cannot be computed.
    And(Box<Expression>, Box<Expression>),
    /// `a || b`: true if either is true, even if the other cannot be computed.
    Or(Box<Expression>, Box<Expression>),
    /// `a ? b : c`
    Conditional(Box<[Expression; 3]>),
    /// `a < b` and the like.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// `a in list`, or `name in object`.
    In(Box<Expression>, Box<Expression>),
    /// A test of a text by another text.
    TextTest(TextTest, Box<Expression>, Box<Expression>),
    /// `text.matches('…')`
    Matches(Box<Expression>, Pattern),
    /// The number of characters, items or members.
    Size(Box<Expression>),
    /// A text with its ASCII letters in lower case.
    LowerAscii(Box<Expression>),
    /// `timestamp(text)` (RFC 3339), or `timestamp(number)`: seconds since 1970.
    Timestamp(Box<Expression>),
    /// `duration(text)`, such as `1h30m`.
    Duration(Box<Expression>),
    /// `ip(text)`
    Ip(Box<Expression>),
    /// `cidr(text).containsIP(address)`
    ContainsIp(Network, Box<Expression>),
    /// A part of a time, such as its hour in a time zone.
    TimePart(TimePart, Box<Expression>, Zone),
    /// Whether the second expression is true for some item of the first.
    Exists(Box<Expression>, Box<Expression>),
    /// Whether the second expression is true for each item of the first.
    All(Box<Expression>, Box<Expression>),
    /// Whether the value of a placeholder is that of a claim: `{claims.…}` in a pattern requires
    /// this. A missing claim is no error: the rule matches nothing then.
    IsClaim(Attribute, Box<Expression>),
    /// The value of an expression that depends on the caller alone: see [`crate::CallerParts`].
    Cached(usize),
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// `request.method`
    Method,
    /// `request.host`, in canonical form
    Host,
    /// `request.path`, in canonical form, without the query
    Path,
    /// `request.headers[name]`; the name is in lower case
    Header(Arc<str>),
    /// `request.query[name]`
    Query(Arc<str>),
    /// `request.time`
    Time,
    /// `source.ip`
    SourceIp,
    /// `source.certificate`: the names of the client's certificate
    Certificate,
    /// `user`
    User,
    /// `roles`
    Roles,
    /// `groups`
    Groups,
    /// `issuer`
    Issuer,
    /// `scheme`
    Scheme,
    /// `claims`
    Claims,
    /// `path.NAME`: the segment at a placeholder, decoded
    PathPlaceholder(Arc<str>),
    /// `host.NAME`: the label at a placeholder
    HostPlaceholder(Arc<str>),
    /// A part of a question of AuthZEN
    Question(QuestionPart),
}

/// A part of a question of AuthZEN that conditions read. Requests of proxies have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuestionPart {
    /// `resource.properties`
    ResourceProperties,
    /// `action.properties`
    ActionProperties,
    /// `context`
    Context,
}

/// An operator that compares two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// A test of a text by another text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTest {
    /// `startsWith`
    StartsWith,
    /// `endsWith`
    EndsWith,
    /// `contains`
    Contains,
}

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address of it.
    pub address: std::net::IpAddr,
    /// The number of bits that its addresses share.
    pub prefix: u8,
}

/// A part of a time or of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// `getFullYear`
    FullYear,
    /// `getMonth`, from 0
    Month,
    /// `getDate`: the day of the month, from 1
    Date,
    /// `getDayOfMonth`, from 0
    DayOfMonth,
    /// `getDayOfWeek`, from 0, which is Sunday
    DayOfWeek,
    /// `getDayOfYear`, from 0
    DayOfYear,
    /// `getHours`
    Hours,
    /// `getMinutes`
    Minutes,
    /// `getSeconds`
    Seconds,
    /// `getMilliseconds`
    Milliseconds,
}

/// A time zone, with its name; UTC if it has no name.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    zone: TimeZone,
    name: Option<Box<str>>,
    /// The changes of its offset from UTC from 2025 to 2045, in order: the second since 1970 at
    /// which each offset begins.
    offsets: Arc<[(i64, Offset)]>,
}

impl Zone {
    pub(crate) fn new(zone: TimeZone, name: Option<&str>) -> Self {
        const START: Timestamp = Timestamp::constant(1_735_689_600, 0);
        const END: Timestamp = Timestamp::constant(2_366_841_600, 0);
        let changes = zone.following(START).take_while(|change| change.timestamp() <= END);
        let offsets = changes.map(|change| (change.timestamp().as_second(), change.offset()));
        Self { offsets: offsets.collect(), zone, name: name.map(Into::into) }
    }

    /// The date and the time of day. Looks up the offset in a table, since the time zone computes
    /// it from the rules of its summer time, which takes 150 ns (November 2026).
    pub(crate) fn to_datetime(&self, time: Timestamp) -> DateTime {
        let second = time.as_second();
        let next = self.offsets.partition_point(|(start, _)| *start <= second);
        let current = next.checked_sub(1).and_then(|current| self.offsets.get(current));
        match (current, self.offsets.get(next)) {
            (Some((_, offset)), Some(_)) => offset.to_datetime(time),
            // The time is not between two changes of the table.
            _ => self.zone.to_datetime(time),
        }
    }

    /// The name, as written.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Network {
    /// Reads `10.0.0.0/8`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: std::net::IpAddr = address.parse().ok()?;
        // IPv4-mapped addresses count as IPv4, so no address is in an IPv4-mapped network.
        if address.to_canonical() != address {
            return None;
        }
        let is_number = !prefix.starts_with('+') && (prefix == "0" || !prefix.starts_with('0'));
        let prefix: u8 = prefix.parse().ok().filter(|_| is_number)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= bits).then_some(Self { address, prefix })
    }

    /// Whether an address is in this network. An IPv4 address is in no IPv6 network.
    #[must_use]
    pub fn contains(&self, address: std::net::IpAddr) -> bool {
        let shared_bits = match (self.address, address) {
            (std::net::IpAddr::V4(ours), std::net::IpAddr::V4(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros()
            }
            (std::net::IpAddr::V6(ours), std::net::IpAddr::V6(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros()
            }
            (std::net::IpAddr::V4(_), std::net::IpAddr::V6(_))
            | (std::net::IpAddr::V6(_), std::net::IpAddr::V4(_)) => return false,
        };
        shared_bits >= u32::from(self.prefix)
    }
}

impl Attribute {
    /// Whether it depends on the caller alone, so that its value is the same for all its requests.
    #[must_use]
    pub fn is_of_caller(&self) -> bool {
        match self {
            Self::User
            | Self::Roles
            | Self::Groups
            | Self::Issuer
            | Self::Scheme
            | Self::Claims => true,
            Self::Method
            | Self::Host
            | Self::Path
            | Self::Header(_)
            | Self::Query(_)
            | Self::Time
            | Self::SourceIp
            | Self::Certificate
            | Self::PathPlaceholder(_)
            | Self::HostPlaceholder(_)
            | Self::Question(_) => false,
        }
    }

    /// Whether its value depends on the pattern of the rule that matches.
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        matches!(self, Self::PathPlaceholder(_) | Self::HostPlaceholder(_))
    }
}

/// The parts of an expression: `iter` borrows them, `iter_mut` mutably.
macro_rules! parts {
    ($expression:expr, $iter:ident) => {
        match $expression {
            Expression::Constant(_)
            | Expression::Attribute(_)
            | Expression::IsPresent(_)
            | Expression::Item(_)
            | Expression::Cached(_) => Vec::new(),
            Expression::List(items) => items.$iter().collect(),
            Expression::Conditional(parts) => parts.$iter().collect(),
            Expression::Member(inner, _)
            | Expression::HasMember(inner, _)
            | Expression::Not(inner)
            | Expression::Matches(inner, _)
            | Expression::Size(inner)
            | Expression::LowerAscii(inner)
            | Expression::Timestamp(inner)
            | Expression::Duration(inner)
            | Expression::Ip(inner)
            | Expression::ContainsIp(_, inner)
            | Expression::TimePart(_, inner, _)
            | Expression::IsClaim(_, inner) => vec![inner],
            Expression::Index(left, right)
            | Expression::And(left, right)
            | Expression::Or(left, right)
            | Expression::Compare(_, left, right)
            | Expression::In(left, right)
            | Expression::TextTest(_, left, right)
            | Expression::Exists(left, right)
            | Expression::All(left, right) => vec![left, right],
        }
    };
}

impl Expression {
    /// The expressions that this consists of, from left to right.
    #[must_use]
    pub fn parts(&self) -> Vec<&Self> {
        parts!(self, iter)
    }

    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Self> {
        parts!(self, iter_mut)
    }

    /// The variables in it, each as often as it occurs.
    #[must_use]
    pub fn attributes(&self) -> Vec<&Attribute> {
        let mut found = Vec::new();
        self.collect_attributes(&mut found);
        found
    }

    fn collect_attributes<'e>(&'e self, found: &mut Vec<&'e Attribute>) {
        match self {
            Self::Attribute(attribute)
            | Self::IsPresent(attribute)
            | Self::IsClaim(attribute, _) => {
                found.push(attribute);
            }
            _ => {}
        }
        for part in self.parts() {
            part.collect_attributes(found);
        }
    }

    /// The number of parts that `&&`, `||`, `!`, `?:`, `exists` and `all` join.
    pub(crate) fn comparisons(&self) -> usize {
        match self {
            Self::Not(_)
            | Self::And(..)
            | Self::Or(..)
            | Self::Conditional(_)
            | Self::Exists(..)
            | Self::All(..) => self.parts().into_iter().map(Self::comparisons).sum(),
            _ => 1,
        }
    }

    /// The number of expressions in it: itself, its parts, their parts and so on.
    pub(crate) fn size(&self) -> usize {
        1 + self.parts().into_iter().map(Self::size).sum::<usize>()
    }

    /// This expression, with each part replaced for which `replacement` returns an expression. The
    /// parts of a replaced part are not visited.
    #[must_use]
    pub fn replaced(&self, replacement: &mut dyn FnMut(&Self) -> Option<Self>) -> Self {
        if let Some(replaced) = replacement(self) {
            return replaced;
        }
        let mut copy = self.clone();
        for part in copy.parts_mut() {
            *part = part.replaced(replacement);
        }
        copy
    }

    /// Whether it depends on the caller, and on nothing else.
    fn is_of_caller(&self) -> bool {
        let attributes = self.attributes();
        !attributes.is_empty()
            && attributes.into_iter().all(Attribute::is_of_caller)
            && !self.has_outer_item(0)
    }

    /// Whether it uses an item of an `exists` or `all` around it, other than the `depth` innermost.
    fn has_outer_item(&self, depth: usize) -> bool {
        match self {
            Self::Item(level) => *level >= depth,
            Self::Exists(list, predicate) | Self::All(list, predicate) => {
                list.has_outer_item(depth) || predicate.has_outer_item(depth + 1)
            }
            _ => self.parts().into_iter().any(|part| part.has_outer_item(depth)),
        }
    }

    /// Replaces the largest parts that depend on the caller alone by their indices.
    pub(crate) fn cache_parts(&mut self, index: &mut dyn FnMut(&Self) -> usize) {
        if self.is_of_caller() {
            *self = Self::Cached(index(self));
            return;
        }
        for part in self.parts_mut() {
            part.cache_parts(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_offsets_is_that_of_the_time_zone() {
        for name in ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            let zone = TimeZone::get(name).unwrap();
            let table = Zone::new(zone.clone(), Some(name));
            let changes = table.offsets.iter().map(|(start, _)| *start);
            let seconds =
                changes.flat_map(|start| [start - 1, start, start + 1, start + 5_000_000]);
            for second in seconds.chain([0, 1_700_000_000, 4_000_000_000]) {
                let time = Timestamp::from_second(second).unwrap();
                assert_eq!(table.to_datetime(time), zone.to_datetime(time), "{name}: {time}");
            }
        }
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(Zone::new(berlin, None).offsets.len(), 40);
    }
}
