//! `deny` rules that callers bypass: without credentials, with another host, or with `HEAD` in
//! place of `GET`.

use document::{Problem, Warning};
use policy::model::{AUTHENTICATED, Effect, Rule};
use policy::pattern::{Actions, Pattern, Scope, Segment};

use crate::cover::{covers_paths, covers_scopes};
use crate::overlap::{overlapping, share_method_and_host};
use crate::related::RelatedRoles;
use crate::trie::{RoleRule, Trie};
use crate::warnings::{Budget, Steps, Warnings};

/// Warns of each `deny` rule that an `allow` rule lets callers bypass.
pub(crate) fn bypassed_denials(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = RelatedRoles::new(trie.policy);
    let mut budget = Budget { total: Steps(2_000_000), max_per_rule: 10_000 };
    for rule in trie.denials() {
        budget.spend(|steps| {
            let mut denial = Denial::new(trie, rule, steps);
            let problems = [
                denial.warn_without_credentials(&related),
                denial.warn_with_another_host(&mut related),
                denial.warn_with_another_method(&mut related),
            ];
            // If no steps are left, another `deny` rule for the same requests may have been missed.
            if steps.are_left() {
                warnings.extend(problems.into_iter().flatten());
            }
        });
    }
}

/// A `deny` rule, and the rules whose paths overlap its paths.
struct Denial<'s, 'p> {
    deny: &'s RoleRule<'p>,
    allowing: Vec<&'s RoleRule<'p>>,
    denying: Vec<&'s RoleRule<'p>>,
    steps: &'s mut Steps,
}

impl<'s, 'p> Denial<'s, 'p> {
    fn new(trie: &'s Trie<'p>, deny: &'s RoleRule<'p>, steps: &'s mut Steps) -> Self {
        let rules = overlapping(trie, deny.rule, steps).into_iter().map(|id| trie.rules.at(id));
        let (allowing, denying) = rules
            .filter(|rule| !std::ptr::eq(*rule, deny))
            .partition(|rule| rule.effect == Effect::Allow);
        Self { deny, allowing, denying, steps }
    }

    /// Warns if a caller bypasses the rule by sending no credentials, because `anyone` may send the
    /// same requests.
    fn warn_without_credentials(&mut self, related: &RelatedRoles<'_>) -> Option<Problem> {
        let Self { allowing, denying, steps, .. } = self;
        let (deny, rule) = (self.deny, self.deny.rule);
        if related.everyone_has(deny.role_id) {
            return None;
        }
        let anonymous_allows: Vec<&RoleRule<'_>> =
            allowing.iter().copied().filter(|allow| may_match_anonymous(allow, related)).collect();
        let anonymous_denials: Vec<&Rule> =
            denying.iter().filter(|r| may_match_anonymous(r, related)).map(|r| r.rule).collect();
        let mut bypasses = anonymous_allows.clone();
        bypasses.retain(|allow| {
            Requests::matching(allow.rule, rule, steps).is_some_and(|common| {
                !common.is_preflight() && !common.are_covered(&anonymous_denials, steps)
            })
        });
        let wider = bypasses.iter().find(|allow| is_exception(rule, allow.rule));
        let allow = *wider.or(bypasses.first())?;
        // A `deny` of a part of an `allow` is clearly meant for it. Another `deny` may be meant for
        // requests that other roles allow.
        if wider.is_none() && self.denies_more_than(&anonymous_allows, related) {
            return None;
        }
        let message = format!(
            "`{}` can be bypassed by omitting credentials: `anyone` allows this",
            rule.name
        );
        let help = if *deny.role.name == *AUTHENTICATED {
            "move the `deny` to `anyone`, or the `allow` to `authenticated`"
        } else {
            "move the `allow` to `authenticated`, or, if every caller is meant, the `deny` to \
             `anyone`"
        };
        Some(allow.relate_to(deny.warning(Warning::OpenAnonymous, message, help)))
    }

    /// Whether the rule also denies requests that other roles allow, and `anonymous_allows` do not.
    /// A broad `deny`, such as `/**` for a suspended group, is meant for these: it gets no warning.
    fn denies_more_than(
        &mut self,
        anonymous_allows: &[&RoleRule<'_>],
        related: &RelatedRoles<'_>,
    ) -> bool {
        let anonymous: Vec<&Rule> = anonymous_allows.iter().map(|allow| allow.rule).collect();
        let mut others = self.allowing.iter().filter(|allow| !related.everyone_has(allow.role_id));
        others.any(|allow| {
            Requests::matching(allow.rule, self.deny.rule, self.steps)
                .is_some_and(|common| !common.are_covered(&anonymous, self.steps))
        })
    }

    /// Warns if the rule is for some hosts, and the same path is allowed on another host: the
    /// client chooses the host.
    fn warn_with_another_host(&mut self, related: &mut RelatedRoles<'_>) -> Option<Problem> {
        let (deny, rule) = (self.deny, self.deny.rule);
        // If nothing is allowed on its hosts, it gets another warning ([`Warning::UnmatchedDeny`]).
        if rule.scopes.is_empty()
            || !self.allowing.iter().any(|allow| share_method_and_host(allow.rule, rule))
        {
            return None;
        }
        for allow in self.allowing.clone() {
            let Some(hosts) = open_hosts(rule, allow.rule) else { continue };
            let apex = hosts.first().map(ToString::to_string);
            let Some(requests) = Requests::on_any_host(allow.rule, rule, self.steps) else {
                continue;
            };
            if !self.is_open(allow, &Requests { scopes: hosts, ..requests }, related) {
                continue;
            }
            let (name, allow_name) = (&rule.name, &allow.rule.name);
            let warning = if let Some(apex) = apex {
                let message = format!(
                    "`{name}` is not for `{apex}`, where `{allow_name}` allows this path: \
                     `*.{apex}` is not `{apex}`"
                );
                let help = format!("write a `deny` for `{apex}`, too, or one without a host");
                deny.warning(Warning::OpenHost, message, &help)
            } else {
                let message = format!(
                    "`{name}` is for some hosts only: `{allow_name}` allows this path on every \
                     other host, and the client chooses the host"
                );
                let help = "write the `deny` without a host, or the `allow` with hosts; or accept \
                            this where the proxy routes by host";
                deny.warning(Warning::OpenHost, message, help)
            };
            return Some(allow.relate_to(warning));
        }
        None
    }

    /// Warns if the rule denies only one of `GET` and `HEAD`, and the other is allowed:
    /// applications answer `HEAD` like `GET`, without the body. A `deny` of `HEAD` among other
    /// methods is taken as intended.
    fn warn_with_another_method(&mut self, related: &mut RelatedRoles<'_>) -> Option<Problem> {
        let (deny, rule) = (self.deny, self.deny.rule);
        let Actions::These(methods) = &rule.actions else { return None };
        let (denied, open) = match [b"GET".as_slice(), b"HEAD"].map(|m| rule.actions.matches(m)) {
            [true, false] => ("GET", "HEAD"),
            [false, true] if methods.len() == 1 => ("HEAD", "GET"),
            _ => return None,
        };
        for allow in self.allowing.clone() {
            // An `allow` rule for the other method without the denied method, on the same or fewer
            // paths, is intended.
            let is_intended =
                !allow.rule.actions.matches(denied.as_bytes()) && covers_paths(rule, allow.rule);
            if is_intended || !allow.rule.actions.matches(open.as_bytes()) {
                continue;
            }
            let actions = Actions::These(vec![open.into()]);
            let Some(scopes) = common_scopes(allow.rule, rule, self.steps) else { continue };
            let Some(paths) = common_paths(allow.rule, rule, self.steps) else { continue };
            if self.is_open(allow, &Requests { actions, scopes, paths }, related) {
                let message = format!(
                    "`{}` leaves `{open}` open: `{}` allows it on the same paths",
                    rule.name, allow.rule.name
                );
                let help = format!(
                    "add `{open}`, or write `*` for every method: a method stands for itself alone"
                );
                return Some(allow.relate_to(deny.warning(Warning::OpenMethod, message, &help)));
            }
        }
        None
    }

    /// Whether the `deny` rule restricts callers with the role of the `allow` rule, and these
    /// requests stay open to them. Such a caller has the roles of both rules, and all roles that
    /// these include. The requests stay open if no `deny` rule of any of these roles covers them.
    fn is_open(
        &mut self,
        allow: &RoleRule<'_>,
        requests: &Requests,
        related: &mut RelatedRoles<'_>,
    ) -> bool {
        if !related.restricts(self.deny, allow.role_id, self.steps) {
            return false;
        }
        let mut denials: Vec<&Rule> = Vec::new();
        for role in [allow.role_id, self.deny.role_id] {
            let roles = related.roles_of(role, self.steps);
            let of_roles = self.denying.iter().filter(|r| roles.has(r.role_id));
            denials.extend(of_roles.map(|r| r.rule));
        }
        !requests.are_covered(&denials, self.steps)
    }
}

/// Whether a rule may match requests of callers without credentials.
fn may_match_anonymous(rule: &RoleRule<'_>, related: &RelatedRoles<'_>) -> bool {
    let mut segments = rule.rule.resources.iter().flat_map(|pattern| &pattern.segments);
    related.everyone_has(rule.role_id)
        && !segments.any(|segment| matches!(segment, Segment::User | Segment::UserId(_)))
}

/// Whether a `deny` rule is for some of the paths or hosts of an `allow` rule, but not all: a
/// `deny` of `/internal/**` is an exception to an `allow` of `/**`.
fn is_exception(deny: &Rule, allow: &Rule) -> bool {
    let covers_hosts = covers_scopes(&deny.scopes, &allow.scopes);
    covers_scopes(&allow.scopes, &deny.scopes)
        && deny.resources.iter().any(|deny| {
            allow
                .resources
                .iter()
                .any(|allow| allow.covers(deny) && !(covers_hosts && deny.covers(allow)))
        })
}

/// The hosts of the `allow` rule that the `deny` rule leaves open, probably by mistake: such as
/// `example.com`, if the `deny` rule has only `*.example.com`. An empty list means any host, as in
/// [`Requests`]. `None` if there are no such hosts.
fn open_hosts(deny: &Rule, allow: &Rule) -> Option<Vec<Scope>> {
    if allow.scopes.is_empty() {
        return Some(Vec::new());
    }
    // An `allow` rule for the same or fewer paths is intended.
    if covers_paths(deny, allow) {
        return None;
    }
    let apexes = allow.scopes.iter().filter(|host| is_apex(host, deny)).cloned().collect();
    Some(apexes).filter(|apexes: &Vec<Scope>| !apexes.is_empty())
}

fn is_apex(host: &Scope, deny: &Rule) -> bool {
    let Scope::Exact(host) = host else { return false };
    deny.scopes.contains(&Scope::Below(host.clone()))
        && !deny.scopes.iter().any(|scope| scope.matches(host.as_bytes()))
}

/// The requests with any of these methods, hosts (an empty list: any host) and paths.
struct Requests {
    actions: Actions,
    scopes: Vec<Scope>,
    paths: Vec<Pattern>,
}

impl Requests {
    /// The requests that match both rules.
    fn matching(a: &Rule, b: &Rule, steps: &mut Steps) -> Option<Self> {
        let requests = Self::on_any_host(a, b, steps)?;
        Some(Self { scopes: common_scopes(a, b, steps)?, ..requests })
    }

    /// The requests that would match both rules if they were for any host.
    fn on_any_host(a: &Rule, b: &Rule, steps: &mut Steps) -> Option<Self> {
        let actions = a.actions.intersection(&b.actions)?;
        Some(Self { actions, scopes: Vec::new(), paths: common_paths(a, b, steps)? })
    }

    /// Whether these are preflight requests. Browsers send them without credentials, so `anyone`
    /// has to allow them.
    fn is_preflight(&self) -> bool {
        let Actions::These(methods) = &self.actions else { return false };
        methods.iter().all(|method| **method == *"OPTIONS")
    }

    /// Whether each combination of a method, a host and a path is matched by one of these rules.
    /// True if no steps are left, so that no warning follows.
    fn are_covered(&self, rules: &[&Rule], steps: &mut Steps) -> bool {
        let actions: Vec<Actions> = match &self.actions {
            Actions::Any => vec![Actions::Any],
            Actions::These(actions) => {
                actions.iter().map(|action| Actions::These(vec![action.clone()])).collect()
            }
        };
        let hosts: Vec<&[Scope]> =
            if self.scopes.is_empty() { vec![&[]] } else { self.scopes.chunks(1).collect() };
        self.paths.iter().all(|path| {
            actions.iter().all(|action| {
                hosts.iter().all(|host| {
                    rules.iter().any(|rule| {
                        !steps.take(1 + rule.resources.len() + rule.scopes.len())
                            || rule.actions.covers(action)
                                && covers_scopes(&rule.scopes, host)
                                && rule.resources.iter().any(|pattern| pattern.covers(path))
                    })
                })
            })
        })
    }
}

/// The hosts that both rules match; `None` if there are none. An empty list means any host.
fn common_scopes(a: &Rule, b: &Rule, steps: &mut Steps) -> Option<Vec<Scope>> {
    if a.scopes.is_empty() || b.scopes.is_empty() {
        return Some([&*a.scopes, &*b.scopes].concat());
    }
    intersections(&a.scopes, &b.scopes, Scope::intersection, steps)
}

/// The paths that both rules match.
fn common_paths(a: &Rule, b: &Rule, steps: &mut Steps) -> Option<Vec<Pattern>> {
    intersections(&a.resources, &b.resources, Pattern::intersection, steps)
}

/// The intersections of all pairs; `None` if there are none.
fn intersections<T>(
    a: &[T],
    b: &[T],
    intersection: impl Fn(&T, &T) -> Option<T>,
    steps: &mut Steps,
) -> Option<Vec<T>> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b))).take(steps.0);
    steps.take(a.len().saturating_mul(b.len()));
    let common: Vec<T> = pairs.filter_map(|(a, b)| intersection(a, b)).collect();
    (!common.is_empty()).then_some(common)
}
