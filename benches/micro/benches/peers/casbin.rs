//! casbin: its RBAC model with `keyMatch2` for paths. The matcher compares the role first, then the
//! method, so that the patterns of other roles are never tried. Its cache of answers is off: it
//! would be asked for the same 64 again and again.

use ::casbin::prelude::{CoreApi as _, DefaultModel, Enforcer, MgmtApi as _};
use policy::Policy;

use crate::{Decider, Form, rules, users};

const MODEL: &str = "
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.act == p.act && keyMatch2(r.obj, p.obj)
";

pub(crate) struct Casbin(Enforcer);

impl Decider for Casbin {
    type Asked = (String, String);

    fn new(policy: &Policy) -> Self {
        let policies =
            rules(policy).map(|(role, form)| vec![role.into(), pattern(form), "GET".into()]);
        let policies: Vec<Vec<String>> = policies.collect();
        let grants = users(policy).flat_map(|(role, users)| {
            users.into_iter().map(move |user| vec![user.to_owned(), role.to_owned()])
        });
        let grants: Vec<Vec<String>> = grants.collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let model = DefaultModel::from_str(MODEL).await.unwrap();
            let mut enforcer = Enforcer::new(model, ()).await.unwrap();
            assert!(enforcer.add_policies(policies).await.unwrap());
            assert!(enforcer.add_grouping_policies(grants).await.unwrap());
            Self(enforcer)
        })
    }

    fn prepare(&self, user: &str, path: &str) -> Self::Asked {
        (user.to_owned(), path.to_owned())
    }

    fn allows(&mut self, (user, path): &Self::Asked) -> bool {
        self.0.enforce((user.as_str(), path.as_str(), "GET")).unwrap()
    }
}

/// `keyMatch2` makes a regular expression of it, in which `:id` is a segment.
fn pattern(form: Form) -> String {
    match form {
        Form::Exact(path) => path,
        Form::One(path) => format!("{path}/:id"),
        Form::Glob(path) => format!("{path}[^/]*"),
        Form::Below(path) => format!("{path}(/.*)?"),
    }
}
