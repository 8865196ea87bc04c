//! The goals, and whether they were reached: computed from the records, and never rounded in our favour.

use crate::record::{Record, Records};

/// One goal with its measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Its id in `CONTRIBUTING.md`, such as `P4`.
    pub(crate) goal: &'static str,
    /// The goal in words.
    pub(crate) wanted: String,
    /// The measurement in words; `None` if this run did not measure it.
    pub(crate) measured: Option<String>,
    /// Whether it was reached; `None` if this run did not measure it.
    pub(crate) met: Option<bool>,
}

/// The dimensions of a policy in which the cost of a decision must stay flat.
pub(crate) const AXES: [&str; 4] = ["resources", "roles", "roles-per-caller", "callers"];
/// The other engines, at 1,000 rules.
pub(crate) const PEERS: [&str; 4] = ["cedar-policy", "casbin", "regorus", "regorus, virtual machine"];

/// All verdicts for P1, P4, P6 and hostile paths that these records permit.
#[must_use]
pub(crate) fn verdicts(records: &Records) -> Vec<Verdict> {
    let mut all = wire(records).to_vec();
    all.push(at_most("P4", "each warm decision takes at most 100 ns (median)", 100.0, &warm(records)));
    all.extend(AXES.map(|axis| flat(records, axis)));
    all.push(at_most("P4", "each random decision takes at most 500 ns (median)", 500.0, &random(records)));
    all.extend(PEERS.map(|peer| faster(records, peer)));
    all.extend(compile(records));
    all.push(hostile(records));
    all
}

/// The maximum cost of a request that a client can cause by choosing its path.
fn hostile(records: &Records) -> Verdict {
    let wanted = "the worst path found costs at most 10 × a harmless one of its length, whatever the globs";
    let ratios: Vec<Record> =
        records.below("hostile/").filter(|record| record.name.ends_with("/ratio")).cloned().collect();
    at_most("paths", wanted, 10.0, &ratios)
}

/// P1: checks per second compared with tonic, each server alone on one core.
fn wire(records: &Records) -> [Verdict; 2] {
    let rate = |server: &str| records.named(&format!("wire/{server}/rate"));
    [
        at_least(
            "P1",
            "Basic, verified and cached: at least 1.6 × the checks/s of always-allow tonic",
            1.6,
            rate("rolegate-basic").zip(rate("tonic")),
        ),
        at_least(
            "P1",
            "JWT, cached: at least 0.95 × the checks/s of Basic",
            0.95,
            rate("rolegate-jwt").zip(rate("rolegate-basic")),
        ),
    ]
}

/// P4: the slowest point of a dimension compared with its fastest.
fn flat(records: &Records, axis: &str) -> Verdict {
    let wanted = format!("the slowest warm decision over {axis} takes at most 1.3 × the fastest");
    let curve = records.curve(&format!("decide/{axis}/warm"));
    let extremes = slowest(curve.iter().map(|(_, it)| *it)).zip(fastest(curve.iter().map(|(_, it)| *it)));
    let Some((slow, fast)) = extremes.filter(|_| curve.len() > 1) else {
        return unmeasured("P4", wanted);
    };
    let ratio = slow.median / fast.median;
    let measured = format!("{} ({} / {})", up(ratio), time(slow), time(fast));
    Verdict { goal: "P4", wanted, measured: Some(measured), met: Some(ratio <= 1.3) }
}

/// P4: a peer at 1,000 rules compared with rolegate on the same cases.
fn faster(records: &Records, peer: &str) -> Verdict {
    let at = |who: &str| records.named(&format!("peers/{who}/1000"));
    let wanted = format!("at 1,000 rules at least 50 × faster than {peer}");
    at_least("P4", &wanted, 50.0, at(peer).zip(at("rolegate")))
}

/// The part of P6 that does not need a running server.
fn compile(records: &Records) -> [Verdict; 3] {
    let large = |start: &str, end: &str| -> Vec<Record> {
        let of_size = records.below(start).filter(|it| it.name.contains("-each"));
        of_size.filter(|it| it.name.ends_with(end)).cloned().collect()
    };
    let seconds = |start: &str| large(start, "-each").into_iter().map(in_seconds).collect::<Vec<_>>();
    [
        at_most(
            "P6",
            "a policy of 100,000 rules, 1,000 roles and 1,000,000 user grants compiles in at most 1.5 s",
            1.5,
            &seconds("compile/"),
        ),
        at_most(
            "P6",
            "the same from its text (parsed, checked and compiled) in at most 1.5 s",
            1.5,
            &seconds("load/"),
        ),
        at_most(
            "P6",
            "the same takes at most 200 MiB while text, policy and index are made",
            200.0,
            &large("memory/load/", "/peak"),
        ),
    ]
}

/// The warm points of all dimensions, and the one that is large in all of them.
fn warm(records: &Records) -> Vec<Record> {
    records.below("decide/").filter(|it| it.name.contains("/warm/")).cloned().collect()
}

fn random(records: &Records) -> Vec<Record> {
    records.below("decide/").filter(|it| it.name.contains("/random/")).cloned().collect()
}

/// The verdict on the largest of these records.
fn at_most(goal: &'static str, wanted: &str, most: f64, of: &[Record]) -> Verdict {
    let Some(worst) = slowest(of.iter()) else { return unmeasured(goal, wanted.into()) };
    let measured = format!("{} at the most ({})", time(worst), worst.name);
    Verdict { goal, wanted: wanted.into(), measured: Some(measured), met: Some(worst.median <= most) }
}

fn at_least(goal: &'static str, wanted: &str, least: f64, of: Option<(&Record, &Record)>) -> Verdict {
    let Some((above, below)) = of else { return unmeasured(goal, wanted.into()) };
    let ratio = above.median / below.median;
    let measured = format!("{} ({} / {})", down(ratio), time(above), time(below));
    Verdict { goal, wanted: wanted.into(), measured: Some(measured), met: Some(ratio >= least) }
}

fn unmeasured(goal: &'static str, wanted: String) -> Verdict {
    Verdict { goal, wanted, measured: None, met: None }
}

fn slowest<'a>(of: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    of.max_by(|a, b| a.median.total_cmp(&b.median))
}

fn fastest<'a>(of: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    of.min_by(|a, b| a.median.total_cmp(&b.median))
}

fn in_seconds(record: Record) -> Record {
    let Record { median, low, high, mean, .. } = record;
    let [median, low, high, mean] = [median, low, high, mean].map(|it| it / 1e9);
    Record { unit: "s".into(), median, low, high, mean, ..record }
}

/// A median with its spread and unit.
#[must_use]
pub(crate) fn time(record: &Record) -> String {
    let Record { median, low, high, unit, .. } = record;
    let (by, unit) = match unit.as_str() {
        "ns" if *median >= 1e9 => (1e9, "s"),
        "ns" if *median >= 1e6 => (1e6, "ms"),
        "ns" if *median >= 1e4 => (1e3, "µs"),
        unit => (1.0, unit),
    };
    let digits = if median / by >= 1_000.0 {
        0
    } else if median / by >= 100.0 {
        1
    } else {
        2
    };
    let figure = |it: f64| format!("{:.digits$}", it / by);
    format!("{} {unit} [{}–{}]", figure(*median), figure(*low), figure(*high))
}

/// Two digits, rounded up, to our disadvantage.
fn up(ratio: f64) -> String {
    format!("{:.2} ×", (ratio * 100.0).ceil() / 100.0)
}

fn down(ratio: f64) -> String {
    format!("{:.2} ×", (ratio * 100.0).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Spread;

    fn records(of: &[(&str, &str, f64)]) -> Records {
        let mut records = Records::default();
        for (name, unit, median) in of {
            let (name, unit, median) = ((*name).into(), (*unit).into(), *median);
            let (low, high, mean) = (median, median, median);
            records.insert(Record { name, unit, median, low, high, mean, samples: 1, spread: Spread::Range });
        }
        records
    }

    fn met(verdicts: &[Verdict], words: &str) -> Option<bool> {
        verdicts.iter().find(|it| it.wanted.contains(words)).unwrap().met
    }

    #[test]
    fn without_records_nothing_is_met_or_missed() {
        let all = verdicts(&Records::default());
        assert!(all.len() >= 14 && all.iter().all(|it| it.met.is_none() && it.measured.is_none()));
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
        assert_eq!(met(&all, "each warm"), Some(false));
        assert_eq!(met(&all, "over resources "), Some(false), "1.301");
        assert_eq!(met(&all, "over roles "), Some(true));
        assert_eq!(met(&all, "over callers "), None, "one point is no curve");
        assert_eq!(met(&all, "each random"), Some(true));
    }

    #[test]
    fn ratios_are_compared_before_they_are_rounded() {
        let all = verdicts(&records(&[
            ("wire/tonic/rate", "checks/s", 1000.0),
            ("wire/rolegate-basic/rate", "checks/s", 1599.0),
            ("wire/rolegate-jwt/rate", "checks/s", 1520.0),
            ("peers/rolegate/1000", "ns", 100.0),
            ("peers/casbin/1000", "ns", 5_000.0),
            ("load/10-roles-each", "ns", 2.1e9),
            ("load/small", "ns", 9e9),
            ("memory/load/10-roles-each/peak", "MiB", 200.0),
        ]));
        assert_eq!((met(&all, "Basic, verified"), met(&all, "JWT, cached")), (Some(false), Some(true)));
        assert!(all[0].measured.as_ref().unwrap().starts_with("1.59 ×"));
        assert_eq!((met(&all, "than casbin"), met(&all, "than cedar-policy")), (Some(true), None));
        assert_eq!((met(&all, "from its text"), met(&all, "200 MiB")), (Some(false), Some(true)));
    }
}
