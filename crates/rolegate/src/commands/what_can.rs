//! `rolegate what-can`: lists what a role or a user may do.

use authorizer::Request;
use explain::{Explainer, NamedCaller, WhatCan};
use identity::Subject;
use policy::Policy;
use policy::model::ANYONE;

use super::request::borrowed_headers;
use crate::cli::WhatCanArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints the roles of the caller, and their rules.
pub(crate) fn run(args: &WhatCanArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let compiled = args.policy.load(output)?;
    let explainer = Explainer::new(&compiled.authorizer).at(args.variables.time);
    let mut answer = answer(args, explainer)?;
    let user = args.user.as_deref().filter(|_| args.issuer.is_none());
    answer.notes.extend(explainer.unknown_name_messages(host(args), user, (&args.groups, &[])));
    if args.user.is_some() || !args.groups.is_empty() {
        answer.notes.extend(explainer.missing_identity_note(host(args)).map(str::to_owned));
    }
    if args.host.is_none() {
        answer.notes.extend(note_on_cluster(explainer.policy()));
    }
    output.answer(&answer);
    Ok(if answer.allows_something() { Exit::Success } else { Exit::No })
}

/// The permissions of the caller that the arguments name.
fn answer(args: &WhatCanArgs, explainer: Explainer<'_>) -> Result<WhatCan, CommandError> {
    let WhatCanArgs { user, issuer, roles, groups, .. } = args;
    let host = host(args);
    let on_cluster = explainer.is_of_cluster(host.as_bytes());
    // A misspelt role would give the answer for a caller without roles.
    let unknown = match on_cluster {
        true => unknown_on_cluster(explainer, host, roles),
        false => explain::unknown_role_messages(roles, explainer.policy()),
    };
    if let Some(unknown) = unknown.into_iter().next() {
        return Err(CommandError::Arguments(unknown));
    }
    let token_roles: &[String] = if on_cluster { &[] } else { roles };
    let is_anonymous = groups.is_empty() && roles.iter().all(|role| role == ANYONE);
    let subject = match user {
        Some(user) => {
            let caller =
                NamedCaller { user, issuer: issuer.as_deref(), groups, roles: token_roles };
            match explainer.named_caller(host, caller).map_err(CommandError::arguments)? {
                Ok(subject) => Some(match &args.claims {
                    Some(claims) => Subject { claims: claims.clone().into(), ..subject },
                    None => subject,
                }),
                Err(error) => return Ok(WhatCan::nothing(user, error)),
            }
        }
        None if is_anonymous => {
            match explainer.user_with_certificate(host.as_bytes(), &args.variables.certificate) {
                Ok(subject) => subject,
                Err(error) => return Ok(WhatCan::nothing("", error)),
            }
        }
        None => Some(explain::unverified_subject("", None, groups, token_roles)),
    };
    let client = args.variables.client();
    let request = Request {
        host: host.as_bytes(),
        headers: &borrowed_headers(&args.variables.headers),
        client: client.as_bytes(),
        certificate: args.variables.certificate(),
        ..Request::default()
    };
    let subject = subject.map(|subject| explainer.with_actor(&request, subject));
    Ok(match &args.host {
        None if !on_cluster => explainer.what_can_with(&request, subject.as_ref()),
        _ => explainer.what_can_on(&request, subject.as_ref(), roles),
    })
}

/// The host of the arguments, or the empty host, which only a search cluster for all hosts has.
fn host(args: &WhatCanArgs) -> &str {
    args.host.as_deref().unwrap_or_default()
}

/// For arguments without a host: names the hosts on which a search cluster's roles decide.
pub(super) fn note_on_cluster(policy: &Policy) -> Option<String> {
    let hosts = &policy.search.as_ref()?.hosts;
    let hosts: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
    let hosts = Some(hosts.join(", ")).filter(|hosts| !hosts.is_empty())?;
    Some(format!("the search cluster's own roles decide on {hosts}: see `--host`"))
}

/// The roles that the search cluster does not have.
fn unknown_on_cluster(explainer: Explainer<'_>, host: &str, roles: &[String]) -> Vec<String> {
    let unknown = roles
        .iter()
        .filter(|role| explainer.has_cluster_role(host.as_bytes(), role) == Some(false));
    unknown.map(|role| format!("the search cluster has no role `{role}`")).collect()
}
