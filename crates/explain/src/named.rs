//! Callers as a person names them: a user, the issuer of its token, its groups and roles.

use identity::{CredentialsError, Subject};
use policy::model::{Identity, Issuer, SourceId};

use crate::Explainer;
use crate::names::{missing_prefix_message, unknown_issuer};
use crate::subjects::unverified_subject;

/// A caller as a person names it. The names have the prefixes of its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedCaller<'a> {
    /// The user.
    pub user: &'a str,
    /// The issuer of its token; `None` for the source that its name can come from.
    pub issuer: Option<&'a str>,
    /// More groups than the policy gives it.
    pub groups: &'a [String],
    /// More roles than the policy gives it.
    pub roles: &'a [String],
}

/// Why no caller can have these names, and the names to use instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImpossibleCaller(String);

impl Explainer<'_> {
    /// A user with more groups and roles than the policy gives it, as if it were authenticated: by
    /// a token of this issuer, or by the source that its name can come from.
    ///
    /// The inner error is the error of the user's requests, if the source that lists such users
    /// lacks the user.
    ///
    /// # Errors
    /// If no credentials of that source can give these names.
    pub fn named_caller(
        self,
        host: &str,
        caller: NamedCaller<'_>,
    ) -> Result<Result<Subject, CredentialsError>, ImpossibleCaller> {
        let NamedCaller { user, issuer, groups, roles } = caller;
        let Some(name) = issuer else {
            let identity = self.identity_on(host.as_bytes());
            if let Some(message) = missing_prefix_message(user, identity) {
                return Err(ImpossibleCaller(message));
            }
            let subject = self.subject_named(host.as_bytes(), user, groups, roles);
            if let Ok(subject) = &subject {
                caller.check_sources(identity, subject.source)?;
            }
            return Ok(subject);
        };
        let issuers = &self.policy().identity.jwt;
        let mut numbered = issuers.iter().enumerate();
        let Some((index, issuer)) = numbered.find(|(_, issuer)| *issuer.issuer == *name) else {
            return Err(ImpossibleCaller(unknown_issuer(name, self.policy())));
        };
        caller.check_token(issuer)?;
        let issuer = Some(issuer.issuer.clone());
        let subject = unverified_subject(user, Some(SourceId::from_issuer(index)), groups, roles);
        Ok(Ok(Subject { issuer, ..subject }))
    }
}

impl NamedCaller<'_> {
    /// Checks that a source of the user name can give these groups and roles. If several sources
    /// may have the user, a token of at least one of them must be able to. For others,
    /// groups are not checked: the policy can add the user to them.
    fn check_sources(
        self,
        identity: &Identity,
        source: Option<SourceId>,
    ) -> Result<(), ImpossibleCaller> {
        let Self { user, roles, .. } = self;
        let has_prefix = |issuer: &Issuer| user.starts_with(&*issuer.user_prefix);
        let listed = match source {
            Some(SourceId::BASIC) => Some("of Basic"),
            Some(SourceId::API_KEYS) => Some("with an API key"),
            Some(SourceId::CERTIFICATES) => Some("with a certificate"),
            Some(_) | None => None,
        };
        if let (Some(how), Some(role)) = (listed, roles.first()) {
            let alternative = match identity.jwt.iter().any(has_prefix) {
                true => ", or name the issuer of its token",
                false => "",
            };
            return Err(ImpossibleCaller(format!(
                "a user {how} has only the roles that the policy grants: leave out the role \
                 `{role}` of `{user}`{alternative}"
            )));
        }
        let issuers = identity.jwt.iter().enumerate().filter(|(index, issuer)| match source {
            Some(source) => source == SourceId::from_issuer(*index),
            None => !roles.is_empty() && has_prefix(issuer),
        });
        let mut checks = issuers.map(|(_, issuer)| self.check_token(issuer)).peekable();
        let Some(Err(first)) = checks.peek().cloned() else { return Ok(()) };
        if checks.any(|check| check.is_ok()) { Ok(()) } else { Err(first) }
    }

    /// Checks that a token of this issuer can give these names.
    fn check_token(self, issuer: &Issuer) -> Result<(), ImpossibleCaller> {
        let Self { user, groups, roles, .. } = self;
        let name = &issuer.issuer;
        let groups_with_prefix = groups.iter().map(|group| (&issuer.group_prefix, group.as_str()));
        let mut names = [(&issuer.user_prefix, user)].into_iter().chain(groups_with_prefix);
        let problem = if let Some((prefix, name_without)) =
            names.find(|(prefix, name)| !name.starts_with(&***prefix))
        {
            format!("names of `{name}` have a prefix: did you mean `{prefix}{name_without}`?")
        } else if !roles.is_empty() && issuer.accepted_role_claim().is_none() {
            format!("the policy takes no roles from tokens of `{name}`: leave them out")
        } else if !groups.is_empty() && issuer.claims.groups.is_none() {
            format!("the policy takes no groups from tokens of `{name}`: leave them out")
        } else if let Some(role) = roles.iter().find(|role| !issuer.may_give(role)) {
            format!("`roles_from_token` of `{name}` does not list the role `{role}`: leave it out")
        } else {
            return Ok(());
        };
        Err(ImpossibleCaller(problem))
    }
}
