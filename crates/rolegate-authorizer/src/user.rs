//! A user whom the application has authenticated.

use authorizer::Authorizer;
use explain::{Explainer, NamedCaller};
use identity::{CredentialsError, Subject};

use crate::Request;

/// A user whom the application has authenticated, by names as the policy has them: with the prefix
/// of their identity source, if the policy sets one.
///
/// ```
/// use rolegate_authorizer::User;
///
/// let carol = User::new("id:carol").issuer("https://id.example.com").group("id:staff");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    issuer: Option<String>,
    groups: Vec<String>,
    roles: Vec<String>,
}

/// Why no caller can have the names of a [`User`], and the names to use instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpossibleUser(String);

impl User {
    /// A user without groups and roles, except for those that the policy gives it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), issuer: None, groups: Vec::new(), roles: Vec::new() }
    }

    /// The issuer of the user's token, for a name that may come from several sources.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Adds a role that the user's token names.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// The subject. The inner error is that of the user's requests: the policy lists its users, and
    /// lacks this user.
    pub(crate) fn subject(
        &self,
        authorizer: &Authorizer,
        request: &Request<'_>,
    ) -> Result<Result<Subject, CredentialsError>, ImpossibleUser> {
        let Self { name, issuer, groups, roles } = self;
        let explainer = Explainer::new(authorizer);
        let host = String::from_utf8_lossy(request.host_bytes());
        let caller = NamedCaller { user: name, issuer: issuer.as_deref(), groups, roles };
        explainer.named_caller(&host, caller).map_err(|error| ImpossibleUser(error.to_string()))
    }
}

impl std::fmt::Display for ImpossibleUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ImpossibleUser {}
