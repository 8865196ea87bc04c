//! Restores the request of a line of the decision log, as far as conditions read it. This is the
//! inverse of recording: the log has what conditions have read.

use std::collections::{BTreeMap, HashSet};

use authorizer::{Backend, Header, ParseScratch, RecordedInputs, Request};
use condition::{Attribute, Condition, Expression, Fault, Question, QuestionPart, Timestamp};
use identity::{Subject, UnixTime};
use policy::Policy;
use policy::model::Grant;
use policy::pattern::PatternSubject;
use serde_json::{Map, Value};

use crate::Explainer;
use crate::explanation::denying_roles;
use crate::rules::{ExtendingRoles, has_path, is_for};

/// The variables of a logged request that conditions read.
#[derive(Clone, Debug, Default)]
pub struct RestoredInputs {
    /// The query; empty if no condition reads it.
    pub query: String,
    /// The header lines, as name and value.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The names of the client's certificate, if a condition reads them, and there are any.
    pub certificate: Option<Vec<String>>,
    /// The claims of the caller's token, if a condition reads any of them.
    pub claims: Option<Map<String, Value>>,
    /// The members of `resource.properties` that a condition reads.
    pub resource_properties: Map<String, Value>,
    /// Those of `action.properties`.
    pub action_properties: Map<String, Value>,
    /// Those of `context`.
    pub context: Map<String, Value>,
    /// The time of the decision, if it was recorded.
    pub time: Option<UnixTime>,
    /// The names of variables that a condition reads, and that were not recorded: the decision
    /// cannot be repeated.
    pub missing: Vec<String>,
}

impl Explainer<'_> {
    /// Restores what conditions of this policy read of a logged request: those of rules that match
    /// it, of the roles by which the caller may have them, and of the grants of these roles.
    #[must_use]
    pub fn restore(
        self,
        request: &Request<'_>,
        subject: Option<&Subject>,
        recorded: &RecordedInputs,
    ) -> RestoredInputs {
        let mut restored = RestoredInputs::default();
        let Backend::Rules(_) = self.authorizer.backend(request.host) else { return restored };
        let policy = self.policy();
        if policy.all_conditions().next().is_none() {
            return restored;
        }
        let conditions = conditions_of(policy, request, subject);
        let variables =
            conditions.into_iter().flat_map(|condition| condition.expression.variables());
        let variables: BTreeMap<String, Expression> =
            variables.map(|variable| (variable.to_string(), variable)).collect();
        for (name, variable) in variables {
            if !restored.add(&name, &variable, (request, subject), recorded) {
                restored.missing.push(name);
            }
        }
        restored
    }
}

impl RestoredInputs {
    /// The header lines, as the authorizer takes them.
    #[must_use]
    pub fn header_lines(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(name, value)| Header { name: name.as_bytes(), value }).collect()
    }

    /// The parts of the question of AuthZEN.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        Question::Asked {
            resource_properties: &self.resource_properties,
            action_properties: &self.action_properties,
            context: &self.context,
        }
    }

    /// Restores a variable. Returns whether its value is known.
    fn add(
        &mut self,
        name: &str,
        variable: &Expression,
        (request, subject): (&Request<'_>, Option<&Subject>),
        recorded: &RecordedInputs,
    ) -> bool {
        match variable.member_path() {
            // The subject of an AuthZEN question may have claims without an issuer.
            Some((Attribute::Claims, _)) => {
                let may_have_claims = subject
                    .is_some_and(|subject| request.question.is_some() || subject.issuer.is_some());
                return !may_have_claims || self.add_member(variable, recorded);
            }
            // Only an AuthZEN question has properties and a context, not the request of a proxy.
            Some(_) => return request.question.is_none() || self.add_member(variable, recorded),
            None => {}
        }
        let Expression::Attribute(attribute) = variable else { return false };
        let value = recorded.get(name);
        match attribute {
            Attribute::Header(name) => match text(value) {
                Some(Ok(value)) => self.headers.push((name.to_string(), value.into())),
                Some(Err(Fault::Absent)) => {}
                Some(Err(Fault::Repeated)) => {
                    self.headers.extend([(name.to_string(), vec![]), (name.to_string(), vec![])]);
                }
                Some(Err(Fault::Malformed)) => self.headers.push((name.to_string(), vec![0xFF])),
                Some(Err(Fault::Unknown | Fault::Type | Fault::TooLong)) | None => return false,
            },
            Attribute::Query(name) => {
                let name = percent_encoded(name);
                match text(value) {
                    Some(Ok(value)) => self.add_pair(&name, &percent_encoded(value)),
                    Some(Err(Fault::Absent)) => {}
                    Some(Err(Fault::Repeated)) => {
                        self.add_pair(&name, "");
                        self.add_pair(&name, "");
                    }
                    Some(Err(Fault::Malformed)) => self.add_pair(&name, "%FF"),
                    Some(Err(Fault::Unknown | Fault::Type | Fault::TooLong)) | None => {
                        return false;
                    }
                }
            }
            Attribute::Time => {
                let time = text(value).and_then(Result::ok);
                let time = time.and_then(|time| time.parse::<Timestamp>().ok());
                self.time = time.and_then(|time| UnixTime::try_from(time.as_duration()).ok());
                return self.time.is_some();
            }
            Attribute::Certificate => match value {
                Some(Ok(Value::Array(names))) => {
                    let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
                    self.certificate = Some(names.collect());
                }
                Some(Err(Fault::Absent)) => {}
                Some(_) | None => return false,
            },
            // Other fields of the line have these.
            Attribute::Method
            | Attribute::Host
            | Attribute::Path
            | Attribute::SourceIp
            | Attribute::User
            | Attribute::Roles
            | Attribute::Groups
            | Attribute::Issuer
            | Attribute::Scheme
            | Attribute::PathPlaceholder(_)
            | Attribute::HostPlaceholder(_) => {}
            Attribute::Claims | Attribute::Question(_) => return false,
        }
        true
    }

    fn add_pair(&mut self, name: &str, value: &str) {
        let separator = if self.query.is_empty() { "" } else { "&" };
        self.query += &format!("{separator}{name}={value}");
    }

    /// Restores a claim or a property, after the objects around it. Returns whether its value is
    /// known: it is if the value was recorded, or one of these objects.
    fn add_member(&mut self, member: &Expression, recorded: &RecordedInputs) -> bool {
        let Expression::Member(object, _) = member else { return false };
        let is_object_known = self.add_member(object, recorded);
        let Some((root, path)) = member.member_path() else { return false };
        let Some(state) = recorded.get(&member.to_string()) else { return is_object_known };
        let Some((name, parents)) = path.split_last() else { return false };
        let members = if let Attribute::Question(part) = root {
            match part {
                QuestionPart::ResourceProperties => &mut self.resource_properties,
                QuestionPart::ActionProperties => &mut self.action_properties,
                QuestionPart::Context => &mut self.context,
            }
        } else {
            self.claims.get_or_insert_default()
        };
        if matches!(state, Err(Fault::Absent) | Ok(_)) {
            let mut object = Some(members);
            for parent in parents {
                let members = object.and_then(|members| {
                    members
                        .entry(*parent)
                        .or_insert_with(|| Value::Object(Map::new()))
                        .as_object_mut()
                });
                object = members;
            }
            if let (Some(members), Ok(value)) = (object, state) {
                members.insert((*name).to_owned(), value.clone());
            }
        }
        true
    }
}

/// The conditions that the decision about a request may depend on.
fn conditions_of<'p>(
    policy: &'p Policy,
    request: &Request<'_>,
    subject: Option<&Subject>,
) -> Vec<&'p Condition> {
    let mut scratch = ParseScratch::default();
    // An invalid request is denied whatever its conditions.
    let Ok(parsed) = authorizer::parse(request, &policy.identity, &mut scratch) else {
        return Vec::new();
    };
    let possible_roles = denying_roles(policy, subject);
    let pattern_subject = subject.map(|subject| {
        let source = subject.source.or_else(|| policy.identity.source_of(&subject.user));
        let prefix = source.map_or("", |source| policy.identity.user_prefix(source));
        PatternSubject { user: subject.user.as_bytes(), prefix_len: prefix.len(), source }
    });
    let mut conditions = Vec::new();
    let extending = ExtendingRoles::new(policy);
    let mut visited = HashSet::new();
    for (_, role, rule, _) in policy.rules() {
        let mut paths = parsed.paths.all().chain(parsed.paths.deny_only());
        if !possible_roles.contains(&*role.name)
            || !is_for(rule, parsed.method, parsed.host)
            || !paths.any(|path| has_path(rule, path, pattern_subject))
        {
            continue;
        }
        conditions.extend(&rule.when);
        let unvisited = policy.role(&role.name).filter(|id| !visited.contains(id));
        let unvisited = unvisited.map(|id| {
            extending.nearest(id, usize::MAX, |id| {
                possible_roles.contains(&*policy.roles.at(id).name) && !visited.contains(&id)
            })
        });
        for id in unvisited.into_iter().flatten() {
            visited.insert(id);
            conditions.extend(&policy.roles.at(id).when);
            let grants = policy.grants.iter().filter(|grant| grant.role == id);
            let grants = grants.filter(|grant| subject.is_some_and(|caller| is_to(grant, caller)));
            conditions.extend(grants.filter_map(|grant| grant.when.as_ref()));
        }
    }
    conditions
}

fn is_to(grant: &Grant, subject: &Subject) -> bool {
    grant.users.contains(&subject.user)
        || grant.groups.iter().any(|group| subject.groups.contains(group))
        || subject.actor.as_ref().is_some_and(|actor| is_to(grant, actor))
}

fn text(value: Option<Result<&Value, Fault>>) -> Option<Result<&str, Fault>> {
    match value? {
        Ok(value) => value.as_str().map(Ok),
        Err(fault) => Some(Err(fault)),
    }
}

/// The text with each byte percent-encoded (RFC 3986, 2.1).
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
