//! Which trace a request belongs to (W3C Trace Context), and whether a span is recorded of its
//! decision.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::share::Share;

/// The id of a trace or a span, never all zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id<const N: usize>([u8; N]);

/// A trace, and a span of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: Id<16>,
    /// The span.
    pub span_id: Id<8>,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

/// The trace of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTrace {
    /// With the span of the decision if one is recorded, else with that of who sent the request.
    pub context: TraceContext,
    /// Whether a span of the decision is recorded.
    pub is_recorded: bool,
    /// The span that the recorded one belongs to, if it does not begin the trace.
    pub parent: Option<Id<8>>,
}

/// The decisions that are part of traces, and those of which spans are recorded.
#[derive(Clone, Copy, Debug)]
pub enum Tracing {
    /// Decisions are part of traces, but spans are not recorded.
    Joined,
    /// Spans of decisions in traces that are recorded; of requests without a trace, this share
    /// begins one.
    Recorded(Share),
}

impl<const N: usize> Id<N> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Not for secrets: fast, and no longer random to whoever has seen many.
    fn random() -> Self {
        let mut bytes = [0; N];
        while bytes == [0; N] {
            fastrand::fill(&mut bytes);
        }
        Self(bytes)
    }

    /// Lower-case hexadecimal digits, not all zero.
    fn parse(hex: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        let (pairs, rest) = hex.as_chunks::<2>();
        if pairs.len() != N || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = parse_byte(pair)?;
        }
        (bytes != [0; N]).then_some(Self(bytes))
    }
}

impl TraceContext {
    /// Parses the value of a `traceparent` (W3C Trace Context, 3.2): `00-TRACE-SPAN-FLAGS`. Later
    /// versions may have more parts.
    #[must_use]
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let mut parts = traceparent.splitn(5, |byte| *byte == b'-');
        let version = parse_byte(parts.next()?)?;
        let trace_id = Id::parse(parts.next()?)?;
        let span_id = Id::parse(parts.next()?)?;
        let flags = parse_byte(parts.next()?)?;
        let has_more = parts.next().is_some();
        let is_valid = version != 0xff && (version != 0 || !has_more);
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

impl Tracing {
    /// The trace of a decision about a request in this trace, if a span is recorded: the sampled
    /// flag of the request counts, and without a trace the share.
    pub(crate) fn begin(self, caller: Option<TraceContext>) -> Option<DecisionTrace> {
        let Self::Recorded(share) = self else { return None };
        let is_sampled = caller.map_or_else(|| share.takes(), |caller| caller.is_sampled);
        is_sampled.then(|| {
            let trace_id = caller.map_or_else(Id::random, |caller| caller.trace_id);
            let context = TraceContext { trace_id, span_id: Id::random(), is_sampled };
            DecisionTrace {
                context,
                is_recorded: true,
                parent: caller.map(|caller| caller.span_id),
            }
        })
    }
}

impl<const N: usize> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse_byte(pair: &[u8]) -> Option<u8> {
    let [high, low] = pair else { return None };
    Some(parse_digit(*high)? << 4 | parse_digit(*low)?)
}

fn parse_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
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
            (context.trace_id.to_string(), context.span_id.to_string()),
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
        assert_eq!(Tracing::Joined.begin(Some(sampled)), None);
        let begun = all.begin(None).unwrap();
        assert_eq!((begun.is_recorded, begun.parent), (true, None));
    }
}
