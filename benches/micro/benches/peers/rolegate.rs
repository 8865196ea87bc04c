//! Ours: the roles of the caller are known, as they are once it is.

use engine::{AccessRequest, Decision, Engine, RoleSet};
use policy::Policy;

use crate::Decider;

pub(crate) struct Rolegate(Engine);

impl Decider for Rolegate {
    type Asked = (RoleSet, String, String);

    fn new(policy: &Policy) -> Self {
        Self(Engine::compile(policy))
    }

    fn prepare(&self, user: &str, path: &str) -> Self::Asked {
        (self.0.roles_of(user, [], []), user.to_owned(), path.to_owned())
    }

    fn allows(&mut self, (roles, user, path): &Self::Asked) -> bool {
        let request =
            AccessRequest { action: b"GET", scope: b"api.example.com", resource: path.as_bytes() };
        matches!(
            self.0.decide(roles, Some(engine::PatternSubject::named(user.as_bytes())), request),
            Decision::Allowed(_)
        )
    }
}
