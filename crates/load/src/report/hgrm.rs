//! HdrHistogram's text format, which its plotting tools read.

use hdrhistogram::Histogram;

use super::units;

/// The steps within each halving of the distance to 100 %, like in the format's own tools.
const STEPS: u32 = 5;

/// The whole distribution, in milliseconds. The last line has no fourth column, because it would be
/// infinite.
pub fn hgrm(latencies: &Histogram<u64>) -> String {
    let mut text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n".to_owned();
    for step in latencies.iter_quantiles(STEPS) {
        let (value, quantile) = (step.value_iterated_to(), step.quantile_iterated_to());
        let count = latencies.count_between(0, value);
        text += &format!("{:12.6} {quantile:2.12} {count:10}", milliseconds(value));
        if quantile < 1.0 {
            text += &format!(" {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    // The format's name for 2 × 10^digits, rounded up to a power of two.
    let sub_buckets = (2 * 10_u64.pow(u32::from(latencies.sigfig()))).next_power_of_two();
    let (mean, deviation) = (latencies.mean() / 1e6, latencies.stdev() / 1e6);
    let (max, count) = (milliseconds(latencies.max()), latencies.len());
    let buckets = latencies.buckets();
    text + &format!(
        "#[Mean    = {mean:12.6}, StdDeviation   = {deviation:12.6}]\n\
         #[Max     = {max:12.6}, Total count    = {count:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n"
    )
}

fn milliseconds(nanoseconds: u64) -> f64 {
    units::float(nanoseconds) / 1e6
}
