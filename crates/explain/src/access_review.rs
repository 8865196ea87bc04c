//! What of a policy was used, according to its decision log, and who could use it. The owners of
//! grants can then confirm them or take them away.
//!
//! [`AccessReview`] counts the lines of logs. Logs may be larger than memory, so `usage` bounds
//! what is kept of them. `report` has the result, `text` and `table` print it.

mod report;
mod table;
mod text;
mod usage;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use identity::UnixTime;
use policy::Policy;
use policy::model::{RoleId, Rule};

use crate::holders::{Grantee, Holders, RoleGrant, role_grants};
pub use report::{AccessReport, AccessRow, Kind, LogSummary, Status, UnknownRule, UsageCounts};
use usage::{Callers, Usage};

/// The maximum number of names that are kept: of rules of other policies, and of roles in requests
/// to a search cluster.
const MAX_NAMES: usize = 1_000;
/// The maximum length of such a name in bytes. A longer name is cut, and a longer revision is not
/// kept. A rule of this policy may be longer: its whole text is looked up.
const MAX_NAME: usize = 512;

/// A line of a decision log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedAccess<'l> {
    /// When the request was received.
    pub time: Option<UnixTime>,
    /// The revision of the policy that decided.
    pub revision: Option<&'l str>,
    /// Whether the request was allowed.
    pub allowed: bool,
    /// Whether the role files of a search cluster decided.
    pub by_cluster: bool,
    /// The rule that decided, as `role: rule`.
    pub rule: Option<&'l str>,
    /// The user, with its prefix, or what a mask has left of it.
    pub user: Option<&'l str>,
    /// Whether a mask has replaced the user, or left it out.
    pub is_user_masked: bool,
    /// The issuer of the caller's token, `basic` or `api_keys`.
    pub source: &'l str,
    /// The caller's groups.
    pub groups: &'l [String],
    /// The roles in the caller's token.
    pub roles: &'l [String],
    /// The share of decisions like this one that is logged, if the log is a sample of them.
    pub sampled: Option<f64>,
}

/// Counts what of a policy was used.
pub struct AccessReview<'p> {
    policy: &'p Policy,
    revision: String,
    since: Option<UnixTime>,
    holders: Holders<'p>,
    callers: Callers,
    grants: Vec<CountedGrant<'p>>,
    rules: Vec<CountedRule<'p>>,
    index: Index<'p>,
    log: LogCounts,
    /// Rules that this policy does not have.
    unknown_rules: BTreeMap<String, Usage>,
    /// Roles in the tokens of requests to a search cluster.
    cluster_roles: BTreeMap<String, Usage>,
}

struct CountedGrant<'p> {
    grant: RoleGrant<'p>,
    usage: Usage,
}

struct CountedRule<'p> {
    role: RoleId,
    rule: &'p Rule,
    /// The role, and those that extend it.
    roles: BTreeSet<RoleId>,
    usage: Usage,
}

/// Finds the rules and grants that a line names. A `usize` is a position in the list of
/// [`CountedRule`]s or of [`CountedGrant`]s.
#[derive(Default)]
struct Index<'p> {
    rules: HashMap<String, Vec<usize>>,
    users: HashMap<&'p str, Vec<usize>>,
    groups: HashMap<&'p str, Vec<usize>>,
    /// By issuer and role.
    tokens: HashMap<(&'p str, &'p str), usize>,
    /// The role of every caller.
    everyone: Option<RoleId>,
    /// The role of every authenticated caller.
    authenticated: Option<RoleId>,
}

/// What is counted of all lines.
#[derive(Default)]
struct LogCounts {
    period: Option<(UnixTime, UnixTime)>,
    lines: u64,
    allowed: u64,
    /// Lines that are left out, because they are older than `since`.
    before: u64,
    without_time: u64,
    sampled: u64,
    masked_users: u64,
    by_cluster: u64,
    of_other_revisions: u64,
    other_revisions: BTreeSet<String>,
    /// Allowed lines of callers to whom no grant of this policy gives the rule.
    without_grant: u64,
    /// Allowed lines with an unknown rule that is not kept: there are already [`MAX_NAMES`].
    more_unknown: u64,
}

impl<'p> AccessReview<'p> {
    /// For the policy with this revision. Lines before `since` are left out.
    #[must_use]
    pub fn new(policy: &'p Policy, revision: &str, since: Option<UnixTime>) -> Self {
        let holders = Holders::new(policy);
        let grants = role_grants(policy).into_iter();
        let grants: Vec<CountedGrant<'p>> =
            grants.map(|grant| CountedGrant { grant, usage: Usage::default() }).collect();
        // A `deny` rule gives nobody access.
        let allow_rules = policy
            .roles
            .entries()
            .flat_map(|(id, role)| role.allow.iter().map(move |rule| (id, rule)));
        let mut roles_with: HashMap<RoleId, BTreeSet<RoleId>> = HashMap::new();
        let rules = allow_rules.map(|(role, rule)| {
            let roles = roles_with.entry(role).or_insert_with(|| holders.roles_with(role)).clone();
            CountedRule { role, rule, roles, usage: Usage::default() }
        });
        let rules: Vec<CountedRule<'p>> = rules.collect();
        let index = Index::new(policy, &grants, &rules);
        Self {
            policy,
            revision: revision.to_owned(),
            since,
            holders,
            callers: Callers::default(),
            grants,
            rules,
            index,
            log: LogCounts::default(),
            unknown_rules: BTreeMap::new(),
            cluster_roles: BTreeMap::new(),
        }
    }

    /// Counts a line.
    pub fn add(&mut self, line: &LoggedAccess<'_>) {
        if let Some(since) = self.since {
            // A line without a time may be older.
            if line.time.is_none_or(|time| time < since) {
                self.log.before += u64::from(line.time.is_some());
                self.log.without_time += u64::from(line.time.is_none());
                return;
            }
        }
        self.log.add(line, &self.revision);
        if !line.allowed {
            return;
        }
        if line.by_cluster {
            for role in line.roles {
                if let Some(usage) = usage_of(&mut self.cluster_roles, role) {
                    usage.add(line, &mut self.callers);
                }
            }
            return;
        }
        let Some(text) = line.rule else { return };
        let Some(rules) = self.index.rules.get(text) else {
            match usage_of(&mut self.unknown_rules, text) {
                Some(usage) => usage.add(line, &mut self.callers),
                None => self.log.more_unknown += 1,
            }
            return;
        };
        let caller_grants = self.index.grants_of(line);
        let mut used_grants = BTreeSet::new();
        let mut has_reserved_role = false;
        for index in rules {
            let Some(counted) = self.rules.get_mut(*index) else { continue };
            counted.usage.add(line, &mut self.callers);
            let roles = &counted.roles;
            let is_known = line.user.is_some() || line.is_user_masked;
            let reserved = [self.index.everyone, self.index.authenticated.filter(|_| is_known)];
            has_reserved_role |= reserved.iter().flatten().any(|role| roles.contains(role));
            used_grants.extend(caller_grants.iter().copied().filter(|number| {
                let role = self.grants.get(*number).map(|counted| counted.grant.role);
                role.is_some_and(|role| roles.contains(&role))
            }));
        }
        self.log.without_grant += u64::from(!has_reserved_role && used_grants.is_empty());
        for number in used_grants {
            if let Some(counted) = self.grants.get_mut(number) {
                counted.usage.add(line, &mut self.callers);
            }
        }
    }

    /// How many of the lines are allowed requests.
    #[must_use]
    pub const fn allowed(&self) -> u64 {
        self.log.allowed
    }

    /// How many lines are counted.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.log.lines
    }
}

/// The entry with this name, which is cut to [`MAX_NAME`] bytes. `None` if there are too many
/// names.
fn usage_of<'u>(names: &'u mut BTreeMap<String, Usage>, name: &str) -> Option<&'u mut Usage> {
    let name = name.get(..name.floor_char_boundary(MAX_NAME)).unwrap_or(name);
    if names.len() >= MAX_NAMES && !names.contains_key(name) {
        return None;
    }
    Some(names.entry(name.to_owned()).or_default())
}

impl<'p> Index<'p> {
    fn new(policy: &'p Policy, grants: &[CountedGrant<'p>], rules: &[CountedRule<'p>]) -> Self {
        let mut index = Self::default();
        for (number, CountedRule { role, rule, .. }) in rules.iter().enumerate() {
            let text = format!("{}: {}", policy.roles.at(*role).name, rule.name);
            index.rules.entry(text).or_default().push(number);
        }
        for (number, CountedGrant { grant, .. }) in grants.iter().enumerate() {
            match grant.to {
                Grantee::Everyone => index.everyone = Some(grant.role),
                Grantee::Authenticated => index.authenticated = Some(grant.role),
                Grantee::User(user) => index.users.entry(user).or_default().push(number),
                Grantee::Group(group) => index.groups.entry(group).or_default().push(number),
                Grantee::Tokens(issuer) => {
                    let role = &*policy.roles.at(grant.role).name;
                    index.tokens.insert((&issuer.issuer, role), number);
                }
            }
        }
        index
    }

    /// The grants to the caller of a line: by its name, its groups, and the roles in its token.
    fn grants_of(&self, line: &LoggedAccess<'_>) -> Vec<usize> {
        let user = line.user.filter(|_| !line.is_user_masked);
        let by_user = user.and_then(|user| self.users.get(user)).into_iter().flatten();
        let by_group = line.groups.iter().filter_map(|group| self.groups.get(&**group)).flatten();
        let roles = line.roles.iter();
        let by_token = roles.filter_map(|role| self.tokens.get(&(line.source, &**role)));
        by_user.chain(by_group).chain(by_token).copied().collect()
    }
}

impl LogCounts {
    fn add(&mut self, line: &LoggedAccess<'_>, revision: &str) {
        self.lines += 1;
        self.allowed += u64::from(line.allowed);
        self.without_time += u64::from(line.time.is_none());
        self.sampled += u64::from(usage::weight(line.sampled) > 1.0);
        self.masked_users += u64::from(line.allowed && line.is_user_masked);
        self.by_cluster += u64::from(line.by_cluster);
        if let Some(time) = line.time {
            let (first, last) = self.period.unwrap_or((time, time));
            self.period = Some((first.min(time), last.max(time)));
        }
        if let Some(other) = line.revision.filter(|r| *r != revision) {
            self.of_other_revisions += 1;
            let is_kept = self.other_revisions.len() < report::MAX_REVISIONS;
            if is_kept && other.len() <= MAX_NAME {
                self.other_revisions.insert(other.to_owned());
            }
        }
    }
}
