//! The measurements: one record for each benchmark.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One measurement with its spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// What was measured, such as `decide/resources/warm/1000`.
    pub(crate) name: String,
    /// The unit of the values: `ns`, `MiB`, `checks/s`.
    pub(crate) unit: String,
    /// The median.
    pub(crate) median: f64,
    /// The lower end of the spread; [`Record::spread`] says of which kind.
    pub(crate) low: f64,
    /// The upper end of the spread.
    pub(crate) high: f64,
    /// The mean.
    pub(crate) mean: f64,
    /// The number of samples or rounds.
    pub(crate) samples: usize,
    /// What `low` and `high` mean.
    pub(crate) spread: Spread,
}

/// The kind of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// The 95 % confidence interval of the median.
    Confidence,
    /// The minimum and maximum of the rounds.
    Range,
}

/// The records of a run, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(BTreeMap<String, Record>);

impl Records {
    /// Reads all of criterion's results in a folder, and the notes file if it exists. Several measurements with one
    /// name are rounds of one benchmark.
    ///
    /// # Errors
    /// If something cannot be read.
    pub(crate) fn read(criterion: &Path, notes: &Path) -> io::Result<Self> {
        let mut records = Self::default();
        let mut found = Vec::new();
        find(criterion, &mut found)?;
        let mut measured: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        for folder in found {
            let record = once(&folder)?;
            measured.entry(record.name.clone()).or_default().push(record);
        }
        measured.into_values().filter_map(of_looks).for_each(|record| records.insert(record));
        if notes.exists() {
            noted(&text(notes)?).into_iter().for_each(|record| records.insert(record));
        }
        Ok(records)
    }

    /// Adds a record; replaces one with the same name.
    pub(crate) fn insert(&mut self, record: Record) {
        self.0.insert(record.name.clone(), record);
    }

    /// The record with this name.
    #[must_use]
    pub(crate) fn named(&self, name: &str) -> Option<&Record> {
        self.0.get(name)
    }

    /// The records whose names start with `start`, sorted by name.
    pub(crate) fn below<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a Record> {
        self.0.values().filter(move |record| record.name.starts_with(start))
    }

    /// The records `curve/NUMBER`, sorted by number.
    #[must_use]
    pub(crate) fn curve(&self, curve: &str) -> Vec<(f64, &Record)> {
        let point = |record: &Record| record.name.strip_prefix(curve)?.strip_prefix('/')?.parse::<f64>().ok();
        let mut points: Vec<_> =
            self.0.values().filter_map(|record| point(record).map(|x| (x, record))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    }

    /// Whether there are no records.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records as CSV with a header line.
    #[must_use]
    pub(crate) fn to_csv(&self) -> String {
        let mut csv = String::from("name,unit,median,low,high,spread,mean,samples\n");
        for record in self.0.values() {
            let Record { name, unit, median, low, high, mean, samples, spread } = record;
            let spread = spread.name();
            let _ = writeln!(
                csv,
                "\"{name}\",{unit},{median:.3},{low:.3},{high:.3},{spread},{mean:.3},{samples}"
            );
        }
        csv
    }
}

impl Spread {
    /// Its name in the CSV and on the page.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Confidence => "95 % confidence interval of the median",
            Self::Range => "range of the rounds",
        }
    }
}

/// The folders with criterion's latest measurements.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.join("new/estimates.json").is_file() {
        found.push(folder.join("new"));
    }
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// Combines all measurements of one benchmark into a record.
fn of_looks(mut looks: Vec<Record>) -> Option<Record> {
    if looks.len() == 1 {
        return looks.pop();
    }
    let Record { name, unit, .. } = looks.first()?.clone();
    of_rounds(&name, &unit, looks.into_iter().map(|it| it.median).collect())
}

fn once(folder: &Path) -> io::Result<Record> {
    let read = |file| json(&folder.join(file));
    let (about, estimates, sample) = (read("benchmark.json")?, read("estimates.json")?, read("sample.json")?);
    let estimate = |path: &str| estimates.pointer(path).and_then(Value::as_f64).ok_or_else(|| missing(path));
    Ok(Record {
        name: about.get("full_id").and_then(Value::as_str).ok_or_else(|| missing("full_id"))?.into(),
        unit: "ns".into(),
        median: estimate("/median/point_estimate")?,
        low: estimate("/median/confidence_interval/lower_bound")?,
        high: estimate("/median/confidence_interval/upper_bound")?,
        mean: estimate("/mean/point_estimate")?,
        samples: sample.get("times").and_then(Value::as_array).map_or(0, Vec::len),
        spread: Spread::Confidence,
    })
}

/// Combines the rounds of each name into a record.
fn noted(lines: &str) -> Vec<Record> {
    let mut rounds: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for line in lines.lines() {
        let mut fields = line.split(',');
        if let (Some(name), Some(unit), Some(Ok(value))) =
            (fields.next(), fields.next(), fields.next().map(str::parse))
        {
            rounds.entry((name, unit)).or_default().push(value);
        }
    }
    rounds.into_iter().filter_map(|((name, unit), values)| of_rounds(name, unit, values)).collect()
}

fn of_rounds(name: &str, unit: &str, mut values: Vec<f64>) -> Option<Record> {
    values.sort_by(f64::total_cmp);
    let middle = [values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?];
    Some(Record {
        name: name.into(),
        unit: unit.into(),
        median: middle.into_iter().sum::<f64>() / 2.0,
        low: *values.first()?,
        high: *values.last()?,
        mean: values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).ok()?),
        samples: values.len(),
        spread: Spread::Range,
    })
}

fn json(file: &Path) -> io::Result<Value> {
    serde_json::from_str(&text(file)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}

#[expect(clippy::disallowed_methods, reason = "what was measured lies in files")]
fn text(file: &Path) -> io::Result<String> {
    std::fs::read_to_string(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

fn missing(what: &str) -> io::Error {
    io::Error::other(format!("no `{what}` in what was measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_a_median_with_their_range() {
        let records =
            noted("wire/a,checks/s,30\nwire/b,checks/s,1\nwire/a,checks/s,10\nwire/a,checks/s,50\n");
        let a = &records[0];
        assert_eq!((a.name.as_str(), a.median, a.low, a.high, a.samples), ("wire/a", 30.0, 10.0, 50.0, 3));
        assert_eq!(records[1].median, 1.0);
        assert_eq!(noted("a,ns,1\na,ns,4\n")[0].median, 2.5);
    }

    #[test]
    fn what_criterion_measured_again_is_a_round() {
        let folder = tempfile::tempdir().unwrap();
        let look = |name: &str, at: &str, median: f64| {
            let folder = folder.path().join(at).join("new");
            std::fs::create_dir_all(&folder).unwrap();
            let about = format!("{{\"full_id\":\"{name}\"}}");
            let median = format!(
                "{{\"point_estimate\":{median},\"confidence_interval\":{{\"lower_bound\":1,\"upper_bound\":9}}}}"
            );
            let estimates = format!("{{\"median\":{median},\"mean\":{median}}}");
            let files =
                [("benchmark", about), ("estimates", estimates), ("sample", "{\"times\":[1,2]}".to_owned())];
            for (file, text) in files {
                std::fs::write(folder.join(file).with_extension("json"), text).unwrap();
            }
        };
        for (round, median) in [("1", 4.0), ("2", 2.0), ("3", 3.0)] {
            look("a", &format!("{round}/a"), median);
        }
        look("b", "b", 5.0);
        let records = Records::read(folder.path(), &folder.path().join("no notes")).unwrap();
        let a = records.named("a").unwrap();
        assert_eq!((a.median, a.low, a.high, a.samples, a.spread), (3.0, 2.0, 4.0, 3, Spread::Range));
        let b = records.named("b").unwrap();
        assert_eq!((b.median, b.low, b.high, b.samples, b.spread), (5.0, 1.0, 9.0, 2, Spread::Confidence));
    }

    #[test]
    fn points_of_a_curve_are_in_the_order_of_their_numbers() {
        let mut records = Records::default();
        for name in ["c/warm/1000", "c/warm/20", "c/warm/x", "c/warmer/1", "c/warm"] {
            records.insert(of_rounds(name, "ns", vec![1.0]).unwrap());
        }
        let points: Vec<f64> = records.curve("c/warm").iter().map(|(x, _)| *x).collect();
        assert_eq!(points, [20.0, 1000.0]);
        assert_eq!(records.to_csv().lines().count(), 6);
    }

    #[test]
    fn what_criterion_left_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("decide_warm/100/new");
        std::fs::create_dir_all(&new).unwrap();
        let estimate =
            r#"{"point_estimate":3.0,"confidence_interval":{"lower_bound":2.0,"upper_bound":4.0}}"#;
        let estimates = format!(r#"{{"median":{estimate},"mean":{estimate}}}"#);
        std::fs::write(new.join("estimates.json"), estimates).unwrap();
        std::fs::write(new.join("benchmark.json"), r#"{"full_id":"decide/warm/100"}"#).unwrap();
        std::fs::write(new.join("sample.json"), r#"{"times":[1.0,2.0]}"#).unwrap();
        let records = Records::read(folder.path(), &folder.path().join("none")).unwrap();
        let record = records.named("decide/warm/100").unwrap();
        assert_eq!((record.median, record.low, record.high, record.samples), (3.0, 2.0, 4.0, 2));
    }
}
