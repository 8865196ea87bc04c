//! `rolegate suggest`: prints a small policy that allows the allowed requests of a decision log.

use std::collections::BTreeSet;

use policy::model::{API_KEYS, BASIC, CERTIFICATES, Identity, SourceId};
use review::{Usage, UserId};
use serde::Serialize;

use super::cluster_usage::{self, CallerOnCluster, ClusterUsage};
use super::decision_lines::DecisionLines;
use super::logged::LoggedDecision;
use crate::cli::{Format, SuggestArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// The maximum number of different requests: they are kept in memory.
const MAX_REQUESTS: usize = 1_000_000;

/// Prints the policy, then the rules of the present policy that decided no request.
pub(crate) fn run(args: &SuggestArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.policy.output;
    let present = args.policy.path.given().map(|_| args.policy.load(output)).transpose()?;
    let present = present.as_ref().map(|present| &present.loaded.policy);
    let Log { usage, cluster, used_rules, decisions, unreadable, inexact } =
        read(args, present.map(|present| &present.identity))?;
    let log = args.log.display();
    if decisions == 0 {
        return Err(CommandError::arguments(format_args!("`{log}` has no line of a decision log")));
    }
    let on_cluster = cluster.callers();
    if usage.nothing_allowed() && on_cluster.is_empty() {
        let help = match (inexact, usage.unnameable_methods()) {
            (0, 0) => "write the log with `--decision-log all`; for permissions that are missing: \
                       `rolegate explain --policy POLICY --decision LOG`"
                .to_owned(),
            (0, unnamed) => format!("a rule cannot name the method of {unnamed} of its requests"),
            _ => format!("{inexact} of its lines are cut or masked: write the log without masks"),
        };
        return Err(CommandError::arguments(format_args!(
            "`{log}` has no allowed request that can be used: {help}"
        )));
    }
    let present_rules = present.iter().flat_map(|present| present.rules());
    let unused = present_rules
        .map(|(_, role, rule, _)| UnusedRule {
            rule: format!("{}: {}", role.name, rule.name),
            at: rule.at.to_string(),
        })
        .filter(|rule| !used_rules.contains(&rule.rule))
        .collect();
    let issuers = present.iter().flat_map(|present| &present.identity.jwt);
    let roles_from_token = issuers
        .filter(|issuer| issuer.accepted_role_claim().is_some())
        .map(|issuer| issuer.issuer.to_string())
        .collect();
    let suggested = Suggested {
        policy: (!usage.nothing_allowed()).then(|| usage.policy()),
        on_cluster,
        roles_from_token,
        conditions: present.map_or(0, |present| present.all_conditions().count()),
        unused,
        unreadable,
        inexact,
        unnamed_methods: usage.unnameable_methods(),
    };
    match output.format {
        Format::Text => output.text(&suggested.text()),
        Format::Json => output.json(&suggested),
    }
    Ok(Exit::Success)
}

/// The contents of a log.
struct Log {
    /// The requests that the rules decided.
    usage: Usage,
    /// The requests that a search cluster's role files decided.
    cluster: ClusterUsage,
    used_rules: BTreeSet<String>,
    decisions: u64,
    /// Number of lines that are no decisions.
    unreadable: u64,
    /// Number of decisions that are cut or masked: they do not have the actual request.
    inexact: u64,
}

fn read(args: &SuggestArgs, identity: Option<&Identity>) -> Result<Log, CommandError> {
    let mut lines = DecisionLines::open(&args.log)?;
    let (mut usage, mut cluster) = (Usage::default(), ClusterUsage::default());
    let (mut used_rules, mut decisions, mut inexact) = (BTreeSet::new(), 0, 0);
    while let Some((_, decision)) = lines.next_decision()? {
        decisions += 1;
        used_rules.extend(decision.outcome.rule.clone());
        let is_by_cluster = decision.is_by_cluster();
        if !is_by_cluster && !decision.is_by_rules() {
            continue;
        }
        if decision.outcome.inexact {
            inexact += 1;
            continue;
        }
        if usage.len() + cluster.count > MAX_REQUESTS {
            return Err(CommandError::arguments(format_args!(
                "the log has more than {MAX_REQUESTS} different requests: give a part of it"
            )));
        }
        if is_by_cluster {
            cluster.add(&decision);
            continue;
        }
        let user = decision.user.as_deref();
        let id = user.zip(identity).and_then(|(user, identity)| user_id(user, &decision, identity));
        let request = (decision.method.as_str(), decision.host.as_str(), decision.received_path());
        usage.add((user, id), decision.is_allowed(), request);
    }
    Ok(Log { usage, cluster, used_rules, decisions, unreadable: lines.unreadable.count, inexact })
}

/// The name of a logged user without the prefix of its source; `None` if the source has no prefix.
fn user_id<'a>(
    user: &'a str,
    decision: &'a LoggedDecision,
    identity: &Identity,
) -> Option<UserId<'a>> {
    let source = decision.source();
    let (source_id, _, prefix) = identity.sources().find(|(_, name, _)| *name == source)?;
    // An issuer may have the name of another source, such as `basic`. In `user_id_from`, this name
    // means the other source, so the issuer cannot be named.
    let has_no_issuer =
        [SourceId::BASIC, SourceId::API_KEYS, SourceId::CERTIFICATES].contains(&source_id);
    if has_no_issuer != decision.issuer.is_none()
        || [BASIC, API_KEYS, CERTIFICATES].contains(&source) != has_no_issuer
    {
        return None;
    }
    let id = user.strip_prefix(prefix).filter(|id| !prefix.is_empty() && !id.is_empty())?;
    Some(UserId { id, source })
}

#[derive(Serialize)]
struct Suggested {
    /// The policy; `None` if the rules have allowed nothing.
    policy: Option<String>,
    /// The actions of callers on a search cluster, which rules do not decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    on_cluster: Vec<CallerOnCluster>,
    /// The issuers in the present policy whose tokens give roles. In the suggested policy, they
    /// need `roles_from_token: false`, because it grants its roles by name. There, a list with the
    /// present roles would be an error. Without a list, tokens could give the suggested roles.
    roles_from_token: Vec<String>,
    /// Number of conditions of the present policy: the suggested policy has none.
    conditions: usize,
    unused: Vec<UnusedRule>,
    unreadable: u64,
    inexact: u64,
    unnamed_methods: u64,
}

/// A rule that decided no request.
#[derive(Serialize)]
struct UnusedRule {
    rule: String,
    at: String,
}

impl Suggested {
    /// The policy as YAML, with the other fields as comments.
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(policy) = &self.policy {
            text += "# Allows the allowed requests of a decision log. Add `identity`, and look at \
                     each rule.\n";
            for issuer in &self.roles_from_token {
                text += &format!(
                    "# Under `identity`, write `roles_from_token: false`, because these roles are \
                     granted by name, for `{issuer}`.\n"
                );
            }
            if self.conditions > 0 {
                text += &format!(
                    "# Without conditions: the present policy has {}. Add each `when` that its rules, \
                     roles and grants need.\n",
                    self.conditions
                );
            }
            text += policy;
        } else {
            text += "# No request was allowed by a rule.\n";
        }
        text += &cluster_usage::comments(&self.on_cluster);
        for UnusedRule { rule, at } in &self.unused {
            text += &format!("# decided no request: `{}` ({at})\n", rule.replace('\n', " "));
        }
        for (count, reason, noun) in [
            (self.inexact, "left out, as they are cut or masked", "lines"),
            (self.unnamed_methods, "left out, as a rule cannot name their method", "requests"),
            (self.unreadable, "not decisions", "lines"),
        ] {
            if count > 0 {
                text += &format!("# {reason}: {count} of the {noun}\n");
            }
        }
        text
    }
}
