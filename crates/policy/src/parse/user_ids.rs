//! Resolves the sources of callers that `{user.id}` matches: the `user_id_from` of a rule or of its
//! role.

use std::collections::HashMap;

use crate::ids::SourceId;
use crate::model::{Identity, Rule};
use crate::parse::unresolved::{NameRefs, UnresolvedRole};
use crate::pattern::Segment;
use document::{Place, Problem, closest};

/// The configured sources of callers.
pub(crate) struct Sources<'i> {
    names: HashMap<&'i str, SourceId>,
    /// Whether sources may be missing because they could not be read.
    incomplete: bool,
}

impl<'i> Sources<'i> {
    pub(crate) fn new(identity: &'i Identity, incomplete: bool) -> Self {
        // Of two sources with the same name, the last one inserted wins. The issuers are the last
        // sources, so the order is reversed: an issuer named `basic` does not replace `basic`.
        let sources = identity.sources().collect::<Vec<_>>().into_iter().rev();
        Self { names: sources.map(|(id, name, _)| (name, id)).collect(), incomplete }
    }

    fn ids(
        &self,
        sources: &NameRefs,
        role_at: &Place,
        problems: &mut Vec<Problem>,
    ) -> Vec<SourceId> {
        let mut ids = Vec::with_capacity(sources.names.len());
        for source in &sources.names {
            match self.names.get(&*source.name) {
                Some(id) => ids.push(*id),
                None if self.incomplete => {}
                None => {
                    let message = format!("unknown source `{}`", source.name);
                    let problem = Problem::error(role_at.in_same_file(source.at), message);
                    problems.push(problem.help(self.suggestion(&source.name)));
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn suggestion(&self, name: &str) -> String {
        let mut names: Vec<&str> = self.names.keys().copied().collect();
        names.sort_unstable();
        match closest(name, names.iter().copied()) {
            Some(close) => format!("did you mean `{close}`?"),
            None if names.is_empty() => "add `identity`".to_owned(),
            None => {
                let names = names.join("`, `");
                format!(
                    "a source is `basic`, `api_keys`, `certificates` or the `issuer` of an entry \
                     of `jwt`: `{names}`"
                )
            }
        }
    }
}

/// Gives each `{user.id}` in the rules of a role its sources. Reports a `user_id_from` that no rule
/// needs, and a `{user.id}` without one.
pub(crate) fn resolve(
    role: &mut UnresolvedRole,
    sources: &Sources<'_>,
    problems: &mut Vec<Problem>,
) {
    let role_ids = role.user_id_from.as_ref().map(|names| sources.ids(names, &role.at, problems));
    let mut is_used = false;
    for unresolved in role.allow.iter_mut().chain(&mut role.deny) {
        let rule = &mut unresolved.rule;
        let mut segments = rule.resources.iter().flat_map(|pattern| &pattern.segments);
        let has_id = segments.any(|segment| matches!(segment, Segment::UserId(_)));
        match (&unresolved.user_id_from, &role_ids) {
            (Some(names), _) if has_id => set(rule, &sources.ids(names, &role.at, problems)),
            (Some(names), _) => problems.push(unused_sources(names, &role.at)),
            (None, Some(ids)) if has_id => {
                is_used = true;
                set(rule, ids);
            }
            (None, None) if has_id => {
                let message =
                    format!("`{}` has `{{user.id}}`, but no `user_id_from` says whose", rule.name);
                let help = "add `user_id_from` to the role, with `basic`, `api_keys`, \
                            `certificates` or issuers: callers from other sources never match";
                problems.push(Problem::error(rule.at.clone(), message).help(help));
            }
            (None, _) => {}
        }
    }
    if let Some(names) = role.user_id_from.as_ref().filter(|_| !is_used) {
        problems.push(unused_sources(names, &role.at));
    }
}

fn set(rule: &mut Rule, ids: &[SourceId]) {
    for segment in rule.resources.iter_mut().flat_map(|pattern| &mut pattern.segments) {
        if let Segment::UserId(sources) = segment {
            *sources = ids.to_vec();
        }
    }
}

fn unused_sources(sources: &NameRefs, role_at: &Place) -> Problem {
    let message = "`user_id_from` has no effect: no rule here needs it";
    let help = "write `{user.id}` in paths that belong to the caller, or leave it out";
    Problem::error(role_at.in_same_file(sources.at), message).help(help)
}
