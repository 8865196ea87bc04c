//! A model of how Envoy's RBAC filter looks for a rule: one policy a role, one after the other; of
//! each the permissions and then the principals, one after the other, up to the first that matches
//! (`envoy.extensions.filters.http.rbac.v3`).
//!
//! It models the work that grows with the rules: a policy for each role, `permissions` an
//! `and_rules` of method and path for each rule, `principals` a name for each user. It leaves out
//! what the filter pays besides, and so flatters it: finding headers, matchers behind virtual
//! calls, and regular expressions, which `{id}` and globs would be there and are comparisons of
//! bytes here. Its match trees (`matcher`), which scale otherwise, are not modelled.

use policy::Policy;

use crate::{Decider, Form, rules, users};

pub(crate) struct Filter(Vec<OfRole>);

struct OfRole {
    role: String,
    permissions: Vec<(String, Form)>,
    principals: Vec<String>,
}

impl Decider for Filter {
    type Asked = (String, String);

    fn new(policy: &Policy) -> Self {
        let of_role = |(role, users): (&str, Vec<&str>)| OfRole {
            role: role.to_owned(),
            permissions: Vec::new(),
            principals: users.into_iter().map(str::to_owned).collect(),
        };
        let mut all: Vec<OfRole> = users(policy).map(of_role).collect();
        for (role, form) in rules(policy) {
            let of_role = all.iter_mut().find(|candidate| candidate.role == role).unwrap();
            of_role.permissions.push(("GET".to_owned(), form));
        }
        Self(all)
    }

    fn prepare(&self, user: &str, path: &str) -> Self::Asked {
        (user.to_owned(), path.to_owned())
    }

    fn allows(&mut self, (user, path): &Self::Asked) -> bool {
        self.0.iter().any(|role| {
            role.permissions.iter().any(|(method, form)| method == "GET" && form.matches(path))
                && role.principals.iter().any(|principal| principal == user)
        })
    }
}

impl Form {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::One(above) => {
                let rest = path.strip_prefix(&**above).and_then(|rest| rest.strip_prefix('/'));
                rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
            }
            Self::Glob(start) => {
                path.strip_prefix(&**start).is_some_and(|rest| !rest.contains('/'))
            }
            Self::Below(above) => path
                .strip_prefix(&**above)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}
