//! Known subjects, with what is attached to them.

use std::sync::Arc;

use serde_json::Value;

use crate::{Known, Subject};

/// A known subject. Its claims are only for `attach` and are not kept: see [`Subject::claims`].
pub(super) fn known<T>(subject: &Subject, attach: impl FnOnce(&Subject) -> T) -> Arc<Known<T>> {
    let attached = attach(subject);
    let Subject { user, issuer, source, groups, roles, claims: _ } = subject;
    let (user, issuer, source) = (Arc::clone(user), issuer.clone(), *source);
    let (groups, roles) = (groups.clone(), roles.clone());
    Arc::new(Known {
        subject: Subject { user, issuer, source, groups, roles, claims: Value::Null },
        attached,
    })
}
