//! Rules with `{user}` where every user name has a prefix, so that the path must have it too.

use document::{Problem, Warning};
use policy::model::{Policy, Rule};
use policy::pattern::Segment;

/// Warns of the first rule with `{user}`, unless another has `{user.id}`: its author knows the difference.
pub(crate) fn prefixed_users(policy: &Policy, problems: &mut Vec<Problem>) {
    let Some((.., prefix)) = policy.identity.sources().next() else { return };
    if policy.identity.sources().any(|(.., prefix)| prefix.is_empty()) {
        return;
    }
    let has = |rule: &Rule, is: fn(&Segment) -> bool| {
        rule.resources.iter().any(|pattern| pattern.segments.iter().any(is))
    };
    if policy.rules().any(|(_, _, rule, _)| has(rule, |segment| matches!(segment, Segment::UserId(_)))) {
        return;
    }
    let with_user = policy.rules().find(|(_, _, rule, _)| has(rule, |segment| *segment == Segment::User));
    if let Some((_, _, rule, _)) = with_user {
        let message =
            format!("`{{user}}` is the user name with its prefix: a path has `{prefix}ann`, not `ann`");
        let help = "did you mean `{user.id}` with `user_id_from`?";
        problems.push(Problem::warning(rule.at.clone(), Warning::PrefixedUser, message).help(help));
    }
}
