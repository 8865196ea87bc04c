//! `deny` rules that callers escape: without credentials, with another host, or with the other one
//! of `GET` and `HEAD`.

use crate::cover::{covers_paths, covers_scopes};
use crate::overlap::{overlap_but_for_paths, overlapping};
use crate::related::Related;
use crate::trie::{Ruled, Trie};
use crate::warnings::{Budget, Warnings};
use document::{Problem, Warning};
use policy::model::{AUTHENTICATED, Effect, Policy, Rule};
use policy::pattern::{Actions, Pattern, Scope, Segment};

/// Warns of each `deny` rule that an `allow` rule lets callers bypass.
pub(crate) fn escaped(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = Related::new(policy);
    let mut budget = Budget::new(2_000_000, 10_000);
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        budget.spend(|left| {
            let mut denial = Denial::new(trie, ruled, left);
            let problems = [
                denial.without_credentials(&related),
                denial.with_another_host(&mut related),
                denial.with_another_method(&mut related),
            ];
            // Without steps left, a rule that closes the gap may have been missed.
            if *left > 0 {
                problems.into_iter().flatten().for_each(|problem| warnings.push(problem));
            }
        });
    }
}

/// A `deny` rule, and the rules whose paths overlap it.
struct Denial<'s, 'p> {
    ruled: &'s Ruled<'p>,
    allowing: Vec<&'s Ruled<'p>>,
    denying: Vec<&'s Ruled<'p>>,
    left: &'s mut usize,
}

impl<'s, 'p> Denial<'s, 'p> {
    fn new(trie: &'s Trie<'p>, ruled: &'s Ruled<'p>, left: &'s mut usize) -> Self {
        let near = overlapping(trie, ruled.rule, left);
        let near =
            near.into_iter().map(|id| trie.rules.at(id)).filter(|near| !std::ptr::eq(*near, ruled));
        let (allowing, denying) = near.partition(|near| near.effect == Effect::Allow);
        Self { ruled, allowing, denying, left }
    }

    /// What every caller may do can be done without credentials, and so without the roles that come
    /// with them.
    fn without_credentials(&mut self, related: &Related<'_>) -> Option<Problem> {
        if related.is_everybodys(self.ruled.role) {
            return None;
        }
        let rule = self.ruled.rule;
        let is_anonymous =
            |near: &&&Ruled<'_>| related.is_everybodys(near.role) && !is_about_users(near.rule);
        let open: Vec<&Ruled<'_>> = self.allowing.iter().filter(is_anonymous).copied().collect();
        let closed: Vec<&Rule> =
            self.denying.iter().filter(is_anonymous).map(|near| near.rule).collect();
        let left = &mut *self.left;
        let reached: Vec<&Ruled<'_>> = open
            .iter()
            .filter(|allow| {
                let part =
                    Part::of_both(allow.rule, rule, left).filter(|part| !part.is_preflight());
                part.is_some_and(|part| !part.is_covered(&closed, left))
            })
            .copied()
            .collect();
        let first = *reached.first()?;
        let allow = if let Some(wider) =
            reached.iter().copied().find(|allow| is_exception(rule, allow.rule))
        {
            wider
        } else {
            // A ban from everything restricts whoever may do more than everybody, and is hardly
            // about the rest.
            let open: Vec<&Rule> = open.iter().map(|allow| allow.rule).collect();
            let mut others =
                self.allowing.iter().filter(|allow| !related.is_everybodys(allow.role));
            let restricts = others.any(|allow| {
                Part::of_both(allow.rule, rule, left)
                    .is_some_and(|part| !part.is_covered(&open, left))
            });
            (!restricts).then_some(first)?
        };
        let message = format!(
            "`{}` can be bypassed by omitting credentials: `anyone` allows this",
            rule.name
        );
        let help = if *self.ruled.named.name == *AUTHENTICATED {
            "move the `deny` to `anyone`, or the `allow` to `authenticated`"
        } else {
            "move the `allow` to `authenticated`, or, if every caller is meant, the `deny` to `anyone`"
        };
        Some(self.warning(Warning::OpenAnonymous, allow, message, help.to_owned()))
    }

    /// The client chooses the host.
    fn with_another_host(&mut self, related: &mut Related<'_>) -> Option<Problem> {
        let rule = self.ruled.rule;
        if rule.scopes.is_empty() {
            return None;
        }
        if !self.allowing.iter().any(|allow| overlap_but_for_paths(allow.rule, rule)) {
            return None;
        }
        for allow in self.allowing.clone() {
            let open =
                if allow.rule.scopes.is_empty() { Vec::new() } else { apexes(rule, allow.rule) };
            if open.is_empty() && !allow.rule.scopes.is_empty() {
                continue;
            }
            let apex = open.first().map(ToString::to_string);
            let Some(mut part) = Part::but_for_scopes(allow.rule, rule, self.left) else {
                continue;
            };
            part.scopes = open;
            if self.is_open(allow, &part, related) {
                return Some(self.open_host(allow, apex));
            }
        }
        None
    }

    fn open_host(&self, allow: &Ruled<'_>, apex: Option<String>) -> Problem {
        let (name, by) = (&self.ruled.rule.name, &allow.rule.name);
        let (message, help) = match apex {
            Some(apex) => (
                format!(
                    "`{name}` is not for `{apex}`, where `{by}` allows this path: `*.{apex}` is not `{apex}`"
                ),
                format!("write a `deny` for `{apex}`, too, or one without a host"),
            ),
            None => (
                format!(
                    "`{name}` is for some hosts only: `{by}` allows this path on every other one, and the client \
                     chooses the host"
                ),
                "write the `deny` without a host, or the `allow` with hosts; or accept this where the proxy routes \
                 by host"
                    .to_owned(),
            ),
        };
        self.warning(Warning::OpenHost, allow, message, help)
    }

    /// Applications answer `HEAD` as `GET`, without the body.
    fn with_another_method(&mut self, related: &mut Related<'_>) -> Option<Problem> {
        let rule = self.ruled.rule;
        let Actions::These(methods) = &rule.actions else { return None };
        let has = |method: &str| methods.iter().any(|one| **one == *method);
        let (closed, open) = match (has("GET"), has("HEAD")) {
            (true, false) => ("GET", "HEAD"),
            (false, true) if methods.len() == 1 => ("HEAD", "GET"),
            _ => return None,
        };
        for allow in self.allowing.clone() {
            // A rule for the other method alone, on no more paths than these, has it open on
            // purpose.
            let is_meant =
                !allow.rule.actions.matches(closed.as_bytes()) && covers_paths(rule, allow.rule);
            if is_meant || !allow.rule.actions.matches(open.as_bytes()) {
                continue;
            }
            let actions = Actions::These(vec![open.into()]);
            let Some(scopes) = common_scopes(allow.rule, rule, self.left) else { continue };
            let Some(paths) = common_paths(allow.rule, rule, self.left) else { continue };
            if self.is_open(allow, &Part { actions, scopes, paths }, related) {
                let message = format!(
                    "`{}` leaves `{open}` open: `{}` allows it on the same paths",
                    rule.name, allow.rule.name
                );
                let help = format!(
                    "add `{open}`, or write `*` for every method: a method stands for itself alone"
                );
                return Some(self.warning(Warning::OpenMethod, allow, message, help));
            }
        }
        None
    }

    /// Whether a caller with the role of this rule has that of the `allow` rule, too, and no role
    /// that comes with them denies this part.
    fn is_open(&mut self, allow: &Ruled<'_>, part: &Part, related: &mut Related<'_>) -> bool {
        if !related.are_together(self.ruled, allow.role, self.left) {
            return false;
        }
        let mut closed: Vec<&Rule> = Vec::new();
        for role in [allow.role, self.ruled.role] {
            related.find_from(role, self.left);
            closed.extend(
                self.denying.iter().filter(|near| related.has(near.role)).map(|near| near.rule),
            );
        }
        !part.is_covered(&closed, self.left)
    }

    fn warning(&self, kind: Warning, allow: &Ruled<'_>, message: String, help: String) -> Problem {
        let note = format!("`{}` of the role `{}`", allow.rule.name, allow.named.name);
        Problem::warning(self.ruled.rule.at.clone(), kind, message)
            .help(help)
            .related(allow.rule.at.clone(), note)
    }
}

/// Whether a rule matches only callers whose name is known.
fn is_about_users(rule: &Rule) -> bool {
    let mut segments = rule.resources.iter().flat_map(|pattern| &pattern.segments);
    segments.any(|segment| matches!(segment, Segment::User | Segment::UserId(_)))
}

/// Whether a `deny` rule is about some of the paths or hosts of an `allow` rule.
fn is_exception(deny: &Rule, allow: &Rule) -> bool {
    let hosts = covers_scopes(&allow.scopes, &deny.scopes);
    let all_hosts = covers_scopes(&deny.scopes, &allow.scopes);
    let is_within =
        |deny: &Pattern, allow: &Pattern| allow.covers(deny) && !(all_hosts && deny.covers(allow));
    hosts
        && deny
            .resources
            .iter()
            .any(|deny| allow.resources.iter().any(|allow| is_within(deny, allow)))
}

/// The hosts `example.com` of an `allow` rule where the `deny` rule is for `*.example.com` only.
/// Where the `allow` rule is for no more paths than the `deny` rule, that is on purpose.
fn apexes(deny: &Rule, allow: &Rule) -> Vec<Scope> {
    let is_apex = |host: &&Scope| {
        let Scope::Exact(host) = host else { return false };
        let is_above = |scope: &Scope| matches!(scope, Scope::Below(name) if name == host);
        deny.scopes.iter().any(is_above)
            && !deny.scopes.iter().any(|scope| scope.matches(host.as_bytes()))
    };
    if covers_paths(deny, allow) {
        Vec::new()
    } else {
        allow.scopes.iter().filter(is_apex).cloned().collect()
    }
}

/// Some requests: those with one of these methods, hosts (none: any host) and paths.
struct Part {
    actions: Actions,
    scopes: Vec<Scope>,
    paths: Vec<Pattern>,
}

impl Part {
    /// What both rules match.
    fn of_both(one: &Rule, other: &Rule, left: &mut usize) -> Option<Self> {
        let part = Self::but_for_scopes(one, other, left)?;
        Some(Self { scopes: common_scopes(one, other, left)?, ..part })
    }

    /// What both rules would match if they were for any host.
    fn but_for_scopes(one: &Rule, other: &Rule, left: &mut usize) -> Option<Self> {
        let actions = one.actions.intersection(&other.actions)?;
        Some(Self { actions, scopes: Vec::new(), paths: common_paths(one, other, left)? })
    }

    /// Whether these are preflight requests, which browsers send without credentials: `anyone` has
    /// to allow them.
    fn is_preflight(&self) -> bool {
        matches!(&self.actions, Actions::These(all) if all.iter().all(|action| **action == *"OPTIONS"))
    }

    /// Whether one of these rules matches, for each method, host and path. True if no steps are
    /// left, so that no warning follows.
    fn is_covered(&self, by: &[&Rule], left: &mut usize) -> bool {
        let actions: Vec<Actions> = match &self.actions {
            Actions::Any => vec![Actions::Any],
            Actions::These(all) => {
                all.iter().map(|action| Actions::These(vec![action.clone()])).collect()
            }
        };
        let hosts: Vec<&[Scope]> = if self.scopes.is_empty() {
            vec![<&[Scope]>::default()]
        } else {
            self.scopes.chunks(1).collect()
        };
        let mut covers = |rule: &Rule, action: &Actions, host: &[Scope], path: &Pattern| {
            *left = left.saturating_sub(1 + rule.resources.len() + rule.scopes.len());
            *left == 0
                || rule.actions.covers(action)
                    && covers_scopes(&rule.scopes, host)
                    && rule.resources.iter().any(|pattern| pattern.covers(path))
        };
        self.paths.iter().all(|path| {
            actions.iter().all(|action| {
                hosts.iter().all(|host| by.iter().any(|rule| covers(rule, action, host, path)))
            })
        })
    }
}

/// The hosts that both rules are for: none for any host.
fn common_scopes(one: &Rule, other: &Rule, left: &mut usize) -> Option<Vec<Scope>> {
    if one.scopes.is_empty() || other.scopes.is_empty() {
        return Some([&*one.scopes, &*other.scopes].concat());
    }
    *left = left.saturating_sub(one.scopes.len().saturating_mul(other.scopes.len()));
    let pairs =
        one.scopes.iter().flat_map(|one| other.scopes.iter().map(move |other| (one, other)));
    let both: Vec<Scope> =
        pairs.take(*left).filter_map(|(one, other)| one.intersection(other)).collect();
    (!both.is_empty()).then_some(both)
}

/// The paths that both rules match.
fn common_paths(one: &Rule, other: &Rule, left: &mut usize) -> Option<Vec<Pattern>> {
    *left = left.saturating_sub(one.resources.len().saturating_mul(other.resources.len()));
    let pairs =
        one.resources.iter().flat_map(|one| other.resources.iter().map(move |other| (one, other)));
    let both: Vec<Pattern> =
        pairs.take(*left).filter_map(|(one, other)| one.intersection(other)).collect();
    (!both.is_empty()).then_some(both)
}
