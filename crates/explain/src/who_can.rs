//! Who may make a request: the reverse of authorizing it, computed from the policy itself.
//!
//! `matches` finds the rules that match and the roles that have them, `callers` finds the callers
//! who may have these roles, `cluster` does both for a search cluster, and `text` prints them.

mod callers;
mod cluster;
mod matches;
mod text;

use std::collections::BTreeSet;

use authorizer::{HeaderLines, ParseScratch, ParsedRequest, Reason, Request};
use condition::RequestInputs;
use identity::UnixTime;
use policy::model::Effect;
use review::{CallerSource, quote_names};
use search::Steps;
use serde::Serialize;

use crate::conditions::{GivenHeaders, false_parts, given_certificate, given_variables};
use crate::explanation::{ExplainedCluster, NearRule, RequestOfSubject};
use crate::rules::{ExplainedRule, is_for};
use crate::ways::{Given, Place};
use crate::{Explainer, STEPS_PER_COMMAND, STEPS_PER_PAGE, is_false, is_zero, lossy, notes};
use matches::Matches;

/// The maximum number of hosts that a note names.
const MAX_HOSTS: usize = 10;

/// The maximum number of rules whose false conditions are named in notes, if nobody may make the
/// request.
const MAX_FAILING: usize = 3;

/// Who may make a request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhoCan {
    /// The name of the reason why the request is denied to every caller, if it is invalid.
    pub reason: Option<&'static str>,
    /// The same reason in words.
    pub because: Option<String>,
    /// The method.
    pub method: String,
    /// The canonical host, if the request is valid; it may be empty.
    pub host: Option<String>,
    /// The interpretations of the path: a caller must be allowed on each of them.
    pub paths: Vec<String>,
    /// The callers who may make the request. All others may not, unless [some callers are left
    /// out](Self::left_out).
    pub callers: Vec<Callers>,
    /// Whether callers are left out, because finding all of them takes too many steps. There is
    /// also a note.
    #[serde(skip_serializing_if = "is_false")]
    pub left_out: bool,
    /// Every rule that matches, in the order of the policy. Rules that deny win.
    pub rules: Vec<MatchingRule>,
    /// If no rule allows the request: the first few rules that match in all respects but one.
    pub nearly: Vec<NearRule>,
    /// Hints, if the request looks like a mistake, or has a placeholder like a rule.
    pub notes: Vec<String>,
    /// The needs of a request to a search cluster; `None` for other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ExplainedCluster>>,
}

/// Callers of a source who may make a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Callers {
    /// How they authenticate.
    #[serde(flatten)]
    pub source: CallerSource,
    /// Their user names, with the prefix of their source; `None` if the name does not matter.
    pub users: Option<Vec<String>>,
    /// User names to which this does not apply.
    pub except_users: Vec<String>,
    /// When the last key of these users expires; `None` if they need no key, or have one that does
    /// not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The condition of the policy under which they may; `None` if they always may. The parts that
    /// the request itself decides are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The condition that each caller meets.
    #[serde(flatten)]
    pub condition: Condition,
}

/// The attributes that a caller must have and must not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// The caller has at least one attribute of each list.
    pub needs: Vec<Vec<Attribute>>,
    /// The caller has none of these attributes: each makes a `deny` rule match, or hides documents.
    /// An attribute under a condition counts unless the condition is false.
    pub unless: Vec<Attribute>,
}

/// An attribute of a caller that gives it roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// This role.
    Role(String),
    /// This group, with the prefix of its issuer.
    Group(String),
    /// Nothing: every caller of the source has it.
    Anyone,
    /// A role or group that this pattern of a search cluster's role mapping matches.
    BackendRole(String),
    /// Roles or groups such that each of these patterns matches at least one.
    BackendRoles(Vec<String>),
    /// A user name that this pattern matches.
    Name(String),
    /// An address of the client that this pattern matches.
    Address(String),
    /// An attribute that counts only if the index pattern of a role matches `names`. The variables
    /// of the pattern have the values of the caller.
    Where {
        /// The attribute.
        attribute: Box<Attribute>,
        /// The pattern, with its variables.
        pattern: String,
        /// Names of indices of the request.
        names: Vec<String>,
        /// The only user name with which the pattern matches, if that is certain.
        user: Option<String>,
    },
    /// An attribute that counts only under a condition of the policy.
    When {
        /// The attribute.
        attribute: Box<Attribute>,
        /// The condition.
        condition: String,
    },
}

impl Attribute {
    /// The attribute, and its condition, if any.
    fn under_condition(&self) -> (&Self, Option<&str>) {
        if let Self::When { attribute, condition } = self {
            (attribute, Some(condition))
        } else {
            (self, None)
        }
    }

    /// Whether every caller who has the other attribute has this attribute.
    fn is_implied_by(&self, other: &Self) -> bool {
        let (wide, condition) = self.under_condition();
        let (narrow, other_condition) = other.under_condition();
        (*wide == Self::Anyone || wide == narrow)
            && (condition.is_none() || condition == other_condition)
    }
}

impl From<review::Attribute> for Attribute {
    fn from(attribute: review::Attribute) -> Self {
        match attribute {
            review::Attribute::Role(name) => Self::Role(name),
            review::Attribute::Group(name) => Self::Group(name),
        }
    }
}

/// A rule that matches the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchingRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The interpretation of the path that it matches.
    pub path: String,
    /// The roles that have it: its own role, and the roles that extend it.
    pub roles: Vec<String>,
    /// How many more roles have it, if not all are listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_roles: usize,
    /// Its condition and that of its role, if any. The parts that the request itself decides are
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The user name that the caller must have, if the rule only matches for the user in the path.
    pub user: Option<String>,
}

impl Explainer<'_> {
    /// Who may make this request, according to its method, host, path and body, with the headers
    /// that describe the body. Lists the users of the policy, and the conditions that other callers
    /// must meet. The time, the client, the headers and the query decide conditions where the
    /// request has them; those that it lacks may have any value. Users whose keys have expired by
    /// the time that was named are left out.
    #[must_use]
    pub fn who_can(self, request: &Request<'_>, now: UnixTime) -> WhoCan {
        self.who_can_within(request, now, usize::MAX, STEPS_PER_COMMAND)
    }

    /// Like [`Self::who_can`], for a page: with at most `max` rules, each with at most `max` roles.
    /// A thousand rules of roles that extend each other have half a million roles. On a search
    /// cluster the search ends after fewer steps.
    #[must_use]
    pub fn who_can_listing(self, request: &Request<'_>, now: UnixTime, max: usize) -> WhoCan {
        self.who_can_within(request, now, max, STEPS_PER_PAGE)
    }

    fn who_can_within(
        self,
        request: &Request<'_>,
        now: UnixTime,
        max: usize,
        max_steps: usize,
    ) -> WhoCan {
        if let Some(cluster) = self.cluster_of(request.host) {
            return self.who_can_on_cluster(cluster, request, now, Steps::new(max_steps));
        }
        let mut scratch = ParseScratch::default();
        let lines = GivenHeaders(HeaderLines(request.headers));
        let certificate = given_certificate(request);
        let variables = given_variables(self.policy(), request, &lines, &certificate, self.time);
        let request = Request { headers: &[], ..*request };
        let method = lossy(request.method);
        let mut answer = WhoCan { method, notes: notes::notes(&request), ..WhoCan::default() };
        let parsed = match authorizer::parse(&request, &self.policy().identity, &mut scratch) {
            Ok(parsed) => parsed,
            Err(reason) => return answer.because_of(reason),
        };
        let (method, host) = (parsed.method, parsed.host);
        let variables = RequestInputs { method, host, ..variables };
        let given = Given { request: variables, ..Given::default() };
        let matches = Matches::new(self.policy(), &parsed, given);
        let count;
        (answer.rules, count) = matches.rules(max);
        if count > answer.rules.len() {
            let more = count - answer.rules.len();
            answer.notes.push(format!("{more} more rules match and are not listed"));
        }
        answer.host = Some(lossy(parsed.host));
        answer.paths = parsed.paths.all().map(lossy).collect();
        answer.callers = callers::callers(self.policy(), &matches, self.time);
        answer.notes.extend(notes::note_on_actors(&self.policy().identity));
        if answer.callers.is_empty() {
            answer.notes.extend(self.failing_rules(&parsed, &given));
        }
        if answer.rules.iter().all(|rule| rule.rule.denies)
            && let Some(path) = parsed.paths.all().next()
        {
            let request =
                RequestOfSubject { policy: self.policy(), method, host, path, subject: None };
            answer.nearly = request.near_rules_for_everyone(&given);
        }
        answer
    }

    /// Notes on the first few rules that would allow a request if a condition were true, with the
    /// parts that are false.
    fn failing_rules(self, parsed: &ParsedRequest<'_>, given: &Given<'_>) -> Vec<String> {
        let policy = self.policy();
        let Some(path) = parsed.paths.all().next() else { return Vec::new() };
        let mut notes = Vec::new();
        for (_, role, rule, effect) in policy.rules() {
            if effect != Effect::Allow || !is_for(rule, parsed.method, parsed.host) {
                continue;
            }
            let Some(place) = Place::all(rule, parsed.host, path, None).into_iter().next() else {
                continue;
            };
            let parts = false_parts(policy, (role, rule), &place, given);
            if !parts.is_empty() && notes.len() < MAX_FAILING {
                let rule = ExplainedRule::new(role, rule, effect);
                let parts = parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>();
                notes.push(format!("{rule} would allow it, but {} is false", parts.join(" and ")));
            }
        }
        notes
    }

    /// A note for a request whose host nobody has given: the hosts for which other rules match.
    #[must_use]
    pub fn other_hosts(self, request: &Request<'_>) -> Option<String> {
        if self.is_of_cluster(request.host) {
            return None;
        }
        let mut scratch = ParseScratch::default();
        let request = Request { headers: &[], ..*request };
        let parsed = authorizer::parse(&request, &self.policy().identity, &mut scratch).ok()?;
        let hosts = matches::other_hosts(self.policy(), &parsed);
        let host = lossy(parsed.host);
        (!hosts.is_empty()).then(|| {
            let hosts = quote_names("host", &hosts, "and", MAX_HOSTS);
            format!(
                "no host given, so the answer is for `{host}`; rules for {hosts} match this path: \
                 give a URL"
            )
        })
    }
}

impl WhoCan {
    fn because_of(self, reason: Reason) -> Self {
        Self { reason: Some(reason.name()), because: Some(reason.to_string()), ..self }
    }
}

impl Callers {
    fn new(source: CallerSource, condition: Condition) -> Self {
        Self { source, users: None, except_users: Vec::new(), until: None, when: None, condition }
    }
}

impl Condition {
    /// A condition that every caller meets.
    fn always() -> Self {
        Self::default()
    }

    /// Leaves out each list that contains another list: a caller who meets the shorter list meets
    /// it, too.
    fn new(needs: &[BTreeSet<Attribute>], unless: BTreeSet<Attribute>) -> Self {
        let narrowest = needs.iter().filter(|wide| {
            !needs.iter().any(|narrow| narrow.len() < wide.len() && narrow.is_subset(wide))
        });
        Self {
            needs: narrowest.map(|list| list.iter().cloned().collect()).collect(),
            unless: unless.into_iter().collect(),
        }
    }

    /// Whether its lists show that all callers who meet the other condition meet it.
    fn is_met_by_all(&self, other: &Self) -> bool {
        self.unless == other.unless
            && self.needs.iter().all(|wide| {
                let mut lists = other.needs.iter();
                lists.any(|narrow| narrow.iter().all(|n| wide.iter().any(|w| w.is_implied_by(n))))
            })
    }
}
