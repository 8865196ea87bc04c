//! Ranges of whole numbers as regular expressions.

/// A regular expression for the texts that Envoy reads as a number from `from` to before `until`;
/// `None` if there is no such number. Envoy uses `absl::SimpleAtoi`, which accepts a sign and
/// leading zeros.
pub(crate) fn regex(from: i64, until: i64) -> Option<String> {
    let last = until.checked_sub(1).filter(|last| from <= *last)?;
    let mut forms = Vec::new();
    if let Ok(last) = u64::try_from(last) {
        let smallest = u64::try_from(from).unwrap_or(0);
        forms.push(format!("[+]?0*(?:{})", between(smallest, last).join("|")));
        if smallest == 0 {
            forms.push("-0+".to_owned());
        }
    }
    if from < 0 {
        let smallest = if last < 0 { last.unsigned_abs() } else { 1 };
        forms.push(format!("-0*(?:{})", between(smallest, from.unsigned_abs()).join("|")));
    }
    Some(format!("^(?:{})$", forms.join("|")))
}

/// Alternatives that match the decimal numbers from `first` to `last`.
fn between(first: u64, last: u64) -> Vec<String> {
    let (mut alternatives, mut start) = (Vec::new(), first);
    loop {
        let stop = block_end(start, last);
        alternatives.push(block(start, stop));
        match stop.checked_add(1) {
            Some(next) if stop < last => start = next,
            _ => return alternatives,
        }
    }
}

/// The end of the largest block that begins at `start` and does not go beyond `last`. The numbers
/// of a block have the same first digits, then one digit of a range, then any digits.
fn block_end(start: u64, last: u64) -> u64 {
    let (mut end, mut unit) = (start, 1_u64);
    // `start` is a multiple of `unit`, and the block counts in units.
    loop {
        let digit = start / unit % 10;
        let room = (last - start).saturating_add(1) / unit;
        // The digit goes up to 9 at most.
        let steps = room.min(10 - digit);
        if steps == 0 {
            return end;
        }
        end = start + (steps * unit - 1);
        // A block has only numbers of the same length, so `0` does not begin a block beyond `9`.
        match unit.checked_mul(10) {
            Some(next) if digit == 0 && steps == 10 && start > 0 => unit = next,
            _ => return end,
        }
    }
}

/// A regular expression for the numbers of a block.
fn block(start: u64, stop: u64) -> String {
    let (start, stop) = (start.to_string(), stop.to_string());
    let (mut regex, mut any) = (String::new(), 0);
    for (low, high) in start.chars().zip(stop.chars()) {
        match (low, high) {
            (low, high) if low == high => regex.push(low),
            ('0', '9') => any += 1,
            (low, high) => regex += &format!("[{low}-{high}]"),
        }
    }
    match any {
        0 => regex,
        1 => regex + "[0-9]",
        any => regex + &format!("[0-9]{{{any}}}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use condition::{Condition, Headers, Inputs, NamedConditions, RequestInputs};

    use super::regex;

    struct Value(String);

    impl Headers for Value {
        fn header(&self, _: &str) -> Result<&[u8], condition::Fault> {
            Ok(self.0.as_bytes())
        }

        fn count(&self) -> usize {
            1
        }
    }

    fn matches(regex: &str, text: &str) -> bool {
        let when: Arc<str> = format!("request.headers['n'].matches('{regex}')").into();
        let condition = Condition::parse(&when, &NamedConditions::default()).unwrap();
        let value = Value(text.to_owned());
        let request = RequestInputs { headers: Some(&value), ..RequestInputs::default() };
        let inputs = Inputs { request, ..Inputs::default() };
        condition::holds(&condition.expression, &inputs) == Some(true)
    }

    #[test]
    fn a_range_matches_its_numbers() {
        let interesting =
            [-1000, -101, -100, -99, -11, -10, -9, -1, 0, 1, 9, 10, 11, 99, 100, 101, 999, 1000];
        for from in interesting {
            for until in interesting {
                let regex = regex(from, until);
                for number in interesting.into_iter().flat_map(|n| [n - 1, n, n + 1]) {
                    let found =
                        regex.as_ref().is_some_and(|regex| matches(regex, &number.to_string()));
                    assert_eq!(found, (from..until).contains(&number), "{from} {until} {number}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_read_as_envoy_reads_them() {
        let regex = regex(-1, 12).unwrap();
        for text in ["+5", "007", "-0", "-01", "0", "+011"] {
            assert!(matches(&regex, text), "{text}");
        }
        for text in ["", "-", "+", "5,6", "5a", "0x5", "1.0", "--1", "12", "-2"] {
            assert!(!matches(&regex, text), "{text}");
        }
        let all = super::regex(i64::MIN, i64::MAX).unwrap();
        for text in ["-9223372036854775808", "9223372036854775806", "0"] {
            assert!(matches(&all, text), "{text}");
        }
        for text in ["-9223372036854775809", "9223372036854775807", "99999999999999999999"] {
            assert!(!matches(&all, text), "{text}");
        }
        assert!(super::regex(5, 5).is_none() && super::regex(5, i64::MIN).is_none());
    }
}
