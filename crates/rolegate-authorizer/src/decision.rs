//! The decision about a request.

use authorizer::Verdict;

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a request must not be served unless it is allowed"]
pub enum Decision {
    /// Serve the request, with these changes of its headers.
    Allowed(Allowed),
    /// Answer with this, and do not serve the request.
    Denied(Denied),
}

/// An allowed request. Before anything else reads its headers: first remove all lines of
/// [`Self::remove_headers`] and of the names in [`Self::set_headers`], then add these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    rule: String,
    user: Option<String>,
    set: Vec<(String, String)>,
    remove: Vec<String>,
}

/// A denied request, with the response to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    status: u16,
    reason: &'static str,
    rule: Option<String>,
    user: Option<String>,
    headers: Vec<(String, String)>,
    body: String,
}

impl Decision {
    /// Whether the request is allowed. Serving it then also takes the changes of its headers.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    pub(crate) fn new(verdict: &Verdict<'_>) -> Self {
        match verdict {
            Verdict::Allowed(allowed) => Self::Allowed(Allowed {
                rule: allowed.rule.to_owned(),
                user: allowed.subject.map(|subject| subject.user.to_string()),
                set: allowed
                    .set()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                remove: allowed.remove().map(str::to_owned).collect(),
            }),
            Verdict::Denied(denied) => Self::Denied(Denied {
                status: denied.reason.status(),
                reason: denied.reason.name(),
                rule: denied.rule.map(str::to_owned),
                user: denied.subject.map(|subject| subject.user.to_string()),
                headers: denied
                    .headers
                    .iter()
                    .map(|header| (header.name.to_owned(), header.value.to_string()))
                    .collect(),
                body: denied.body.to_owned(),
            }),
        }
    }
}

impl Allowed {
    /// The rule that allows it, as `role: rule`.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// The caller; `None` if it is anonymous.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The headers to set, in place of all lines with these names. Names are in lower case. With a
    /// search cluster `:path` may be among them: the path and query to forward instead.
    pub fn set_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The names of headers to remove: those that the policy sets or removes and the request may
    /// have, in each spelling that an application may take for them. Names may be in any case.
    pub fn remove_headers(&self) -> impl Iterator<Item = &str> {
        self.remove.iter().map(String::as_str)
    }
}

impl Denied {
    /// The HTTP status: 400, 401, 403, 413 or 503.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The name of the reason, such as `not_allowed`, as in the decision log. For people and logs.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.reason
    }

    /// The `deny` rule that matches, as `role: rule`, if any.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.rule.as_deref()
    }

    /// The caller; `None` if it is anonymous or not authenticated.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The headers of the response, such as `www-authenticate`. A name may occur more than once.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The body of the response.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }
}
