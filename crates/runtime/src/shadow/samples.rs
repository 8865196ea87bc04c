//! Log lines about some of the requests that a shadow policy decides differently from the active
//! policy.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decided::{DecidedRequest, Decision, Difference};
use crate::decisions::Masks;
use crate::record::{MAX_VALUE, without_query};

/// Maximum number of lines about a kind of difference in an [`INTERVAL`].
const MAX_LINES: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs requests, masked as in the decision log.
#[derive(Debug)]
pub(super) struct Samples {
    masks: Arc<Masks>,
    /// For each difference, the start of its current interval, and the number of its requests in
    /// this interval. Only the first [`MAX_LINES`] of them are logged.
    lines: [Option<(Instant, u32)>; Difference::NAMES.len()],
}

impl Samples {
    pub(super) fn new(masks: Arc<Masks>) -> Self {
        Self { masks, lines: Default::default() }
    }

    /// Logs a request that the shadow policy decides differently, at most [`MAX_LINES`] per
    /// [`INTERVAL`] and difference. A line about another rule for the same answer has the level
    /// `debug`: a policy that renames a role causes such a line for each request.
    pub(super) fn offer(
        &mut self,
        difference: Difference,
        request: &DecidedRequest,
        shadow: Decision<'_>,
        revision: &str,
    ) {
        if matches!(difference, Difference::Same | Difference::NotCompared | Difference::Error)
            || !self.admit(difference, Instant::now())
        {
            return;
        }
        let [method, host, path, id, x_request_id, _, _, user, issuer, _, _, active_policy] =
            request.texts();
        let lossy = String::from_utf8_lossy;
        let user = self.masks.user(lossy(user));
        let path = lossy(without_query(path));
        let path = self.masks.path(&lossy(method), &path).map_or(path, Cow::Owned);
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    difference = difference.name(),
                    user = non_empty(user.as_bytes()),
                    issuer = non_empty(issuer),
                    method = printable(method),
                    host = printable(host),
                    path = printable(path.as_bytes()),
                    request_id = printable(id),
                    x_request_id = non_empty(x_request_id),
                    active_reason = request.decision().reason_name(),
                    active_rule = request.decision().rule,
                    active_policy = printable(active_policy),
                    shadow_reason = shadow.reason_name(),
                    shadow_rule = shadow.rule,
                    shadow_policy = revision,
                    $message
                )
            };
        }
        match difference {
            Difference::Same | Difference::NotCompared | Difference::Error => {}
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
    fn admit(&mut self, difference: Difference, now: Instant) -> bool {
        let Some(lines) = self.lines.get_mut(difference as usize) else { return false };
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
fn printable(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MAX_VALUE).unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    text.replace(char::is_control, "\u{fffd}")
}

fn non_empty(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| printable(bytes))
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
            (0..100).filter(|_| samples.admit(difference, at)).count()
        };
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start), 5);
        assert_eq!(admitted(&mut samples, Difference::WouldDeny, start), 5);
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start + INTERVAL / 2), 0);
        assert_eq!(admitted(&mut samples, Difference::WouldAllow, start + INTERVAL), 5);
    }

    #[test]
    fn values_are_short_and_have_no_control_characters() {
        assert_eq!(printable(b"/a\x1b[2J\n\xff"), "/a\u{fffd}[2J\u{fffd}\u{fffd}");
        assert_eq!(printable(&[b'x'; 5000]).len(), MAX_VALUE);
    }
}
