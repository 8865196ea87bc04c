//! An owned copy of a verdict: the verdict borrows the request's headers, which are about to change. The buffers are reused,
//! so that a request of a caller whose credentials are cached allocates nothing here.

use std::ops::Range;

use authorizer::Verdict;
use identity::Subject;
use smallvec::SmallVec;

use crate::abi::{Filter, Handled, Reply, Stream};

/// An owned copy of a verdict, with the revision of its policy.
#[derive(Debug, Default)]
pub(crate) struct OwnedVerdict {
    text: String,
    /// The status of a denial; 0 for an allowed request.
    status: u16,
    reason: &'static str,
    rule: Range<usize>,
    user: Range<usize>,
    revision: Range<usize>,
    /// Headers to set, of the request or of the denial.
    set: Vec<(Range<usize>, Range<usize>)>,
    remove: Vec<Range<usize>>,
    body: Range<usize>,
}

/// The most bytes that are kept from one request to the next.
const KEEP: usize = 16 << 10;

impl OwnedVerdict {
    /// Copies a verdict.
    pub(crate) fn set(&mut self, verdict: &Verdict<'_>, revision: &str) {
        self.text.clear();
        self.text.shrink_to(KEEP);
        self.set.clear();
        self.remove.clear();
        self.body = 0..0;
        let (rule, subject) = match verdict {
            Verdict::Allowed(allowed) => {
                (self.status, self.reason) = (0, "");
                for (name, value) in allowed.set() {
                    let header = (self.copy(name), self.copy(value));
                    self.set.push(header);
                }
                for name in allowed.remove() {
                    let name = self.copy(name);
                    self.remove.push(name);
                }
                (Some(allowed.rule), allowed.subject)
            }
            Verdict::Denied(denied) => {
                (self.status, self.reason) = (denied.reason.status(), denied.reason.name());
                for header in denied.headers {
                    let header = (self.copy(header.name), self.copy(&header.value));
                    self.set.push(header);
                }
                self.body = self.copy(denied.body);
                (denied.rule, denied.subject)
            }
        };
        self.rule = self.copy(rule.unwrap_or_default());
        self.user = self.copy(subject.map_or("", |subject: &Subject| &subject.user));
        self.revision = self.copy(revision);
    }

    /// The name of the reason for a denial.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        (self.status != 0).then_some(self.reason)
    }

    /// Lets the request go on with its headers changed, or answers it.
    ///
    /// # Errors
    /// The stream, if a header cannot be set.
    pub(crate) fn apply<'s, F: Filter>(
        &self,
        mut stream: Stream<'s, F>,
        metadata: bool,
    ) -> Result<Handled, Stream<'s, F>> {
        if metadata {
            self.describe(&mut stream);
        }
        if self.status != 0 {
            let headers: SmallVec<[_; 4]> = self
                .set
                .iter()
                .map(|(name, value)| (self.at(name).as_bytes(), self.at(value).as_bytes()))
                .collect();
            let body = self.at(&self.body).as_bytes();
            let details = "rolegate_denied";
            return Ok(stream.reply(&Reply { status: self.status, headers: &headers, body, details }));
        }
        for (name, value) in &self.set {
            if !stream.set_header(self.at(name).as_bytes(), self.at(value).as_bytes()) {
                return Err(stream);
            }
        }
        for name in &self.remove {
            stream.remove_header(self.at(name).as_bytes());
        }
        Ok(stream.proceed())
    }

    fn describe<F: Filter>(&self, stream: &mut Stream<'_, F>) {
        let decision = if self.status == 0 { "allowed" } else { "denied" };
        let all = [
            ("decision", decision),
            ("reason", self.reason),
            ("rule", self.at(&self.rule)),
            ("user", self.at(&self.user)),
            ("revision", self.at(&self.revision)),
        ];
        let known: SmallVec<[_; 5]> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        stream.set_metadata("rolegate", &known);
    }

    fn copy(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    fn at(&self, range: &Range<usize>) -> &str {
        // Each range was returned by `copy` since the text was cleared.
        self.text.get(range.clone()).unwrap_or_default()
    }
}
