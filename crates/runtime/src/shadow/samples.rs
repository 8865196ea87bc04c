//! Log lines about some of the requests that a shadow policy decides otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decided::{DecidedRequest, Decision, Difference};
use crate::decisions::Masks;

/// The most lines about one kind of difference in an [`INTERVAL`].
const MAX_LINES: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(1);
const LONGEST: usize = 1024;

/// Logs requests, masked as in the decision log.
#[derive(Debug)]
pub(super) struct Samples {
    masks: Arc<Masks>,
    /// How many lines about each difference there were lately: since when, and how many.
    lines: [Option<(Instant, u32)>; Difference::ALL.len()],
}

impl Samples {
    pub(super) fn new(masks: Arc<Masks>) -> Self {
        Self { masks, lines: Default::default() }
    }

    /// Logs a request that the shadow policy decides otherwise, if there were few such lines
    /// lately. A line about another rule for the same answer has the level `debug`: under a policy
    /// that renames a role all have one.
    pub(super) fn offer(
        &mut self,
        difference: Difference,
        request: &DecidedRequest,
        shadow: Decision<'_>,
        revision: &str,
    ) {
        if matches!(difference, Difference::Same | Difference::NotCompared)
            || !self.admits(difference, Instant::now())
        {
            return;
        }
        let user = request.user().and_then(|user| self.masks.user(user));
        let lossy = String::from_utf8_lossy;
        let (method, path) = (lossy(&request.method), lossy(request.path()));
        let path = self.masks.path(&method, &path);
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    difference = difference.name(),
                    user = user.as_deref().map(|user| text(user.as_bytes())),
                    issuer = request.issuer().map(|issuer| text(issuer.as_bytes())),
                    method = text(&request.method),
                    host = text(&request.host),
                    path = text(path.as_bytes()),
                    request_id = text(&request.id),
                    x_request_id =
                        Some(&*request.x_request_id).filter(|id| !id.is_empty()).map(text),
                    active_reason = request.decision().reason_name(),
                    active_rule = request.decision().rule,
                    active_policy = &*request.revision,
                    shadow_reason = shadow.reason_name(),
                    shadow_rule = shadow.rule,
                    shadow_policy = revision,
                    $message
                )
            };
        }
        match difference {
            Difference::Same | Difference::NotCompared => {}
            Difference::WouldAllow => {
                log!(info, "the shadow policy would allow a request that is denied")
            }
            Difference::WouldDeny => {
                log!(info, "the shadow policy would deny a request that is allowed")
            }
            Difference::UnknownCaller => log!(info, "the shadow policy does not accept the caller"),
            Difference::OtherRule => log!(debug, "the shadow policy decides by another rule"),
        }
    }

    /// Whether there may be another line about this difference now.
    fn admits(&mut self, difference: Difference, now: Instant) -> bool {
        let counts = Difference::ALL.into_iter().zip(&mut self.lines);
        let Some((_, lines)) = counts.into_iter().find(|(each, _)| *each == difference) else {
            return false;
        };
        match lines {
            Some((since, number)) if now.saturating_duration_since(*since) < INTERVAL => {
                *number += 1;
                *number <= MAX_LINES
            }
            Some(_) | None => {
                *lines = Some((now, 1));
                true
            }
        }
    }
}

/// A value that a client chose: cut, and without control characters.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
    let show = |character: char| {
        if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }
    };
    String::from_utf8_lossy(bytes).chars().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_per_second_and_difference() {
        let masks = Masks::new(&crate::settings::DecisionLogSettings::off()).unwrap();
        let mut samples = Samples::new(Arc::new(masks));
        let start = Instant::now();
        let admitted = |samples: &mut Samples, difference, at| {
            (0..100).filter(|_| samples.admits(difference, at)).count()
        };
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start), 5);
        assert_eq!(admitted(&mut samples, Difference::WouldDeny, start), 5);
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start + INTERVAL / 2), 0);
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start + INTERVAL), 5);
    }

    #[test]
    fn values_are_short_and_have_no_control_characters() {
        assert_eq!(text(b"/a\x1b[2J\n\xff"), "/a\u{fffd}[2J\u{fffd}\u{fffd}");
        assert_eq!(text(&[b'x'; 5000]).len(), LONGEST);
    }
}
