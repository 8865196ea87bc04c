//! The caller, as given on the command line.

use std::io::Read;

use authorizer::{Authorizer, ExplainedSubject};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use policy::{Policy, closest};

use crate::cli::CallerArgs;

/// Maximum bytes read from standard input: no request can carry longer credentials.
const LONGEST: u64 = 64 << 10;

/// The caller, and the value of the `Authorization` header with its credentials, if any.
///
/// # Errors
/// When the credentials are to be read from standard input, and that fails.
/// Or when a token is given with its scheme.
pub(super) fn caller(
    args: &CallerArgs,
    authorizer: &Authorizer,
) -> Result<(ExplainedSubject, Option<String>), String> {
    Ok(match args {
        CallerArgs { user: Some(user), roles, groups, .. } => {
            (ExplainedSubject::Given(authorizer.subject_named(user, groups, roles)), None)
        }
        CallerArgs { basic: Some(pair), .. } => {
            let encoded = BASE64_STANDARD.encode(given(pair)?);
            (ExplainedSubject::OfCredentials, Some(format!("Basic {encoded}")))
        }
        CallerArgs { bearer: Some(token), .. } => {
            let token = given(token)?;
            if token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) {
                return Err("`--bearer` takes the token alone, without `Bearer ` before it".to_owned());
            }
            (ExplainedSubject::OfCredentials, Some(format!("Bearer {token}")))
        }
        CallerArgs { .. } => (ExplainedSubject::OfCredentials, None),
    })
}

/// The names that the caller is given and the policy does not have: probably mistakes.
pub(super) fn unknown_names(args: &CallerArgs, policy: &Policy) -> Vec<String> {
    let roles: Vec<&str> = policy.roles.iter().map(|role| &*role.name).collect();
    let basic: Vec<String> = policy
        .identity
        .basic
        .iter()
        .flat_map(|basic| {
            basic
                .users
                .iter()
                .flat_map(|user| user.groups.iter().map(|group| format!("{}{group}", basic.group_prefix)))
        })
        .collect();
    let granted = policy.grants.iter().flat_map(|grant| grant.groups.iter().map(|group| &**group));
    let groups: Vec<&str> = granted.chain(basic.iter().map(String::as_str)).collect();
    let note = |kind: &str, name: &str, known: &[&str]| {
        let meant = closest(name, known.iter().copied());
        let meant = meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
        (!known.contains(&name)).then(|| format!("the policy has no {kind} `{name}`{meant}"))
    };
    let of_roles = args.roles.iter().filter_map(|name| note("role", name, &roles));
    of_roles.chain(args.groups.iter().filter_map(|name| note("group", name, &groups))).collect()
}

/// The value itself, or the first line of standard input if the value is `-`.
fn given(value: &str) -> Result<String, String> {
    if value != "-" {
        return Ok(value.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
