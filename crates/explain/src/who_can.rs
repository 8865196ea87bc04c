//! Who may make a request: the reverse of authorizing one, computed from the policy itself.
//!
//! `matches` finds the rules that match and the roles that have them, `callers` those who may have
//! these roles; `text` prints them.

mod callers;
mod cluster;
mod matches;
mod text;

use authorizer::{ParseScratch, Reason, Request};
use identity::UnixTime;
use search::Steps;
use serde::Serialize;

use crate::explanation::ExplainedCluster;
use crate::matched::ExplainedRule;
use crate::{Explainer, STEPS_PER_COMMAND, STEPS_PER_PAGE, is_false, is_zero, lossy, notes};
use matches::Matches;

/// Who may make a request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhoCan {
    /// The name of the reason why the request is denied to every caller, if it is invalid.
    pub reason: Option<&'static str>,
    /// That reason in words.
    pub because: Option<String>,
    /// The interpretations of the path: a caller must be allowed on each of them.
    pub paths: Vec<String>,
    /// Who may make the request. Whoever none of these describes may not, unless [some are left
    /// out](Self::left_out).
    pub callers: Vec<Callers>,
    /// Whether callers are left out, because finding all of them takes too many steps. A note says
    /// so, too.
    #[serde(skip_serializing_if = "is_false")]
    pub left_out: bool,
    /// Every rule that matches, in the order of the policy. Rules that deny win.
    pub rules: Vec<MatchingRule>,
    /// What was probably meant, where the request looks like a mistake or like a rule.
    pub notes: Vec<String>,
    /// What a request to a search cluster needs; `None` for other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Box<ExplainedCluster>>,
}

/// Callers who may make a request: those from one source who meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Callers {
    /// How they authenticate.
    #[serde(flatten)]
    pub source: CallerSource,
    /// Their user names, with the prefix of their source; `None` if the name does not matter.
    pub users: Option<Vec<String>>,
    /// User names to which this does not apply.
    pub except_users: Vec<String>,
    /// What the token must have: at least one attribute of each list.
    pub needs: Vec<Vec<Attribute>>,
    /// What the token must not have: a `deny` rule matches with each of these.
    pub unless: Vec<Attribute>,
}

/// How a caller authenticates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum CallerSource {
    /// Not at all.
    Anonymous,
    /// With HTTP Basic.
    Basic,
    /// With a token.
    Token {
        /// Its issuer.
        issuer: String,
    },
}

/// What a token can have that the policy uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
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
    /// For each of these patterns, a role or group that it matches.
    BackendRoles(Vec<String>),
    /// A user name that this pattern matches.
    Name(String),
    /// An address of the client that this pattern matches.
    Address(String),
    /// An attribute that counts only for callers whose values make the pattern of a role match the
    /// names.
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
}

/// A rule that matches the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchingRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The interpretation of the path that it matches.
    pub path: String,
    /// The roles that have it: its own role, and those that extend it.
    pub roles: Vec<String>,
    /// How many more have it, if not all are listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_roles: usize,
    /// If it is only for the user whom the path names: the user name that the caller must have.
    pub user: Option<String>,
}

impl Explainer<'_> {
    /// Who may make this request; only its body and headers that describe the body count beside
    /// method, host and path. It lists users where the policy knows them, and says what a token
    /// must have where only its issuer knows who has such a token.
    #[must_use]
    pub fn who_can(self, request: &Request<'_>, now: UnixTime) -> WhoCan {
        self.who_can_within(request, now, usize::MAX, STEPS_PER_COMMAND)
    }

    /// The same for a page: with at most so many rules, and so many roles of each. A thousand rules
    /// of roles that extend each other have half a million roles. On a search cluster it ends after
    /// fewer steps.
    #[must_use]
    pub fn who_can_listing(self, request: &Request<'_>, now: UnixTime, most: usize) -> WhoCan {
        self.who_can_within(request, now, most, STEPS_PER_PAGE)
    }

    fn who_can_within(
        self,
        request: &Request<'_>,
        now: UnixTime,
        most: usize,
        max_steps: usize,
    ) -> WhoCan {
        if let Some(cluster) = self.cluster_of(request.host) {
            return self.who_can_on_cluster(cluster, request, now, Steps::new(max_steps));
        }
        let mut scratch = ParseScratch::default();
        let request = Request { headers: &[], ..*request };
        let nobody = WhoCan { notes: notes::notes(&request), ..WhoCan::default() };
        let parsed = match authorizer::parse(&request, &mut scratch) {
            Ok(parsed) => parsed,
            Err(reason) => return nobody.because_of(reason),
        };
        let matches = Matches::new(self.policy(), &parsed);
        let (rules, number) = matches.rules(most);
        let more_rules = number.saturating_sub(rules.len());
        let left_out =
            (more_rules > 0).then(|| format!("{more_rules} more rules match and are not listed"));
        WhoCan {
            paths: parsed.paths.all().map(lossy).collect(),
            callers: callers::callers(self.policy(), &matches),
            rules,
            notes: nobody.notes.iter().cloned().chain(left_out).collect(),
            ..nobody
        }
    }
}

impl WhoCan {
    fn because_of(self, reason: Reason) -> Self {
        Self { reason: Some(reason.name()), because: Some(reason.to_string()), ..self }
    }
}
