//! The measurements of the benchmarks: one record for each.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::records::{Ends, Record};
use crate::spread::Spread;

/// The records of a run, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(BTreeMap<String, Record>);

impl Records {
    /// Reads all of criterion's results in a folder, and the notes file if it exists. Several
    /// measurements with one name are rounds of one benchmark.
    pub(crate) fn read(criterion: &Path, notes: &Path) -> io::Result<Self> {
        let mut records = Self::default();
        let mut found = Vec::new();
        find(criterion, &mut found)?;
        let mut measured: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        for folder in found {
            let record = once(&folder)?;
            measured.entry(record.name.clone()).or_default().push(record);
        }
        measured.into_values().filter_map(combined).for_each(|record| records.insert(record));
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
    pub(crate) fn named(&self, name: &str) -> Option<&Record> {
        self.0.get(name)
    }

    /// All records, sorted by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Record> {
        self.0.values()
    }

    /// The records whose names start with `start`, sorted by name.
    pub(crate) fn below<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a Record> {
        self.all().filter(move |record| record.name.starts_with(start))
    }

    /// The records `curve/NUMBER`, sorted by number.
    pub(crate) fn curve(&self, curve: &str) -> Vec<(f64, &Record)> {
        let point = |record: &Record| {
            record.name.strip_prefix(curve)?.strip_prefix('/')?.parse::<f64>().ok()
        };
        let mut points: Vec<_> =
            self.all().filter_map(|record| point(record).map(|x| (x, record))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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
fn combined(mut measured: Vec<Record>) -> Option<Record> {
    if measured.len() == 1 {
        return measured.pop();
    }
    let Record { name, unit, .. } = measured.first()?;
    let medians: Vec<f64> = measured.iter().map(|record| record.spread.median).collect();
    Record::of_rounds(name, unit, &medians)
}

fn once(folder: &Path) -> io::Result<Record> {
    let read = |file| json(&folder.join(file));
    let (about, estimates, sample) =
        (read("benchmark.json")?, read("estimates.json")?, read("sample.json")?);
    let estimate =
        |path: &str| estimates.pointer(path).and_then(Value::as_f64).ok_or_else(|| missing(path));
    Ok(Record {
        name: about
            .get("full_id")
            .and_then(Value::as_str)
            .ok_or_else(|| missing("full_id"))?
            .into(),
        unit: "ns".into(),
        spread: Spread {
            median: estimate("/median/point_estimate")?,
            low: estimate("/median/confidence_interval/lower_bound")?,
            high: estimate("/median/confidence_interval/upper_bound")?,
        },
        ends: Ends::Confidence,
        samples: sample.get("times").and_then(Value::as_array).map_or(0, Vec::len),
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
    let record = |((name, unit), values): ((&str, &str), Vec<f64>)| {
        Record::of_few_or_many(name, unit, &values)
    };
    rounds.into_iter().filter_map(record).collect()
}

fn json(file: &Path) -> io::Result<Value> {
    serde_json::from_str(&text(file)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}

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
        let records = noted(
            "wire/a,checks/s,30\nwire/b,checks/s,1\nwire/a,checks/s,10\nwire/a,checks/s,50\n",
        );
        assert_eq!(
            records[0],
            Record::of_rounds("wire/a", "checks/s", &[10.0, 30.0, 50.0]).unwrap()
        );
        assert_eq!(records[1].spread.median, 1.0);
    }

    #[test]
    fn what_criterion_measured_again_is_a_round() {
        let folder = tempfile::tempdir().unwrap();
        let measured = |name: &str, at: &str, median: f64| {
            let folder = folder.path().join(at).join("new");
            std::fs::create_dir_all(&folder).unwrap();
            let interval = serde_json::json!({ "lower_bound": 1, "upper_bound": 9 });
            let median =
                serde_json::json!({ "point_estimate": median, "confidence_interval": interval });
            let files = [
                ("benchmark", serde_json::json!({ "full_id": name })),
                ("estimates", serde_json::json!({ "median": median })),
                ("sample", serde_json::json!({ "times": [1, 2] })),
            ];
            for (file, content) in files {
                std::fs::write(folder.join(file).with_extension("json"), content.to_string())
                    .unwrap();
            }
        };
        for (round, median) in [("1", 4.0), ("2", 2.0), ("3", 3.0)] {
            measured("a", &format!("{round}/a"), median);
        }
        measured("b", "b", 5.0);
        let records = Records::read(folder.path(), &folder.path().join("no notes")).unwrap();
        assert_eq!(records.named("a"), Record::of_rounds("a", "ns", &[4.0, 2.0, 3.0]).as_ref());
        let b = records.named("b").unwrap();
        assert_eq!((b.spread, b.samples), (Spread { median: 5.0, low: 1.0, high: 9.0 }, 2));
        assert_eq!(b.ends, Ends::Confidence);
    }

    #[test]
    fn points_of_a_curve_are_in_the_order_of_their_numbers() {
        let mut records = Records::default();
        for name in ["c/warm/1000", "c/warm/20", "c/warm/x", "c/warmer/1", "c/warm"] {
            records.insert(Record::of_rounds(name, "ns", &[1.0]).unwrap());
        }
        let points: Vec<f64> = records.curve("c/warm").iter().map(|(x, _)| *x).collect();
        assert_eq!(points, [20.0, 1000.0]);
    }
}
