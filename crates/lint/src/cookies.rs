//! Tokens in cookies. A browser sends these also with a request that another site has made, such as
//! a form that posts (cross-site request forgery): the caller did not want it.

use document::{Place, Problem, Warning};
use policy::model::{ANYONE, Policy, Role, Rule};
use policy::pattern::Actions;

use crate::conditions::reads_origin;
use crate::related::Roles;
use crate::sources::Source;
use crate::warnings::Warnings;

/// Methods that change nothing (RFC 9110, 9.2.1).
const SAFE: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// Warns of a cookie with tokens where such a caller is allowed an unsafe method on any origin.
/// What everybody may do is left out: another site needs no caller for it.
pub(crate) fn cross_site_requests(
    policy: &Policy,
    sources: &[&Source<'_>],
    warnings: &mut Warnings,
) {
    if policy.identity.token_cookies().next().is_none() {
        return;
    }
    let of_anyone = Roles::with_extended(policy, policy.role(ANYONE));
    let by_token = sources.iter().filter(|source| source.issuer.is_some());
    let by_token: Vec<Roles> = by_token.map(|source| source.roles(policy)).collect();
    let roles = policy.roles.entries().filter(|(id, role)| {
        !of_anyone.contains(*id)
            && by_token.iter().any(|roles| roles.contains(*id))
            && !role.when.as_ref().is_some_and(reads_origin)
    });
    let open: Vec<(Place, String)> = roles
        .flat_map(|(_, role)| role.allow.iter().map(move |rule| (role, rule)))
        .filter(|(_, rule)| !is_safe(rule) && !rule.when.as_ref().is_some_and(reads_origin))
        .map(|(role, rule)| (rule.at.clone(), shown(role, rule)))
        .collect();
    let cluster = policy.search.iter().map(|search| {
        (search.at.clone(), "the roles of the search cluster have no such condition".to_owned())
    });
    if open.is_empty() && policy.search.is_none() {
        return;
    }
    for (name, at) in policy.identity.token_cookies() {
        let message =
            format!("another site can make a browser send changes with the cookie `{name}`");
        let help = "let the rules have a condition such as `request.headers['origin'] == \
                    'https://app.example.com'`, or take tokens from a header only";
        let problem = Problem::warning(at.clone(), Warning::CrossSiteRequest, message);
        warnings.push(problem.help(help).places(open.iter().cloned().chain(cluster.clone())));
    }
}

fn shown(role: &Role, rule: &Rule) -> String {
    format!("`{}` of `{}` needs no origin", rule.name, role.name)
}

fn is_safe(rule: &Rule) -> bool {
    match &rule.actions {
        Actions::Any => false,
        Actions::These(methods) => methods.iter().all(|method| SAFE.contains(&&**method)),
    }
}
