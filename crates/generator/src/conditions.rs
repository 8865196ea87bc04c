//! Random conditions, and random values for their variables.

use std::sync::Arc;

use condition::{
    CallerClaims, CallerInputs, Condition, Fault, Headers, NamedConditions, Question,
    RequestInputs, Timestamp,
};
use policy::Policy;
use policy::pattern::{HostLabel, Scope};

use crate::{Generator, OwnedCaller, Rng};

/// Each is true for some of the inputs and false for others. Most cannot be computed for some, such
/// as those about claims for a caller without claims.
const ATOMS: [&str; 24] = [
    "request.headers['x-level'] == '2'",
    "'x-level' in request.headers",
    "request.query['q'].startsWith('a')",
    "cidr('10.0.0.0/8').containsIP(source.ip)",
    "source.ip in ['10.1.2.3', '2001:db8::1']",
    "request.time.getHours('Europe/Berlin') in [8, 9, 10]",
    "request.time < timestamp('2026-06-01T00:00:00Z')",
    "user == 'a'",
    "'group-1' in groups",
    "roles.exists(r, r.endsWith('3'))",
    "issuer.startsWith('https')",
    "scheme == 'bearer'",
    "claims.tenant == 'a'",
    "has(claims.tenant)",
    "claims.level >= 2",
    "claims.list.all(x, x != 'b')",
    "path.id == claims.tenant",
    "host.tenant == claims.tenant",
    "has(path.id)",
    "request.method.matches('^(GET|HEAD)$')",
    "resource.properties.owner == user",
    "has(resource.properties.owner)",
    "action.properties.soft",
    "'level' in context && context.level > claims.level",
];

/// Owned values of the variables of conditions.
#[derive(Clone, Debug)]
pub struct OwnedInputs {
    headers: OwnedHeaders,
    query: String,
    time: Option<Timestamp>,
    client: Option<std::net::IpAddr>,
    issuer: Option<String>,
    scheme: Option<&'static str>,
    claims: Option<serde_json::Map<String, serde_json::Value>>,
    /// `resource.properties`, `action.properties` and `context`.
    question: Option<[serde_json::Map<String, serde_json::Value>; 3]>,
}

/// Header lines.
#[derive(Clone, Debug)]
pub struct OwnedHeaders(Vec<(String, String)>);

impl Headers for OwnedHeaders {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        let mut lines = self.0.iter().filter(|(line, _)| line == name);
        match (lines.next(), lines.next()) {
            (Some((_, value)), None) => Ok(value.as_bytes()),
            (Some(_), Some(_)) => Err(Fault::Repeated),
            (None, _) => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

impl OwnedInputs {
    /// The header lines, as name and value.
    #[must_use]
    pub fn header_lines(&self) -> &[(String, String)] {
        &self.headers.0
    }

    /// The question of AuthZEN that the request stands for.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        match &self.question {
            None => Question::None,
            Some([resource_properties, action_properties, context]) => {
                Question::Asked { resource_properties, action_properties, context }
            }
        }
    }

    /// The variables of the request, which stands for this question.
    #[must_use]
    pub fn request<'a>(&'a self, question: &'a Question<'a>) -> RequestInputs<'a> {
        RequestInputs {
            question: Some(question),
            query: Some(self.query.as_bytes()),
            headers: Some(&self.headers),
            time: self.time,
            client: self.client,
            ..RequestInputs::default()
        }
    }

    /// The variables of this caller, but its roles.
    #[must_use]
    pub fn caller<'a>(&'a self, caller: &'a OwnedCaller) -> CallerInputs<'a> {
        if caller.user.is_none() {
            return CallerInputs::default();
        }
        CallerInputs {
            user: caller.user.as_deref(),
            roles: Vec::new(),
            groups: caller.groups.iter().map(String::as_str).collect(),
            issuer: self.issuer.as_deref(),
            scheme: self.scheme,
            claims: self.claims.as_ref().map_or(CallerClaims::None, CallerClaims::Known),
        }
    }
}

impl Generator {
    /// Gives conditions to some rules, roles and grants of a policy, and placeholders to some of its
    /// hosts.
    pub fn add_conditions(&mut self, policy: &mut Policy, percent: usize) {
        for role in policy.roles.iter_mut() {
            role.when = self.rng().percent(percent / 3).then(|| condition(self.rng()));
            for rule in role.allow.iter_mut().chain(&mut role.deny) {
                rule.when = self.rng().percent(percent).then(|| condition(self.rng()));
                for scope in &mut rule.scopes {
                    if let Scope::Below(suffix) = scope
                        && self.rng().percent(50)
                    {
                        let literals =
                            suffix.split('.').map(|label| HostLabel::Literal(label.into()));
                        let name = if self.rng().percent(50) { "tenant" } else { "shop" };
                        let first = HostLabel::Any(name.into());
                        *scope = Scope::Labels([first].into_iter().chain(literals).collect());
                    }
                }
            }
        }
        for grant in &mut policy.grants {
            grant.when = self.rng().percent(percent / 2).then(|| condition(self.rng()));
        }
    }

    /// Values of the variables.
    pub fn inputs(&mut self) -> OwnedInputs {
        let rng = self.rng();
        let mut headers = Vec::new();
        while rng.percent(60) {
            let level = if rng.percent(50) { "2" } else { "3" };
            headers.push(("x-level".to_owned(), level.to_owned()));
        }
        let times = ["2026-01-31T08:30:00Z", "2026-07-31T06:30:00Z", "2026-01-31T20:00:00Z"];
        let addresses = ["10.1.2.3", "192.0.2.7", "2001:db8::1"];
        let question = [
            [r#"{"owner": "a"}"#, r#"{"soft": true}"#, r#"{"level": 2}"#],
            [r#"{"owner": 1}"#, r#"{"soft": false}"#, r#"{"level": "2"}"#],
            ["{}"; 3],
        ];
        let claims = [
            r#"{"tenant": "a", "level": 2, "list": ["a"]}"#,
            r#"{"tenant": "b", "level": "2", "list": ["b", 1]}"#,
            r#"{"tenant": 1, "level": 1.5, "list": []}"#,
            "{}",
        ];
        OwnedInputs {
            headers: OwnedHeaders(headers),
            query: rng
                .pick(&["", "q=a", "q=b&x=1", "q=a&q=a", "%71=ab"])
                .copied()
                .unwrap_or("")
                .to_owned(),
            time: rng.pick(&times).and_then(|time| time.parse().ok()),
            client: rng.pick(&addresses).filter(|_| rng.percent(80)).and_then(|ip| ip.parse().ok()),
            issuer: rng.percent(50).then(|| "https://id.test".to_owned()),
            scheme: rng.pick(&["basic", "bearer"]).copied(),
            claims: rng
                .pick(&claims)
                .filter(|_| rng.percent(70))
                .and_then(|claims| serde_json::from_str(claims).ok()),
            question: rng
                .pick(&question)
                .filter(|_| rng.percent(70))
                .map(|parts| parts.map(|part| serde_json::from_str(part).unwrap_or_default())),
        }
    }
}

/// A condition of up to three atoms.
fn condition(rng: &mut Rng) -> Condition {
    let atoms: Vec<String> = (0..=rng.below(3))
        .filter_map(|_| {
            let atom = rng.pick(&ATOMS).copied()?;
            Some(if rng.percent(25) { format!("!({atom})") } else { atom.to_owned() })
        })
        .collect();
    let operator = if rng.percent(50) { " && " } else { " || " };
    let text: Arc<str> = atoms.join(operator).into();
    #[expect(clippy::expect_used, reason = "a generator of wrong conditions must be noticed")]
    Condition::parse(&text, &NamedConditions::default()).expect("an atom is a condition")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Shape;

    #[test]
    fn that_a_variable_is_missing_says_nothing_about_the_others() {
        let mut generator = Generator::new(Shape::default(), 0);
        let combinations = (0..10_000).map(|_| {
            let OwnedInputs { client, issuer, claims, question, .. } = generator.inputs();
            [client.is_some(), issuer.is_some(), claims.is_some(), question.is_some()]
        });
        assert_eq!(combinations.collect::<BTreeSet<_>>().len(), 16);
    }
}
