//! Formats numbers for people.

use std::time::Duration;

/// A duration with three digits and its unit: `213 µs`, `1.24 ms`.
pub fn duration(nanoseconds: f64) -> String {
    let scales = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match scales.into_iter().find(|(size, _)| nanoseconds >= *size * 0.9995) {
        Some((size, unit)) => format!("{} {unit}", digits(nanoseconds / size)),
        None => format!("{nanoseconds:.0} ns"),
    }
}

/// A duration in whole nanoseconds; a dash if there is none.
pub fn known(nanoseconds: Option<u64>) -> String {
    nanoseconds.map_or_else(|| "–".to_owned(), |nanoseconds| duration(float(nanoseconds)))
}

/// A number of microseconds without a unit, for columns that name it; a dash if there is none.
pub fn microseconds(nanoseconds: Option<f64>) -> String {
    match nanoseconds {
        None => "–".to_owned(),
        Some(nanoseconds) if nanoseconds.abs() < 100_000.0 => format!("{:.1}", nanoseconds / 1e3),
        Some(nanoseconds) => grouped(nanoseconds / 1e3),
    }
}

/// A [`Duration`] with three digits and its unit: `10.0 s`.
pub fn span(of: Duration) -> String {
    duration(of.as_secs_f64() * 1e9)
}

/// A whole number with thousands separators: `12,345`.
pub fn count(of: u64) -> String {
    let digits = of.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A float rounded to a whole number, with thousands separators.
pub fn grouped(of: f64) -> String {
    let sign = if of <= -0.5 { "-" } else { "" };
    format!("{sign}{}", count(whole(of.abs())))
}

/// Bytes in the unit that fits: `3.1 MiB`.
pub fn bytes(of: u64) -> String {
    let of = float(of);
    let scales = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB")];
    match scales.into_iter().find(|(size, _)| of >= *size) {
        Some((size, unit)) => format!("{} {unit}", digits(of / size)),
        None => format!("{of:.0} B"),
    }
}

/// A count as a float. Above 2^53, digits are lost that no report shows.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53")]
pub fn float(of: u64) -> f64 {
    of as f64
}

/// A non-negative float as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, as it should"
)]
pub fn whole(of: f64) -> u64 {
    of.round() as u64
}

/// Three significant digits.
fn digits(of: f64) -> String {
    if of >= 99.95 {
        format!("{of:.0}")
    } else if of >= 9.995 {
        format!("{of:.1}")
    } else {
        format!("{of:.2}")
    }
}
