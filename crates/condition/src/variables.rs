//! The variables that a condition reads, so that a log can have their values.

use crate::Constant;
use crate::expression::{Attribute, Expression};

impl Expression {
    /// The variables that this reads, each as often as it occurs. Of the claims and the parts of a
    /// question, the members that it names; [`Attribute::Claims`] only if it reads all of them.
    #[must_use]
    pub fn variables(&self) -> Vec<Self> {
        let mut found = Vec::new();
        self.collect_variables(&mut found);
        found
    }

    fn collect_variables(&self, found: &mut Vec<Self>) {
        match self {
            Self::Attribute(attribute) | Self::IsPresent(attribute) => {
                found.push(Self::Attribute(attribute.clone()));
                return;
            }
            Self::Member(..) if self.member_path().is_some() => {
                found.push(self.clone());
                return;
            }
            Self::HasMember(object, name) if object.member_path().is_some() => {
                found.push(Self::Member(object.clone(), name.clone()));
                return;
            }
            Self::In(name, object) if object.is_object_with_members() => {
                if let Self::Constant(Constant::Text(name)) = &**name {
                    found.push(Self::Member(object.clone(), name.clone()));
                    return;
                }
            }
            Self::IsClaim(placeholder, _) => found.push(Self::Attribute(placeholder.clone())),
            _ => {}
        }
        for part in self.parts() {
            part.collect_variables(found);
        }
    }

    /// Whether this is an object in every request that has it, unlike a member of it.
    const fn is_object_with_members(&self) -> bool {
        matches!(self, Self::Attribute(Attribute::Claims | Attribute::Question(_)))
    }

    /// The names of a member of the claims, such as `org` and `id` for `claims.org.id`. They are
    /// empty for `claims` itself, and `None` for another expression.
    #[must_use]
    pub fn claim_path(&self) -> Option<Vec<&str>> {
        match self.member_path()? {
            (Attribute::Claims, path) => Some(path),
            _ => None,
        }
    }

    /// The variable of which this is a member (the claims, or a part of a question), and the names
    /// of the member. They are empty for the variable itself. `None` for another expression.
    #[must_use]
    pub fn member_path(&self) -> Option<(&Attribute, Vec<&str>)> {
        match self {
            Self::Attribute(root @ (Attribute::Claims | Attribute::Question(_))) => {
                Some((root, Vec::new()))
            }
            Self::Member(object, name) => {
                let (root, mut path) = object.member_path()?;
                path.push(name);
                Some((root, path))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Condition, NamedConditions};

    #[test]
    fn a_condition_reads_its_variables_and_the_claims_that_it_names() {
        for (text, wanted) in [
            ("'x-a' in request.headers", "request.headers['x-a']"),
            ("request.query['q'] == user", "request.query['q'], user"),
            ("has(claims.org.id)", "claims.org.id"),
            ("claims.org.ids.exists(x, x.name == path.id)", "claims.org.ids, path.id"),
            ("claims.list[0] == 'a'", "claims.list"),
            ("claims['a b'] == 1", "claims['a b']"),
            ("size(claims) == 1", "claims"),
            ("'a' in claims", "claims.a"),
            ("user in claims", "user, claims"),
            ("'a' in claims.list", "claims.list"),
            (
                "resource.properties.a == 1 && has(action.properties.b) && size(context) == 0",
                "resource.properties.a, action.properties.b, context",
            ),
            ("request.time.getHours() == 1 && source.ip == '10.0.0.1'", "request.time, source.ip"),
        ] {
            let condition = Condition::parse(&Arc::from(text), &NamedConditions::default());
            let variables = condition.unwrap().expression.variables();
            let names: Vec<String> = variables.iter().map(ToString::to_string).collect();
            assert_eq!(names.join(", "), wanted, "{text}");
        }
    }
}
