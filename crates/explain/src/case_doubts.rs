//! What a test case leaves open: a time on which its answer depends, and claims that nothing reads.

use std::collections::BTreeSet;

use authorizer::Request;
use condition::{Attribute, Constant, Expression};
use document::closest;
use identity::UnixTime;
use policy::Policy;
use policy::cases::{Case, Credentials};
use policy::model::{ClaimPath, Piece};

use crate::subjects::{subject_named, subject_of_claims};
use crate::{ExplainedSubject, Explainer};

/// Claims that a token may have although nothing in the policy reads them: those that every token
/// may have, and those that say that other claims are not in the token.
const REGISTERED: [&str; 10] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "_claim_names",
    "_claim_sources",
    "hasgroups",
];

impl Explainer<'_> {
    /// A message if the answer to the request of a case depends on the time, but the case names no
    /// time. Such a case could pass today and fail tomorrow.
    pub(crate) fn doubt_about_time(
        self,
        case: &Case,
        request: &Request<'_>,
        now: UnixTime,
    ) -> Option<String> {
        let mut conditions = self.policy().all_conditions();
        let reads_time = conditions
            .any(|condition| condition.expression.attributes().contains(&&Attribute::Time));
        if case.request.at.is_some() || !reads_time {
            return None;
        }
        let backend = self.authorizer.backend(request.host);
        let subject = match &case.request.credentials {
            Credentials::Claims(claims) => Some(subject_of_claims(backend, claims)),
            Credentials::User { name, groups } => Some(subject_named(backend, name, groups, &[])),
            Credentials::None
            | Credentials::Basic(_)
            | Credentials::Bearer(_)
            | Credentials::ApiKey(_) => None,
        };
        let subject = match subject {
            Some(Ok(subject)) => ExplainedSubject::Given(subject),
            Some(Err(error)) => ExplainedSubject::Invalid(error),
            None => ExplainedSubject::FromRequest,
        };
        let explanation = self.at(None).explain(request, subject, now);
        let time = Attribute::Time.to_string();
        explanation.depends_on.contains(&time).then(|| {
            "the answer depends on the time: write one, such as `time: 2026-01-05T10:00:00Z`"
                .to_owned()
        })
    }

    /// A message about a claim of a case that nothing in the policy reads. A case that expects a
    /// denial may have such a claim on purpose. It gets a message only if the name of the claim is
    /// like that of a claim that the policy reads: it may be misspelled.
    pub(crate) fn doubt_about_claims(self, case: &Case) -> Option<String> {
        let Credentials::Claims(claims) = &case.request.credentials else { return None };
        let claims: serde_json::Value = serde_json::from_str(claims).ok()?;
        let read = read_claims(self.policy())?;
        let mut unread = claims
            .as_object()?
            .keys()
            .filter(|name| !read.contains(name.as_str()) && !REGISTERED.contains(&name.as_str()));
        unread.find_map(|name| match closest(name, read.iter().map(String::as_str)) {
            Some(similar) => Some(format!("no rule reads the claim `{name}`: is it `{similar}`?")),
            None if case.expect.status == 200 => {
                Some(format!("nothing in the policy reads the claim `{name}`: leave it out"))
            }
            None => None,
        })
    }
}

/// The names of the claims that a policy reads; `None` if it may read any claim, as with a search
/// cluster. For a claim inside another claim, only the outer claim is listed.
fn read_claims(policy: &Policy) -> Option<BTreeSet<String>> {
    if policy.search.is_some() {
        return None;
    }
    let mut read = BTreeSet::new();
    for condition in policy.all_conditions() {
        add_claims(&condition.expression, &mut read)?;
    }
    let mut paths: Vec<&ClaimPath> = Vec::new();
    for issuer in &policy.identity.jwt {
        let claims = &issuer.claims;
        paths.extend(
            [Some(&claims.user), claims.roles.as_ref(), claims.groups.as_ref()]
                .into_iter()
                .flatten(),
        );
        paths.extend(issuer.require.iter().map(|required| &required.path));
        read.extend(issuer.act.as_ref().map(|_| "act".to_owned()));
    }
    let pieces = policy.allow_response.templates().flat_map(|(.., template)| &template.0);
    paths.extend(pieces.filter_map(|piece| match piece {
        Piece::Claim(path) => Some(path),
        Piece::Text(_)
        | Piece::User
        | Piece::Roles
        | Piece::Groups
        | Piece::Actor
        | Piece::Rule
        | Piece::Revision => None,
    }));
    paths.extend(
        policy.identity_header.iter().flat_map(|header| &header.claims).map(|(_, path)| path),
    );
    read.extend(paths.into_iter().filter_map(|path| path.0.first()).map(ToString::to_string));
    Some(read)
}

/// Adds the claims that an expression reads by name; `None` if it reads others, too.
fn add_claims(expression: &Expression, read: &mut BTreeSet<String>) -> Option<()> {
    if let Expression::Member(object, name) | Expression::HasMember(object, name) = expression
        && is_claims(object)
    {
        read.insert(name.to_string());
        return Some(());
    }
    if let Expression::Index(object, name) | Expression::In(name, object) = expression
        && is_claims(object)
    {
        let Expression::Constant(Constant::Text(name)) = &**name else { return None };
        read.insert(name.to_string());
        return Some(());
    }
    if is_claims(expression) {
        return None;
    }
    expression.parts().into_iter().try_for_each(|part| add_claims(part, read))
}

fn is_claims(expression: &Expression) -> bool {
    *expression == Expression::Attribute(Attribute::Claims)
}
