//! The goals that the benchmarks test: computed from the records, and never rounded in favour of
//! rolegate.

use super::record::Records;
use crate::records::{Ends, Record};
use crate::spread::Spread;
use crate::verdict::{Limit, Verdict};

/// The dimensions of a policy in which the cost of a decision must stay flat.
pub(crate) const AXES: [&str; 4] = ["resources", "roles", "roles-per-caller", "callers"];
/// The other engines, at 1,000 rules.
const PEERS: [&str; 4] = ["cedar-policy", "casbin", "regorus", "regorus, virtual machine"];

/// The parts of a request of a caller whose credentials are cached.
const PARTS: [&str; 4] = ["snapshot", "anonymous", "Basic", "JWT"];

/// The verdicts on P1, P4, P6, P9, P10 and hostile paths.
pub(crate) fn verdicts(records: &Records) -> Vec<Verdict> {
    let mut all = wire(records).to_vec();
    all.push(at_most("P4", "the slowest warm decision (median)", (100.0, " ns"), &warm(records)));
    all.extend(AXES.map(|axis| flat(records, axis)));
    all.push(at_most(
        "P4",
        "the slowest random decision (median)",
        (500.0, " ns"),
        &random(records),
    ));
    all.extend(PEERS.map(|peer| faster(records, peer)));
    all.extend(compile(records));
    all.push(threads(records));
    all.extend(search(records));
    all.push(hostile(records));
    all.extend(identity_header(records));
    all
}

/// P10: decisions about requests to a search cluster.
fn search(records: &Records) -> Vec<Verdict> {
    let below = |start: &str| records.below(start).cloned().collect::<Vec<_>>();
    let named = |name: &str| records.named(name).cloned().into_iter().collect::<Vec<_>>();
    let ending = |end: &str| {
        below("search/pattern/")
            .into_iter()
            .filter(|record| record.name.ends_with(end))
            .collect::<Vec<_>>()
    };
    let micro = |records: Vec<Record>| {
        records.into_iter().map(|one| in_unit(one, 1e3, "µs")).collect::<Vec<_>>()
    };
    let milli = |records: Vec<Record>| {
        records.into_iter().map(|one| in_unit(one, 1e6, "ms")).collect::<Vec<_>>()
    };
    let kilobytes = |record: &Record| {
        let spread = record.spread.map(|mebibytes| mebibytes * 1048.576);
        Record { unit: "kB".into(), spread, ..record.clone() }
    };
    let memory: Vec<Record> = records.below("search/memory/").map(kilobytes).collect();
    let curve = below("search/one-index/");
    let over = "the slowest decision on one index ÷ the fastest, over indices and roles".to_owned();
    let compiling = "compiling 3,000 roles for 6,000 indices and 9,000 aliases";
    vec![
        at_most(
            "P10",
            "the slowest decision on one index of a search cluster",
            (200.0, " ns"),
            &curve,
        ),
        Verdict::new("P10", over, Limit::AtMost(1.3, " ×"), extremes(curve.iter())),
        at_most(
            "P10",
            "a bulk request of 10 items, read and decided",
            (3.0, " µs"),
            &micro(named("search/bulk/10")),
        ),
        at_most(
            "P10",
            "the same of 1,000 items",
            (150.0, " µs"),
            &micro(named("search/bulk/1000")),
        ),
        at_most(
            "P10",
            "a pattern over 100,000 indices, seen before",
            (1.0, " µs"),
            &micro(ending("/repeated")),
        ),
        at_most("P10", "the same for the first time", (200.0, " µs"), &micro(ending("/first"))),
        at_most("P10", compiling, (200.0, " ms"), &milli(below("search/compile/"))),
        at_most("P10", "memory for 10,000 indices and 100 roles", (930.0, " kB"), &memory),
    ]
}

/// The identity header of a caller with three groups and five roles.
fn identity_header(records: &Records) -> Vec<Verdict> {
    let goal = |what: &str, most: f64| {
        let name = format!("header/{what}, 3 groups and 5 roles/compact");
        let record: Vec<Record> = records.named(&name).cloned().into_iter().collect();
        at_most("header", what, (most, " ns"), &record)
    };
    [
        ("encode plain", 100.0),
        ("decode plain", 100.0),
        ("encode header", 500.0),
        ("decode header", 500.0),
    ]
    .map(|(what, most)| goal(what, most))
    .into()
}

/// The maximum cost of a request that a client can cause by choosing its path.
fn hostile(records: &Records) -> Verdict {
    let ratios: Vec<Record> = records
        .below("hostile/")
        .filter(|record| record.name.ends_with("/ratio"))
        .cloned()
        .collect();
    at_most(
        "paths",
        "the slowest path found ÷ a harmless path of its length",
        (10.0, " ×"),
        &ratios,
    )
}

/// P1: checks per second compared with the baseline, each server alone on one core.
fn wire(records: &Records) -> [Verdict; 3] {
    let goal =
        |id: &'static str, name: &str, what: &str, least: f64, (above, below): (&str, &str)| {
            let rate = |server: &str| records.named(&format!("wire/{server}/rate"));
            let measured =
                records.named(&format!("wire/{name}")).zip(rate(above)).zip(rate(below)).map(
                    |((ratio, above), below)| {
                        let Spread { median, low, high } = ratio.spread;
                        let within = format!("[{low:.3}–{high:.3}]");
                        (
                            median,
                            format!("{} {within} ({}, {})", down(median), time(above), time(below)),
                        )
                    },
                );
            Verdict::new(
                id,
                format!("checks per second, {what}"),
                Limit::AtLeast(least, " ×"),
                measured,
            )
        };
    let basic = "rolegate-basic";
    [
        goal(
            "P1",
            "Basic ÷ baseline",
            "Basic (verified, cached) ÷ baseline",
            1.6,
            (basic, "baseline"),
        ),
        goal("P1", "JWT ÷ Basic", "JWT (cached) ÷ Basic", 0.95, ("rolegate-jwt", basic)),
        goal(
            "P11",
            "forward-auth ÷ axum",
            "HTTP forward-auth ÷ an axum handler",
            1.3,
            ("rolegate-http", "axum"),
        ),
    ]
}

/// P9: the part of a request that takes longest on two threads, compared with one.
fn threads(records: &Records) -> Verdict {
    let ratio = |part: &str| {
        let of = |variant: &str| records.named(&format!("threads/{part}/{variant}"));
        let (one, two, apart) = (of("1")?, of("2")?, of("apart")?);
        let times = |record: &Record| record.spread.median / one.spread.median;
        let both = format!("{part}: {} ÷ {}", time(two), time(one));
        Some((
            times(two),
            format!("{} ({both}; if they share nothing {})", up(times(two)), up(times(apart))),
        ))
    };
    let slowest =
        PARTS.iter().filter_map(|part| ratio(part)).max_by(|one, other| one.0.total_cmp(&other.0));
    let what = "a part of a request on two threads ÷ on one".to_owned();
    Verdict::new("P9", what, Limit::AtMost(1.05, " ×"), slowest)
}

/// P4: the slowest point of a dimension compared with its fastest.
fn flat(records: &Records, axis: &str) -> Verdict {
    let what = format!("the slowest warm decision ÷ the fastest, over {}", axis.replace('-', " "));
    let curve = records.curve(&format!("decide/{axis}/warm"));
    Verdict::new(
        "P4",
        what,
        Limit::AtMost(1.3, " ×"),
        extremes(curve.iter().map(|(_, record)| *record)),
    )
}

/// The slowest of several records compared with the fastest, if there are two.
fn extremes<'a>(of: impl Iterator<Item = &'a Record> + Clone) -> Option<(f64, String)> {
    let by = |one: &&Record, other: &&Record| fastest_round(one).total_cmp(&fastest_round(other));
    let (slow, fast) = (of.clone().max_by(by)?, of.clone().min_by(by)?);
    let ratio = fastest_round(slow) / fastest_round(fast);
    let shown =
        |record: &Record| format!("{:.2} {}, {}", fastest_round(record), record.unit, record.name);
    (of.count() > 1).then(|| (ratio, format!("{} ({} ÷ {})", up(ratio), shown(slow), shown(fast))))
}

/// What is compared where a cost must stay the same. The median of one record may come from slow
/// moments of the machine and that of another from fast ones; in its fastest round the machine
/// disturbed each the least.
fn fastest_round(record: &Record) -> f64 {
    match record.ends {
        Ends::Rounds => record.spread.low,
        Ends::Confidence => record.spread.median,
    }
}

/// P4: a peer at 1,000 rules compared with rolegate on the same cases.
fn faster(records: &Records, peer: &str) -> Verdict {
    let at = |who: &str| records.named(&format!("peers/{who}/1000"));
    at_least(
        "P4",
        &format!("a decision among 1,000 rules, {peer} ÷ rolegate"),
        50.0,
        at(peer).zip(at("rolegate")),
    )
}

/// The part of P6 that does not need a running server.
fn compile(records: &Records) -> [Verdict; 3] {
    let large = |start: &str, end: &str| -> Vec<Record> {
        let of_size = records.below(start).filter(|record| record.name.contains("-each"));
        of_size.filter(|record| record.name.ends_with(end)).cloned().collect()
    };
    let seconds =
        |start: &str| large(start, "-each").into_iter().map(in_seconds).collect::<Vec<_>>();
    let size = "100,000 rules, 1,000 roles, 1,000,000 grants";
    let peak = large("memory/load/", "/peak");
    [
        at_most("P6", &format!("compiling a policy ({size})"), (1.5, " s"), &seconds("compile/")),
        at_most(
            "P6",
            "the same from its text: parse, check, compile",
            (1.5, " s"),
            &seconds("load/"),
        ),
        at_most("P6", "memory meanwhile: text, policy and index", (200.0, " MiB"), &peak),
    ]
}

/// The warm points of all dimensions, and the one that is large in all of them.
fn warm(records: &Records) -> Vec<Record> {
    records.below("decide/").filter(|record| record.name.contains("/warm/")).cloned().collect()
}

fn random(records: &Records) -> Vec<Record> {
    records.below("decide/").filter(|record| record.name.contains("/random/")).cloned().collect()
}

/// The verdict on the largest of these records.
fn at_most(
    goal: &'static str,
    what: &str,
    (most, unit): (f64, &'static str),
    of: &[Record],
) -> Verdict {
    let worst = slowest(of.iter());
    let measured =
        worst.map(|record| (record.spread.median, format!("{} ({})", time(record), record.name)));
    Verdict::new(goal, what, Limit::AtMost(most, unit), measured)
}

fn at_least(goal: &'static str, what: &str, least: f64, of: Option<(&Record, &Record)>) -> Verdict {
    let measured = of.map(|(above, below)| {
        let ratio = above.spread.median / below.spread.median;
        (ratio, format!("{} ({} ÷ {})", down(ratio), time(above), time(below)))
    });
    Verdict::new(goal, what, Limit::AtLeast(least, " ×"), measured)
}

fn slowest<'a>(of: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    of.max_by(|a, b| a.spread.median.total_cmp(&b.spread.median))
}

fn in_seconds(record: Record) -> Record {
    in_unit(record, 1e9, "s")
}

/// A time in a unit of so many nanoseconds.
fn in_unit(record: Record, nanoseconds: f64, unit: &str) -> Record {
    Record { unit: unit.into(), spread: record.spread.map(|value| value / nanoseconds), ..record }
}

/// A median with its spread and unit.
pub(crate) fn time(record: &Record) -> String {
    let Record { spread: Spread { median, low, high }, unit, .. } = record;
    let (by, unit) = match unit.as_str() {
        "ns" if *median >= 1e9 => (1e9, "s"),
        "ns" if *median >= 1e6 => (1e6, "ms"),
        "ns" if *median >= 1e4 => (1e3, "µs"),
        unit => (1.0, unit),
    };
    let digits = match median / by {
        value if value >= 1_000.0 => 0,
        value if value >= 100.0 => 1,
        _ => 2,
    };
    let figure = |value: f64| format!("{:.digits$}", value / by);
    format!("{} {unit} [{}–{}]", figure(*median), figure(*low), figure(*high))
}

/// Two digits, rounded up, to the disadvantage of rolegate.
fn up(ratio: f64) -> String {
    format!("{:.2} ×", (ratio * 100.0).ceil() / 100.0)
}

fn down(ratio: f64) -> String {
    format!("{:.2} ×", (ratio * 100.0).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(of: &[(&str, &str, f64)]) -> Records {
        let mut records = Records::default();
        of.iter().for_each(|(name, unit, median)| {
            records.insert(Record::of_rounds(name, unit, &[*median]).unwrap());
        });
        records
    }

    fn reached(verdicts: &[Verdict], words: &str) -> Option<bool> {
        verdicts.iter().find(|verdict| verdict.what.contains(words)).unwrap().reached
    }

    #[test]
    fn without_records_nothing_is_reached_or_missed() {
        let all = verdicts(&Records::default());
        assert!(
            all.len() >= 14
                && all
                    .iter()
                    .all(|verdict| verdict.reached.is_none() && verdict.measured.is_none())
        );
    }

    #[test]
    fn the_worst_point_decides() {
        let all = verdicts(&records(&[
            ("decide/resources/warm/100", "ns", 80.0),
            ("decide/resources/warm/1000", "ns", 104.1),
            ("decide/roles/warm/1", "ns", 70.0),
            ("decide/roles/warm/10", "ns", 90.0),
            ("decide/callers/warm/100", "ns", 90.0),
            ("decide/everything/random/100000", "ns", 499.0),
        ]));
        assert_eq!(reached(&all, "warm decision (median)"), Some(false));
        assert_eq!(reached(&all, "over resources"), Some(false), "1.301");
        assert_eq!(reached(&all, "over roles"), Some(true));
        assert_eq!(reached(&all, "over callers"), None, "one point is no curve");
        assert_eq!(reached(&all, "random decision"), Some(true));
    }

    #[test]
    fn the_items_of_a_bulk_request_are_not_mixed_up() {
        let all = verdicts(&records(&[
            ("search/one-index/one/10", "ns", 150.0),
            ("search/one-index/forty/100000", "ns", 199.0),
            ("search/bulk/10", "ns", 2_999.0),
            ("search/bulk/1000", "ns", 150_001.0),
            ("search/pattern/all/repeated", "ns", 900.0),
            ("search/memory/10000-indices-100-roles", "MiB", 0.89),
        ]));
        assert_eq!(reached(&all, "one index of"), Some(true));
        assert_eq!(reached(&all, "over indices and roles"), Some(false), "1.327");
        assert_eq!(
            (reached(&all, "of 10 items"), reached(&all, "of 1,000 items")),
            (Some(true), Some(false))
        );
        assert_eq!((reached(&all, "seen before"), reached(&all, "first time")), (Some(true), None));
        assert_eq!(reached(&all, "10,000 indices"), Some(false), "933 kB");
    }

    /// The machine was slow in most rounds of one of them.
    #[test]
    fn the_fastest_rounds_say_whether_a_cost_stays_the_same() {
        let mut records = Records::default();
        for (size, rounds) in [("100", [50.0, 51.0, 52.0]), ("1000", [55.0, 99.0, 101.0])] {
            let name = format!("decide/resources/warm/{size}");
            records.insert(Record::of_rounds(&name, "ns", &rounds).unwrap());
        }
        assert_eq!(reached(&verdicts(&records), "over resources"), Some(true), "1.1");
        assert_eq!(
            reached(&verdicts(&records), "slowest warm decision (median)"),
            Some(true),
            "99 ns"
        );
    }

    #[test]
    fn ratios_are_compared_before_they_are_rounded() {
        let all = verdicts(&records(&[
            ("wire/baseline/rate", "checks/s", 1000.0),
            ("wire/rolegate-basic/rate", "checks/s", 1700.0),
            ("wire/rolegate-jwt/rate", "checks/s", 1520.0),
            ("wire/Basic ÷ baseline", "ratio", 1.599),
            ("wire/JWT ÷ Basic", "ratio", 0.95),
            ("peers/rolegate/1000", "ns", 100.0),
            ("peers/casbin/1000", "ns", 5_000.0),
            ("load/10-roles-each", "ns", 2.1e9),
            ("load/small", "ns", 9e9),
            ("memory/load/10-roles-each/peak", "MiB", 200.0),
        ]));
        assert_eq!(
            (reached(&all, "Basic (verified"), reached(&all, "JWT (cached)")),
            (Some(false), Some(true))
        );
        assert!(all[0].measured.as_ref().unwrap().starts_with("1.59 ×"));
        assert_eq!((reached(&all, "casbin"), reached(&all, "cedar-policy")), (Some(true), None));
        assert_eq!(
            (reached(&all, "from its text"), reached(&all, "memory")),
            (Some(false), Some(true))
        );
    }
}
