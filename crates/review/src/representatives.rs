//! Representatives of all values that a part of a condition can have. The part is compared with
//! constants. For each combination of truths that these comparisons can have, a representative has
//! this combination.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use condition::{Attribute, Constant, Expression, Fault, Network, TextTest, TimePart, Timestamp};
use jiff::SignedDuration;

/// The name of a placeholder without a value: the pattern does not have it, or has it twice.
pub(crate) const NO_PLACE: &str = "/";

/// The maximum number of representatives of one part.
const MAX_STATES: usize = 4096;

/// The values that a part of a condition can have, where it has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Universe {
    /// True or false, and never without a value.
    Truth,
    /// Never a value.
    Nothing,
    Text,
    Whole(RangeInclusive<i64>),
    Time,
    Duration,
    Address,
    /// Whatever a claim can be.
    Claim,
    /// Anything.
    Any,
}

/// What a part of a condition evaluates to, and what a test whether it is there (`has`) gives.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) value: Result<Constant, Fault>,
    pub(crate) presence: Result<bool, Fault>,
}

/// The constants with which a part of a condition is compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    texts: BTreeSet<Arc<str>>,
    /// Whether a text is compared with `<` and the like.
    has_text_order: bool,
    prefixes: BTreeSet<Arc<str>>,
    suffixes: BTreeSet<Arc<str>>,
    /// The texts of `contains`.
    parts: BTreeSet<Arc<str>>,
    whole: BTreeSet<i64>,
    fractions: Vec<f64>,
    times: BTreeSet<Timestamp>,
    durations: BTreeSet<SignedDuration>,
    /// The first addresses of ranges, and the first addresses after them.
    addresses: BTreeSet<IpAddr>,
}

impl Universe {
    /// The values of an expression; `None` for an expression without representatives.
    pub(crate) fn of_term(term: &Expression) -> Option<Self> {
        Some(match term {
            Expression::Attribute(attribute) => match attribute {
                Attribute::PathPlaceholder(name) | Attribute::HostPlaceholder(name)
                    if **name == *NO_PLACE =>
                {
                    Self::Nothing
                }
                Attribute::Method
                | Attribute::Host
                | Attribute::Path
                | Attribute::Header(_)
                | Attribute::Query(_)
                | Attribute::User
                | Attribute::Issuer
                | Attribute::Scheme
                | Attribute::PathPlaceholder(_)
                | Attribute::HostPlaceholder(_) => Self::Text,
                Attribute::Time => Self::Time,
                Attribute::SourceIp => Self::Address,
                Attribute::Claims | Attribute::Question(_) => Self::Claim,
                Attribute::Roles | Attribute::Groups | Attribute::Certificate => return None,
            },
            Expression::Member(..) => Self::Claim,
            Expression::LowerAscii(_) => Self::Text,
            Expression::Size(_) => Self::Whole(0..=i64::MAX),
            Expression::Timestamp(_) => Self::Time,
            Expression::Duration(_) => Self::Duration,
            Expression::Ip(_) => Self::Address,
            Expression::TimePart(part, time, _) => Self::Whole(match (part, &**time) {
                (_, time) if *time != Expression::Attribute(Attribute::Time) => i64::MIN..=i64::MAX,
                (TimePart::FullYear, _) => i64::MIN..=i64::MAX,
                (TimePart::Month, _) => 0..=11,
                (TimePart::Date, _) => 1..=31,
                (TimePart::DayOfMonth, _) => 0..=30,
                (TimePart::DayOfWeek, _) => 0..=6,
                (TimePart::DayOfYear, _) => 0..=365,
                (TimePart::Hours, _) => 0..=23,
                (TimePart::Minutes | TimePart::Seconds, _) => 0..=59,
                (TimePart::Milliseconds, _) => 0..=999,
            }),
            _ => return None,
        })
    }
}

impl Constants {
    /// Adds a constant; false if it is of a type without representatives.
    pub(crate) fn add(&mut self, constant: &Constant, is_ordered: bool) -> bool {
        match constant {
            Constant::Bool(_) => {}
            Constant::Int(number) => _ = self.whole.insert(*number),
            Constant::Double(number) => self.fractions.push(*number),
            Constant::Text(text) => {
                self.has_text_order |= is_ordered;
                self.texts.insert(Arc::clone(text));
            }
            Constant::Time(time) => _ = self.times.insert(*time),
            Constant::Duration(duration) => _ = self.durations.insert(*duration),
            Constant::Ip(address) => {
                self.addresses.insert(*address);
                self.addresses.extend(address_after(*address));
            }
            Constant::List(_) | Constant::Claim(_) => return false,
        }
        true
    }

    /// Adds the text of `startsWith`, `endsWith` or `contains`.
    pub(crate) fn add_part(&mut self, test: TextTest, text: &Arc<str>) -> bool {
        let texts = match test {
            TextTest::StartsWith => &mut self.prefixes,
            TextTest::EndsWith => &mut self.suffixes,
            TextTest::Contains => &mut self.parts,
        };
        texts.insert(Arc::clone(text));
        true
    }

    pub(crate) fn add_network(&mut self, Network { address, prefix }: Network) -> bool {
        let [first, last] = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let bits = address.to_bits();
                [bits & !mask, bits | mask].map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let bits = address.to_bits();
                [bits & !mask, bits | mask].map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
            }
        };
        self.addresses.insert(first);
        self.addresses.extend(address_after(last));
        true
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.texts.append(&mut other.texts);
        self.has_text_order |= other.has_text_order;
        self.prefixes.append(&mut other.prefixes);
        self.suffixes.append(&mut other.suffixes);
        self.parts.append(&mut other.parts);
        self.whole.append(&mut other.whole);
        self.fractions.append(&mut other.fractions);
        self.times.append(&mut other.times);
        self.durations.append(&mut other.durations);
        self.addresses.append(&mut other.addresses);
    }
}

/// A value for each combination of truths; `None` if there are no such representatives, or too
/// many.
pub(crate) fn states(universe: &Universe, constants: &Constants) -> Option<Vec<State>> {
    let mut states = vec![
        State { value: Err(Fault::Absent), presence: Ok(false) },
        State { value: Err(Fault::Malformed), presence: Ok(true) },
        State { value: Err(Fault::Unknown), presence: Err(Fault::Unknown) },
    ];
    let values: Vec<Constant> = match universe {
        Universe::Truth | Universe::Any => return None,
        Universe::Nothing => Vec::new(),
        Universe::Text => texts(constants)?,
        Universe::Whole(range) => whole_numbers(constants, range),
        Universe::Time => times(constants),
        Universe::Duration => durations(constants),
        Universe::Address => {
            let first = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
            constants.addresses.iter().copied().chain(first).map(Constant::Ip).collect()
        }
        Universe::Claim => {
            // A claim that is there has a value.
            states.remove(1);
            let mut values = texts(constants)?;
            values.extend(whole_numbers(constants, &(i64::MIN..=i64::MAX)));
            values.extend(fractions(constants));
            values.extend([true, false].map(Constant::Bool));
            let object = serde_json::Value::Object(serde_json::Map::new());
            values.extend(
                [serde_json::Value::Null, object].map(|claim| Constant::Claim(Arc::new(claim))),
            );
            values
        }
    };
    states.extend(values.into_iter().map(|value| State { value: Ok(value), presence: Ok(true) }));
    (states.len() <= MAX_STATES).then_some(states)
}

/// Texts for each combination of truths. `None` if there are too many, or if a text is compared
/// with `<` and the like, and also tested for prefixes, suffixes or parts: that has no
/// representatives.
fn texts(constants: &Constants) -> Option<Vec<Constant>> {
    let Constants { texts, has_text_order, prefixes, suffixes, parts, .. } = constants;
    let mut found: BTreeSet<String> = texts.iter().map(|text| text.to_string()).collect();
    if *has_text_order {
        if !(prefixes.is_empty() && suffixes.is_empty() && parts.is_empty()) {
            return None;
        }
        // The next text after each, and the first of all.
        found.extend(texts.iter().map(|text| format!("{text}\0")));
        found.insert(String::new());
        return Some(found.into_iter().map(|text| Constant::Text(text.into())).collect());
    }
    let combinations = 1_usize.checked_shl(u32::try_from(parts.len()).ok()?)?;
    let count = combinations
        .checked_mul(prefixes.len() + 1)
        .and_then(|count| count.checked_mul(suffixes.len() + 1));
    if count.is_none_or(|count| count > MAX_STATES) {
        return None;
    }
    // Between the parts is a character that no constant has, so no constant crosses them.
    let all = [texts, prefixes, suffixes, parts];
    let unused = ('\u{e000}'..)
        .find(|letter| !all.iter().any(|set| set.iter().any(|text| text.contains(*letter))))?;
    let none: Arc<str> = "".into();
    for prefix in prefixes.iter().chain([&none]) {
        for suffix in suffixes.iter().chain([&none]) {
            for combination in 0..combinations {
                let mut text = format!("{prefix}{unused}");
                for (number, part) in parts.iter().enumerate() {
                    if combination >> number & 1 == 1 {
                        text.push_str(part);
                        text.push(unused);
                    }
                }
                found.insert(text + suffix);
            }
        }
    }
    Some(found.into_iter().map(|text| Constant::Text(text.into())).collect())
}

/// The constants, and the numbers beside them.
fn whole_numbers(constants: &Constants, range: &RangeInclusive<i64>) -> Vec<Constant> {
    let mut numbers: BTreeSet<i64> = BTreeSet::from([*range.start(), *range.end()]);
    #[expect(clippy::cast_possible_truncation, reason = "`as` stops at the ends of `i64`")]
    let near =
        constants.fractions.iter().flat_map(|number| [number.floor() as i64, number.ceil() as i64]);
    for number in constants.whole.iter().copied().chain(near) {
        numbers.extend([number.saturating_sub(1), number, number.saturating_add(1)]);
    }
    numbers.retain(|number| range.contains(number));
    numbers.into_iter().map(Constant::Int).collect()
}

fn fractions(constants: &Constants) -> Vec<Constant> {
    #[expect(clippy::cast_precision_loss, reason = "the fractions beside it are added, too")]
    let whole = constants.whole.iter().map(|number| *number as f64);
    let numbers = constants.fractions.iter().copied().chain(whole);
    let near = numbers.flat_map(|number| [number.next_down(), number, number.next_up()]);
    near.chain([f64::MIN, f64::MAX]).map(Constant::Double).collect()
}

fn times(constants: &Constants) -> Vec<Constant> {
    let nanosecond = SignedDuration::from_nanos(1);
    let mut times = BTreeSet::from([Timestamp::MIN, Timestamp::MAX]);
    for time in &constants.times {
        times.insert(*time);
        times.extend(time.checked_add(nanosecond));
        times.extend(time.checked_sub(nanosecond));
    }
    times.into_iter().map(Constant::Time).collect()
}

fn durations(constants: &Constants) -> Vec<Constant> {
    let nanosecond = SignedDuration::from_nanos(1);
    let mut durations = BTreeSet::from([SignedDuration::MIN, SignedDuration::MAX]);
    for duration in &constants.durations {
        durations.insert(*duration);
        durations.extend(duration.checked_add(nanosecond));
        durations.extend(duration.checked_sub(nanosecond));
    }
    durations.into_iter().map(Constant::Duration).collect()
}

fn address_after(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).into(),
    })
}
