//! HdrHistogram's text format, which its plotting tools read.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::units;

/// The steps between one halving of the distance to 100 % and the next, like in the format's own
/// tools.
const STEPS: u32 = 5;

/// The whole distribution, in milliseconds. The last line has no fourth column, because it would be
/// infinite.
pub fn hgrm(of: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    for step in of.iter_quantiles(STEPS) {
        let (value, at, count) = (
            milliseconds(step.value_iterated_to()),
            step.quantile_iterated_to(),
            of.count_between(0, step.value_iterated_to()),
        );
        let _ = write!(text, "{value:12.6} {at:2.12} {count:10}");
        if at < 1.0 {
            let _ = write!(text, " {:14.2}", 1.0 / (1.0 - at));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]",
        of.mean() / 1e6,
        of.stdev() / 1e6
    );
    let _ = writeln!(
        text,
        "#[Max     = {:12.6}, Total count    = {:12}]",
        milliseconds(of.max()),
        of.len()
    );
    let _ =
        writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", of.buckets(), sub_buckets(of));
    text
}

fn milliseconds(nanoseconds: u64) -> f64 {
    units::float(nanoseconds) / 1e6
}

/// The format's name for 2 × 10^digits, rounded up to a power of two.
fn sub_buckets(of: &Histogram<u64>) -> u64 {
    (2 * 10_u64.pow(u32::from(of.sigfig()))).next_power_of_two()
}
