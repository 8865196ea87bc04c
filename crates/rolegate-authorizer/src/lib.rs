//! Authorizes HTTP requests inside an application, by a policy of rolegate.
//!
//! The decisions are those of `rolegate serve` for the same policy. What no rule allows is denied,
//! and so is a path that servers may read in different ways.
//!
//! ```
//! use rolegate_authorizer::{Authorizer, Decision, Request};
//!
//! let policy = r#"
//! version: 1
//! identity: { basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } } }
//! roles: { reader: { allow: ["GET /people/{id}"] } }
//! grants: { reader: { users: [ann] } }
//! allow_response: { set_headers: { x-user: "{user}" } }
//! "#;
//! let authorizer = Authorizer::from_text(policy)?;
//!
//! // ann:password
//! let request = Request::new("GET", "/people/7").header("authorization", "Basic YW5uOnBhc3N3b3Jk");
//! let Decision::Allowed(allowed) = authorizer.authorize(&request) else { panic!() };
//! assert_eq!(allowed.user(), Some("ann"));
//! assert_eq!(allowed.set_headers().collect::<Vec<_>>(), [("x-user", "ann")]);
//!
//! let Decision::Denied(denied) = authorizer.authorize(&Request::new("GET", "/people/7")) else {
//!     panic!()
//! };
//! assert_eq!((denied.status(), denied.reason()), (401, "missing_credentials"));
//! # Ok::<(), rolegate_authorizer::LoadError>(())
//! ```
//!
//! * [`Authorizer::load`] reads a policy, once: to follow its changes, load it again and replace
//!   the value. [`Authorizer::from_files`] takes the texts of its files.
//! * [`Authorizer::authorize`] verifies the credentials of a request,
//!   [`Authorizer::authorize_user`] decides for a user whom the application has authenticated.
//! * An allowed request must get [the changes of its headers](Allowed), or the application must read
//!   none of these headers: clients can send them, too.
//! * [`Authorizer::explain`] says why.
//!
//! Everything runs on the calling thread: no thread is started, nothing is fetched, and no state
//! is shared between two authorizers. A password that is not in the authorizer's cache takes
//! milliseconds to verify, so call [`Authorizer::authorize`] where a thread may block.
//! `examples/axum` is a tower layer that does.
//!
//! Give it the path exactly as the client sent it, and route by that path: a framework that decodes
//! or rewrites it before it routes may serve another path than was authorized.

mod decision;
mod load;
mod request;
mod user;

use std::fmt;

use authorizer::Scratch;
use explain::{ExplainedSubject, Explainer};

pub use decision::{Allowed, Decision, Denied};
pub use load::{LoadError, PolicyProblem};
pub use request::Request;
pub use user::{ImpossibleUser, User};

/// A policy, ready to decide. Threads share it.
pub struct Authorizer {
    inner: authorizer::Authorizer,
    warnings: Vec<PolicyProblem>,
}

impl Authorizer {
    /// Authorizes a request: authenticates its caller by the credentials in it, and evaluates the
    /// policy.
    ///
    /// The keys of tokens come from the files of the policy. A token of an issuer whose keys have a
    /// URL is denied (401, `keys_unavailable`), and so is a token that must be introspected.
    pub fn authorize(&self, request: &Request<'_>) -> Decision {
        let (now, lines) = (request.time_or_now(), request.lines());
        let mut scratch = Scratch::default();
        let inner = request.inner(&lines);
        Decision::new(&self.inner.check_inline(&inner, &mut scratch, now))
    }

    /// Authorizes a request of a user whom the application has authenticated. Credentials in the
    /// request are not verified.
    ///
    /// ```
    /// use rolegate_authorizer::{Authorizer, Request, User};
    ///
    /// let policy = "
    /// version: 1
    /// roles: { editor: { allow: [POST /articles] } }
    /// grants: { editor: { groups: [editors] } }
    /// ";
    /// let authorizer = Authorizer::from_text(policy)?;
    /// let bob = User::new("bob").group("editors");
    /// let decision = authorizer.authorize_user(&Request::new("POST", "/articles"), &bob)?;
    /// assert!(decision.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the policy has identity sources, and credentials of none of them can give these names.
    pub fn authorize_user(
        &self,
        request: &Request<'_>,
        user: &User,
    ) -> Result<Decision, ImpossibleUser> {
        let (now, lines) = (request.time_or_now(), request.lines());
        let subject = user.subject(&self.inner, request)?;
        let mut scratch = Scratch::default();
        let inner = request.inner(&lines);
        Ok(Decision::new(&self.inner.check_as(&inner, subject.map(Some), &mut scratch, now)))
    }

    /// Says in words, as `rolegate explain` does, why a request is allowed or denied. It evaluates
    /// every rule: for people, not for each request.
    ///
    /// ```
    /// # use rolegate_authorizer::{Authorizer, Request};
    /// let authorizer = Authorizer::from_text("version: 1\nroles: { anyone: { allow: [GET /a] } }")?;
    /// let explanation = authorizer.explain(&Request::new("GET", "/b"));
    /// assert!(explanation.contains("missing_credentials"), "{explanation}");
    /// # Ok::<(), rolegate_authorizer::LoadError>(())
    /// ```
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> String {
        self.explanation(request, ExplainedSubject::FromRequest)
    }

    /// The same for a user whom the application has authenticated.
    ///
    /// # Errors
    /// As for [`Self::authorize_user`].
    pub fn explain_user(
        &self,
        request: &Request<'_>,
        user: &User,
    ) -> Result<String, ImpossibleUser> {
        let subject = user.subject(&self.inner, request)?;
        let subject = subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given);
        Ok(self.explanation(request, subject))
    }

    /// What is probably not intended in the policy's identity sources, such as a weak hash.
    /// `rolegate check` warns of more.
    #[must_use]
    pub fn warnings(&self) -> &[PolicyProblem] {
        &self.warnings
    }

    /// The revision of the policy: the same for the same files on every machine, and the same as in
    /// rolegate's decision log.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.inner.revision().policy
    }

    fn explanation(&self, request: &Request<'_>, subject: ExplainedSubject) -> String {
        let lines = request.lines();
        let explainer = Explainer::new(&self.inner);
        explainer.explain(&request.inner(&lines), subject, request.time_or_now()).to_string()
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
