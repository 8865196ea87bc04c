//! `records.csv`: one line for each measurement of each run.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use crate::machine::Facts;
use crate::spread::{Spread, median_within};

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// What was measured, such as `decide/resources/warm/1000`.
    pub(crate) name: String,
    /// The unit of the values: `ns`, `MiB`, `checks/s`.
    pub(crate) unit: String,
    pub(crate) spread: Spread,
    /// What the ends of the spread are.
    pub(crate) ends: Ends,
    /// The number of samples or rounds.
    pub(crate) samples: usize,
}

/// What the ends of a spread are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The 95 % confidence interval of the median.
    Confidence,
    /// The lowest and the highest round.
    Rounds,
}

/// From this number of rounds on, the ends are the confidence interval of the median: the lowest
/// and the highest round would show only the worst disturbance.
const MANY: usize = 20;

impl Record {
    /// Several rounds of one measurement; `None` without any.
    pub(crate) fn of_rounds(name: &str, unit: &str, values: &[f64]) -> Option<Self> {
        let spread = Spread::of(values.iter().copied())?;
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Some(Self { name, unit, spread, ends: Ends::Rounds, samples: values.len() })
    }

    /// The same; of many rounds with the confidence interval of the median.
    pub(crate) fn of_few_or_many(name: &str, unit: &str, values: &[f64]) -> Option<Self> {
        let record = Self::of_rounds(name, unit, values)?;
        let within = median_within(values).filter(|_| values.len() >= MANY);
        let Some((low, high)) = within else { return Some(record) };
        Some(Self {
            spread: Spread { low, high, ..record.spread },
            ends: Ends::Confidence,
            ..record
        })
    }
}

const HEAD: &str = "date,commit,processor,cores,name,unit,median,low,high,spread,samples\n";

/// Appends the records of a run to `records.csv` in this folder.
pub(crate) fn append(folder: &Path, facts: &Facts, records: &[Record]) -> io::Result<()> {
    let fact =
        |name: &str| facts.iter().find(|fact| fact.0 == name).map_or("", |fact| fact.1.as_str());
    let run = ["date", "commit", "processor", "cores"].map(|name| quoted(fact(name))).join(",");
    let file = folder.join("records.csv");
    let mut text = if file.exists() { String::new() } else { HEAD.to_owned() };
    for Record { name, unit, spread, ends, samples } in records {
        let ends = match ends {
            Ends::Confidence => "95 % confidence interval of the median",
            Ends::Rounds => "range of the rounds",
        };
        let Spread { median, low, high } = spread;
        let name = quoted(name);
        let _ =
            writeln!(text, "{run},{name},{unit},{median:.3},{low:.3},{high:.3},{ends},{samples}");
    }
    File::options().create(true).append(true).open(file)?.write_all(text.as_bytes())
}

/// A field that may contain commas (RFC 4180).
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rounds_have_a_confidence_interval() {
        let rounds: Vec<f64> = (1..=24).map(f64::from).collect();
        let record = Record::of_few_or_many("a", "ns", &rounds).unwrap();
        assert_eq!(record.spread, Spread { median: 12.5, low: 7.0, high: 18.0 });
        assert_eq!((record.ends, record.samples), (Ends::Confidence, 24));
        let few = Record::of_few_or_many("a", "ns", &rounds[..9]).unwrap();
        assert_eq!((few.spread.low, few.spread.high, few.ends), (1.0, 9.0, Ends::Rounds));
    }

    #[test]
    fn each_run_adds_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::of_rounds("a, b", "ns", &[1.0, 3.0]).unwrap();
        let facts =
            vec![("commit".to_owned(), "abc".to_owned()), ("cores".to_owned(), "2".to_owned())];
        for _ in 0..2 {
            append(folder.path(), &facts, std::slice::from_ref(&record)).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("records.csv")).unwrap();
        let line = "\"\",\"abc\",\"\",\"2\",\"a, b\",ns,2.000,1.000,3.000,range of the rounds,2\n";
        assert_eq!(text, format!("{HEAD}{line}{line}"));
    }
}
