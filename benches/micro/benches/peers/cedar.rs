//! cedar-policy: users are entities whose parents are their roles; each rule is a policy, its
//! principal and its action in the scope, where Cedar looks first, and so is the path where it is
//! literal; else it is compared with `like`. The request is made before the timed evaluation, the
//! entities are there once and for all.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::str::FromStr as _;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid,
    PolicySet, Request, RestrictedExpression,
};
use policy::Policy;

use crate::{Decider, Form, rules, users};

pub(crate) struct Cedar {
    authorizer: Authorizer,
    policies: PolicySet,
    entities: Entities,
}

impl Decider for Cedar {
    type Asked = Request;

    fn new(policy: &Policy) -> Self {
        let mut text = String::new();
        for (role, form) in rules(policy) {
            let (resource, condition) = translated(&form);
            let _ = writeln!(
                text,
                "permit (principal in Role::\"{role}\", action == Action::\"GET\", {resource}) {condition};"
            );
        }
        Self {
            authorizer: Authorizer::new(),
            policies: PolicySet::from_str(&text).unwrap(),
            entities: entities(policy),
        }
    }

    fn prepare(&self, user: &str, path: &str) -> Request {
        let path_value = RestrictedExpression::new_string(path.to_owned());
        let context = Context::from_pairs([("path".to_owned(), path_value)]).unwrap();
        Request::new(uid("User", user), uid("Action", "GET"), uid("Path", path), context, None)
            .unwrap()
    }

    fn allows(&mut self, asked: &Request) -> bool {
        let answer = self.authorizer.is_authorized(asked, &self.policies, &self.entities);
        answer.decision() == Decision::Allow
    }
}

/// The resource of a policy's scope, and its condition.
fn translated(form: &Form) -> (String, String) {
    let when = |condition: String| ("resource".to_owned(), format!("when {{ {condition} }}"));
    match form {
        Form::Exact(path) => (format!("resource == Path::\"{path}\""), String::new()),
        Form::One(path) => when(format!(
            "context.path like \"{path}/*\" && context.path != \"{path}/\" && !(context.path like \"{path}/*/*\")"
        )),
        Form::Glob(path) => {
            when(format!("context.path like \"{path}*\" && !(context.path like \"{path}*/*\")"))
        }
        Form::Below(path) => {
            when(format!("context.path == \"{path}\" || context.path like \"{path}/*\""))
        }
    }
}

fn entities(policy: &Policy) -> Entities {
    let mut parents = std::collections::BTreeMap::<&str, HashSet<EntityUid>>::new();
    for (role, users) in users(policy) {
        for user in users {
            parents.entry(user).or_default().insert(uid("Role", role));
        }
    }
    let roles = policy.roles.iter().map(|role| Entity::with_uid(uid("Role", &role.name)));
    let users =
        parents.into_iter().map(|(user, roles)| Entity::new_no_attrs(uid("User", user), roles));
    Entities::from_entities(roles.chain(users), None).unwrap()
}

fn uid(of: &str, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(EntityTypeName::from_str(of).unwrap(), EntityId::new(name))
}
