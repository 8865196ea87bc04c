//! The values that conditions read in a request, for the decision log: with them, the decision
//! can be repeated.

use std::collections::BTreeMap;

use condition::{
    Attribute, CallerInputs, Expression, Fault, Inputs, Question, RequestInputs, Value,
};
use policy::Policy;
use serde::{Deserialize, Serialize};

/// Maximum bytes of a value. A longer value is not recorded: a client chooses its headers, and must
/// not fill the log.
const MAX_VALUE: usize = 256;
/// Maximum bytes of names and values in total. This limit holds separately for the variables of a
/// request, for those of its question, and for the claims of its caller.
const MAX_TOTAL: usize = 4096;
/// Parts of names. A header, parameter, claim or property is not recorded if its name contains one
/// of these, because its value may be a secret. For example, some gateways send applications a
/// shared secret in a header, and a condition may check it.
const SECRET: [&str; 14] = [
    "assertion",
    "auth",
    "code",
    "cookie",
    "credential",
    "jwt",
    "key",
    "pass",
    "secret",
    "session",
    "sig",
    "token",
    "verif",
    "csrf",
];

/// The values of variables, by their names in conditions, such as `request.headers['x-name']`. A
/// variable that is in no list was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedInputs {
    /// The variables that have a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, serde_json::Value>,
    /// Those that are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Headers in several lines, and repeated parameters of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<String>,
    /// Those that have no value for another reason, such as a member of a claim that is a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
}

/// The variables that are recorded, with their names.
#[derive(Debug, Default)]
pub(crate) struct RecordedVariables {
    /// The variables of a request, except those that a line of the log has anyway.
    of_request: Vec<(String, Expression)>,
    /// Properties and the context of a question of AuthZEN.
    of_question: Vec<(String, Expression)>,
    /// The claims.
    of_claims: Vec<(String, Expression)>,
}

impl RecordedVariables {
    /// The variables that the conditions of a policy read.
    pub(crate) fn new(policy: &Policy) -> Self {
        let api_key = policy.identity.api_key_header();
        let conditions = policy.all_conditions();
        let variables: BTreeMap<String, Expression> = conditions
            .flat_map(|condition| condition.expression.variables())
            .filter(|variable| is_recorded(variable, api_key))
            .map(|variable| (variable.to_string(), variable))
            .collect();
        let (of_claims, others): (Vec<_>, Vec<_>) =
            variables.into_iter().partition(|(_, variable)| variable.claim_path().is_some());
        // A recorded member of anything but the claims is a member of a question.
        let (of_question, of_request) =
            others.into_iter().partition(|(_, variable)| variable.member_path().is_some());
        Self { of_request, of_question, of_claims }
    }

    /// The values that conditions read in a request and in its caller's claims; `None` if they read
    /// nothing. Then nothing is allocated.
    pub(crate) fn record(
        &self,
        request: RequestInputs<'_>,
        claims: Option<&RecordedInputs>,
    ) -> Option<Box<RecordedInputs>> {
        let is_asked = matches!(request.question, Some(Question::Asked { .. }));
        let of_question = if is_asked { &*self.of_question } else { &[] };
        if self.of_request.is_empty() && of_question.is_empty() && claims.is_none() {
            return None;
        }
        let mut recorded = claims.cloned().unwrap_or_default();
        let inputs = Inputs { request, ..Inputs::default() };
        recorded.add(&self.of_request, &inputs);
        recorded.add(of_question, &inputs);
        Some(Box::new(recorded))
    }

    /// The values that conditions read in a caller's claims; `None` if they read none of them.
    pub(crate) fn record_claims(&self, caller: &CallerInputs<'_>) -> Option<Box<RecordedInputs>> {
        if self.of_claims.is_empty() {
            return None;
        }
        let mut recorded = RecordedInputs::default();
        let inputs = Inputs { caller: Some(caller), ..Inputs::default() };
        recorded.add(&self.of_claims, &inputs);
        Some(Box::new(recorded))
    }
}

impl RecordedInputs {
    /// The value of a variable, or why it has none; `None` if it was not recorded.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Result<&serde_json::Value, Fault>> {
        if let Some(value) = self.values.get(name) {
            return Some(Ok(value));
        }
        let faults = [
            (&self.absent, Fault::Absent),
            (&self.repeated, Fault::Repeated),
            (&self.malformed, Fault::Malformed),
        ];
        let has_name = |names: &[String]| names.iter().any(|recorded| recorded == name);
        faults.into_iter().find(|(names, _)| has_name(names)).map(|(_, fault)| Err(fault))
    }

    /// The bytes that it has allocated on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let Self { values, absent, repeated, malformed } = self;
        let names = absent.iter().chain(repeated).chain(malformed);
        let values = values.iter().map(|(name, value)| name.len() + condition::claim_size(value));
        let values: usize = values.map(|size| size + size_of::<String>()).sum();
        size_of_val(self) + values + names.map(|name| size_of_val(name) + name.len()).sum::<usize>()
    }

    fn add(&mut self, variables: &[(String, Expression)], inputs: &Inputs<'_>) {
        let mut total = 0;
        for (name, variable) in variables {
            let value = match condition::evaluate(variable, inputs) {
                Ok(value) => Ok(to_json(&value)),
                Err(fault) => Err(fault),
            };
            let size = match &value {
                Ok(Some(value)) => value.to_string().len(),
                Ok(None) => continue,
                Err(_) => 0,
            };
            if size > MAX_VALUE || total + size + name.len() > MAX_TOTAL {
                continue;
            }
            total += size + name.len();
            let name = name.clone();
            match value {
                Ok(value) => drop(self.values.insert(name, value.unwrap_or_default())),
                Err(Fault::Absent) if has_parent(variable, inputs) => self.absent.push(name),
                Err(Fault::Repeated) => self.repeated.push(name),
                Err(Fault::Absent | Fault::Type | Fault::Malformed) => self.malformed.push(name),
                Err(Fault::Unknown | Fault::TooLong) => {}
            }
        }
    }
}

/// Whether to record this variable. Secrets are not recorded, nor what a line of the log has
/// anyway, such as the path.
fn is_recorded(variable: &Expression, api_key: Option<&str>) -> bool {
    if let Some((_, path)) = variable.member_path() {
        // All claims of a token, or all properties, are more than a log should have.
        return !path.is_empty() && !path.into_iter().any(is_secret);
    }
    let Expression::Attribute(attribute) = variable else { return false };
    match attribute {
        Attribute::Header(name) => {
            !is_secret(name) && !api_key.is_some_and(|header| header.eq_ignore_ascii_case(name))
        }
        Attribute::Query(name) => !is_secret(name),
        Attribute::Time | Attribute::Certificate => true,
        Attribute::Method
        | Attribute::Host
        | Attribute::Path
        | Attribute::SourceIp
        | Attribute::User
        | Attribute::Roles
        | Attribute::Groups
        | Attribute::Issuer
        | Attribute::Scheme
        | Attribute::Claims
        | Attribute::PathPlaceholder(_)
        | Attribute::HostPlaceholder(_)
        | Attribute::Question(_) => false,
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// Whether the parent of an absent member is an object: for `claims.a.b`, whether `claims.a` is
/// one. Only then is `has(claims.a.b)` false, and the member is recorded as absent. Otherwise it is
/// recorded as malformed.
fn has_parent(variable: &Expression, inputs: &Inputs<'_>) -> bool {
    let Expression::Member(object, _) = variable else { return true };
    matches!(condition::evaluate(object, inputs), Ok(Value::ClaimMap(_)))
}

/// The value as JSON; `None` for a type of value that no recorded variable has.
fn to_json(value: &Value<'_>) -> Option<serde_json::Value> {
    Some(match value {
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Double(value) => (*value).into(),
        Value::Text(text) => (&**text).into(),
        Value::Time(time) => time.to_string().into(),
        Value::ClaimList(items) => items.to_vec().into(),
        Value::ClaimMap(members) => (*members).clone().into(),
        // The names of a certificate.
        Value::Constants(names) => {
            let names = names.iter().map(|name| to_json(&name.borrowed()));
            names.collect::<Option<Vec<_>>>()?.into()
        }
        Value::Null => serde_json::Value::Null,
        Value::Duration(_) | Value::Ip(_) | Value::Names(_) | Value::List(_) => return None,
    })
}
