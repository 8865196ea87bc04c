//! The trace of a request (W3C Trace Context), and whether a span of its decision is recorded.

use crate::share::Share;

/// A trace, and a span of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace, never 0.
    pub trace_id: u128,
    /// The span, never 0.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

/// The trace of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTrace {
    /// Contains the span of the decision if it is recorded, else the span of the caller.
    pub context: TraceContext,
    /// Whether a span of the decision is recorded.
    pub is_recorded: bool,
    /// The parent of the recorded span; `None` if the span begins the trace.
    pub parent: Option<u64>,
}

/// Which decisions have a recorded span.
#[derive(Clone, Copy, Debug)]
pub enum Tracing {
    /// No decision has a span. The log record of a decision has the ids of the caller's trace.
    Unrecorded,
    /// Decisions in sampled traces have spans; this share of the requests without a trace begins a
    /// trace.
    Recorded(Share),
}

impl TraceContext {
    /// Parses the value of a `traceparent` (W3C Trace Context, 3.2): `00-TRACE-SPAN-FLAGS`. Later
    /// versions may have more parts.
    #[must_use]
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let mut parts = traceparent.splitn(5, |byte| *byte == b'-');
        let version = parse_hex(parts.next()?, 2)?;
        let trace_id = parse_hex(parts.next()?, 32)?;
        let span_id = u64::try_from(parse_hex(parts.next()?, 16)?).ok()?;
        let flags = parse_hex(parts.next()?, 2)?;
        let has_more = parts.next().is_some();
        let is_valid = version != 0xff && (version != 0 || !has_more);
        (is_valid && trace_id != 0 && span_id != 0).then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & 1 == 1,
        })
    }
}

impl DecisionTrace {
    /// The trace of the caller, without a span of the decision.
    pub(crate) fn unrecorded(context: TraceContext) -> Self {
        Self { context, is_recorded: false, parent: None }
    }
}

impl Tracing {
    /// The trace of a decision, if a span is recorded. The sampled flag of the caller's trace
    /// decides; without a trace, the share does.
    pub(crate) fn begin(self, caller: Option<TraceContext>) -> Option<DecisionTrace> {
        let Self::Recorded(share) = self else { return None };
        let is_sampled = caller.map_or_else(|| share.selects_next(), |caller| caller.is_sampled);
        is_sampled.then(|| {
            // The ids are no secrets, so a fast generator suffices.
            let trace_id = caller.map_or_else(|| fastrand::u128(1..), |caller| caller.trace_id);
            let context = TraceContext { trace_id, span_id: fastrand::u64(1..), is_sampled };
            let parent = caller.map(|caller| caller.span_id);
            DecisionTrace { context, is_recorded: true, parent }
        })
    }
}

/// Parses exactly `length` lower-case hexadecimal digits.
fn parse_hex(digits: &[u8], length: usize) -> Option<u128> {
    let is_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != length || !digits.iter().all(is_hex) {
        return None;
    }
    u128::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parse(text: &str) -> Option<TraceContext> {
        TraceContext::parse(text.as_bytes())
    }

    #[test]
    fn a_valid_traceparent_is_read() {
        let context = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(
            (format!("{:032x}", context.trace_id), format!("{:016x}", context.span_id)),
            (TRACE.into(), SPAN.into())
        );
        assert!(context.is_sampled);
        assert!(!parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled);
        assert!(parse(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().is_sampled);
        assert!(parse(&format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be")).is_some());
    }

    #[test]
    fn one_that_is_not_valid_is_none() {
        for text in [
            "",
            "00",
            "00-0-0-00",
            &format!("00-{TRACE}-{SPAN}"),
            &format!("00-{TRACE}-{SPAN}-"),
            &format!("00-{TRACE}-{SPAN}-1"),
            &format!("00-{TRACE}-{SPAN}-01-more"),
            &format!("ff-{TRACE}-{SPAN}-01"),
            &format!("0-{TRACE}-{SPAN}-01"),
            &format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            &format!("00-{}-{SPAN}-01", "0".repeat(32)),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-{TRACE}0-{SPAN}-01"),
            &format!("00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01"),
            &format!("00-{TRACE}-{SPAN}-0g"),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(TraceContext::parse(b"00-\xff"), None);
    }

    #[test]
    fn the_callers_flag_counts_and_without_a_trace_the_ratio() {
        let (all, none) = (Tracing::Recorded(Share::ALL), Tracing::Recorded(Share::NONE));
        let sampled = parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        let begun = none.begin(Some(sampled)).unwrap();
        assert_eq!(begun.context.trace_id, sampled.trace_id);
        assert_ne!(begun.context.span_id, sampled.span_id);
        assert_eq!((begun.is_recorded, begun.parent), (true, Some(sampled.span_id)));
        assert_eq!(all.begin(Some(TraceContext { is_sampled: false, ..sampled })), None);
        assert_eq!(none.begin(None), None);
        assert_eq!(Tracing::Unrecorded.begin(Some(sampled)), None);
        let begun = all.begin(None).unwrap();
        assert_eq!((begun.is_recorded, begun.parent), (true, None));
    }
}
