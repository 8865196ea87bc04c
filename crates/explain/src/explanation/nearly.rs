//! The rules of a caller that match a request in all respects but one. If there are none, and no
//! rule matches: the rules of other roles that differ only in how the path is written.

use std::collections::HashSet;
use std::fmt::{Display, Formatter, Result};

use document::Suggestions;
use policy::Policy;
use policy::canonical::{decoded, segment_is_name};
use policy::model::{Effect, Role, Rule, SourceId};
use policy::pattern::{Pattern, PatternSubject, Segment};
use serde::Serialize;

use super::ExplainedRole;
use crate::lossy;
use crate::one_line::write_condition;
use crate::rules::{ExplainedRule, has_path, is_for_host};
use crate::ways::{Given, ways_with_role};

/// The maximum number of rules that are shown.
const MAX_RULES: usize = 3;

/// A rule that would allow the request if one thing were different. If it is a rule of another
/// role, the caller would also need that role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The difference, in words.
    pub difference: String,
    /// What is left of the conditions of the rule and of its role, after the known values are used.
    /// `None` if nothing is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// Why a rule does not match a request. A likelier cause of a mistake comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// How the path is written.
    Path,
    /// The user in the path.
    User,
    Host,
    Method,
}

/// How a segment of a path differs from the segment of a rule.
#[derive(PartialEq, Eq)]
enum SegmentDifference {
    /// It is the name of another user.
    User,
    /// Upper and lower case differ.
    Case,
    /// It is probably misspelled.
    Spelling,
}

/// The request that a rule is compared with.
#[derive(Clone, Copy)]
pub(crate) struct RequestOfSubject<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) path: &'a [u8],
    pub(crate) subject: Option<PatternSubject<'a>>,
}

impl RequestOfSubject<'_> {
    /// The `allow` rules of these roles that nearly match.
    pub(super) fn near_rules(self, roles: &[ExplainedRole], given: &Given<'_>) -> Vec<NearRule> {
        let roles = names_of(roles);
        let causes = [Cause::Path, Cause::User, Cause::Host, Cause::Method];
        self.find(|role| roles.contains(&*role.name), &causes, given)
    }

    /// The `allow` rules of every role that nearly match, for any caller.
    pub(crate) fn near_rules_for_everyone(self, given: &Given<'_>) -> Vec<NearRule> {
        self.find(|_| true, &[Cause::Path, Cause::Host, Cause::Method], given)
    }

    /// The `allow` rules of all other roles that would match if the path were written differently.
    pub(super) fn near_rules_of_other_roles(
        self,
        roles: &[ExplainedRole],
        given: &Given<'_>,
    ) -> Vec<NearRule> {
        let roles = names_of(roles);
        let mut near = self.find(|role| !roles.contains(&*role.name), &[Cause::Path], given);
        for NearRule { rule, difference, .. } in &mut near {
            *difference += &format!("; and the caller does not have the role `{}`", rule.role);
        }
        near
    }

    /// The `allow` rules, of the roles that `includes_role` accepts, that do not match for only one
    /// cause, which is one of `causes`.
    fn find(
        self,
        includes_role: impl Fn(&Role) -> bool,
        causes: &[Cause],
        given: &Given<'_>,
    ) -> Vec<NearRule> {
        let mut suggestions = Suggestions::with_answer_limit();
        let mut near: Vec<(Cause, NearRule)> = Vec::new();
        for (_, role, rule, effect) in self.policy.rules() {
            if effect == Effect::Allow
                && includes_role(role)
                && let Some((cause, difference)) = self.difference(rule, &mut suggestions)
                && causes.contains(&cause)
            {
                let ways = ways_with_role((role, rule, effect), given);
                // A rule with a condition that is false would not allow the corrected request.
                if !ways.is_never() {
                    let rule = ExplainedRule::new(role, rule, effect);
                    near.push((cause, NearRule { rule, difference, when: ways.condition() }));
                }
            }
        }
        near.sort_by_key(|(cause, _)| *cause);
        near.into_iter().take(MAX_RULES).map(|(_, rule)| rule).collect()
    }

    /// The only respect in which the rule does not match, and a text about it. `None` if it
    /// matches, or differs in several respects.
    fn difference(self, rule: &Rule, suggestions: &mut Suggestions) -> Option<(Cause, String)> {
        let has_method = rule.actions.matches(self.method);
        let has_host = is_for_host(rule, self.host);
        match (has_method, has_host, has_path(rule, self.path, self.subject)) {
            (false, true, true) => {
                let method = lossy(self.method);
                Some((Cause::Method, format!("it is for `{}`, not `{method}`", rule.actions)))
            }
            (true, false, true) => {
                let hosts: Vec<String> =
                    rule.scopes.iter().map(|scope| format!("`{scope}`")).collect();
                let (hosts, host) = (hosts.join(" or "), lossy(self.host));
                Some((Cause::Host, format!("it is for the host {hosts}, not `{host}`")))
            }
            (true, true, false) => rule
                .resources
                .iter()
                .find_map(|resource| self.path_difference(resource, suggestions)),
            _ => None,
        }
    }

    fn path_difference(
        self,
        pattern: &Pattern,
        suggestions: &mut Suggestions,
    ) -> Option<(Cause, String)> {
        let matches = |path: &[u8]| pattern.matches(path, self.subject);
        if self.path.strip_suffix(b"/").is_some_and(matches) {
            return Some((Cause::Path, "the path ends with `/`, the rule does not".to_owned()));
        }
        if matches(&[self.path, b"/"].concat()) {
            return Some((Cause::Path, "the rule ends with `/`, the path does not".to_owned()));
        }
        let name = self.path.strip_prefix(b"/").filter(|_| pattern.absolute)?;
        let segments: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
        let further = segments.len().checked_sub(pattern.segments.len())?;
        if further > 0 && !pattern.open_ended {
            return None;
        }
        let mut differences = Vec::new();
        for (segment, name) in pattern.segments.iter().zip(segments) {
            if !segment.matches(name, self.subject) {
                differences.push(self.segment_difference(segment, name, suggestions)?);
            }
        }
        let (first, text) = differences.first()?;
        let has_one_cause = match first {
            SegmentDifference::Spelling => differences.len() == 1,
            SegmentDifference::User | SegmentDifference::Case => {
                differences.iter().all(|(difference, _)| difference == first)
            }
        };
        let cause = if *first == SegmentDifference::User { Cause::User } else { Cause::Path };
        has_one_cause.then(|| (cause, text.clone()))
    }

    /// How the name differs from the segment, and a text about it; `None` if the two are not
    /// similar.
    fn segment_difference(
        self,
        segment: &Segment,
        name: &[u8],
        suggestions: &mut Suggestions,
    ) -> Option<(SegmentDifference, String)> {
        use SegmentDifference::{Case, Spelling, User};

        let text = lossy(&decoded(name));
        match (segment, self.subject) {
            (Segment::Literal(literal), _) => {
                let literal = lossy(&decoded(literal.as_bytes()));
                let difference = format!("it has `{literal}`, the path has `{text}`");
                if literal.to_lowercase() == text.to_lowercase() {
                    Some((Case, format!("{difference}: paths are case-sensitive")))
                } else {
                    suggestions.closest(&text, [&*literal]).map(|_| (Spelling, difference))
                }
            }
            (Segment::Glob(_), _) if segment.matches(&name.to_ascii_lowercase(), None) => Some((
                Case,
                format!("it has `{segment}`, the path has `{text}`: paths are case-sensitive"),
            )),
            (Segment::User | Segment::UserId(_), None) => Some((
                User,
                format!("`{segment}` is nobody without credentials, the path has `{text}`"),
            )),
            (Segment::User, Some(subject)) => Some((
                User,
                format!("`{segment}` is `{}`, the path has `{text}`", lossy(subject.user)),
            )),
            (Segment::UserId(sources), Some(subject)) if segment_is_name(name, subject.id()) => {
                Some((User, self.source_difference(sources, subject.source)))
            }
            (Segment::UserId(_), Some(subject)) => Some((
                User,
                format!("`{segment}` is `{}`, the path has `{text}`", lossy(subject.id())),
            )),
            (Segment::Glob(_) | Segment::Any(_), _) => None,
        }
    }

    /// Says that `{user.id}` is for callers of these sources, and the caller's source is not among
    /// them.
    fn source_difference(self, sources: &[SourceId], source: Option<SourceId>) -> String {
        let identity = &self.policy.identity;
        let name_of = |id: SourceId| {
            identity.sources().find(|(source, ..)| *source == id).map(|(_, name, _)| name)
        };
        let names = sources.iter().filter_map(|id| name_of(*id));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let source = match source.and_then(name_of) {
            Some(name) => format!("not of `{name}`"),
            None => "and the caller's source is not known: `--issuer` names it".to_owned(),
        };
        format!("`{{user.id}}` is for callers of {}, {source}", names.join(" or "))
    }
}

fn names_of(roles: &[ExplainedRole]) -> HashSet<&str> {
    roles.iter().map(|role| role.name.as_str()).collect()
}

impl Display for NearRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let ExplainedRule { role, rule, at, .. } = &self.rule;
        write!(f, "`{role}: {rule}` ({at}): {}", self.difference)?;
        write_condition(f, self.when.as_deref())
    }
}
