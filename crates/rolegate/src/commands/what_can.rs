//! `rolegate what-can`: lists what a role or a user may do.

use explain::{Explainer, NamedCaller, WhatCan};
use identity::Subject;
use policy::Policy;
use policy::model::ANYONE;

use crate::cli::WhatCanArgs;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::Output;

/// Prints the roles of the caller, and their rules.
pub(crate) fn run(args: &WhatCanArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let compiled = args.policy.load(output)?;
    let explainer = Explainer::new(&compiled.authorizer);
    let mut what = answer(args, explainer)?;
    let user = args.user.as_deref().filter(|_| args.issuer.is_none());
    what.notes.extend(explainer.unknown_names(host_of(args), user, (&args.groups, &[])));
    if args.user.is_some() || !args.groups.is_empty() {
        what.notes.extend(explainer.without_identity(host_of(args)).map(str::to_owned));
    }
    what.notes.extend(note_on_cluster(args, explainer.policy()));
    output.answer(&what);
    Ok(if what.allows_something() { Exit::Success } else { Exit::Denied })
}

/// What the caller that the arguments name may do.
fn answer(args: &WhatCanArgs, explainer: Explainer<'_>) -> Result<WhatCan, CommandError> {
    let WhatCanArgs { user, issuer, roles, groups, .. } = args;
    let host = host_of(args);
    let on_cluster = explainer.is_of_cluster(host.as_bytes());
    // An answer about a misspelt role would be that of no role at all.
    let unknown = match on_cluster {
        true => unknown_on_cluster(explainer, host, roles),
        false => explain::unknown_roles(roles, explainer.policy()),
    };
    if let Some(unknown) = unknown.into_iter().next() {
        return Err(CommandError::Arguments(unknown));
    }
    let listed = |subject: Option<&Subject>| match &args.host {
        None if !on_cluster => explainer.what_can(subject),
        _ => explainer.what_can_on(host.as_bytes(), subject, roles),
    };
    let token_roles: &[String] = if on_cluster { &[] } else { roles };
    if let Some(user) = user {
        let named = NamedCaller { user, issuer: issuer.as_deref(), groups, roles: token_roles };
        let subject = explainer
            .named_caller(host, named)
            .map_err(|error| CommandError::Arguments(error.to_string()))?;
        return Ok(match subject {
            Ok(subject) => listed(Some(&subject)),
            Err(error) => WhatCan::nothing(user, error),
        });
    }
    let is_anonymous = groups.is_empty() && roles.iter().all(|role| role == ANYONE);
    let subject =
        (!is_anonymous).then(|| explain::unverified_subject("", None, groups, token_roles));
    Ok(listed(subject.as_ref()))
}

/// The host that was given; otherwise none, which belongs to a search cluster only if all do.
fn host_of(args: &WhatCanArgs) -> &str {
    args.host.as_deref().unwrap_or_default()
}

/// That the search cluster of some hosts allows other things, if no host was given.
fn note_on_cluster(args: &WhatCanArgs, policy: &Policy) -> Option<String> {
    let hosts = &policy.search.as_ref().filter(|_| args.host.is_none())?.hosts;
    let named: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
    let note =
        || format!("the search cluster's own roles decide on {}: see `--host`", named.join(", "));
    (!named.is_empty()).then(note)
}

/// The roles that the search cluster does not have.
fn unknown_on_cluster(explainer: Explainer<'_>, host: &str, roles: &[String]) -> Vec<String> {
    let unknown = roles
        .iter()
        .filter(|role| explainer.has_cluster_role(host.as_bytes(), role) == Some(false));
    unknown.map(|role| format!("the search cluster has no role `{role}`")).collect()
}
