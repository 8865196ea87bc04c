//! CachedSubject subjects, with what is attached to them.

use std::sync::Arc;

use serde_json::Value;

use crate::{CachedSubject, Subject};

/// A subject for the caches. Its claims are only for `attach` and are not kept: see [`Subject::claims`].
pub(super) fn cached_subject<T>(
    subject: &Subject,
    attach: impl FnOnce(&Subject) -> T,
) -> Arc<CachedSubject<T>> {
    let attached = attach(subject);
    let Subject { user, issuer, source, groups, roles, claims: _ } = subject;
    let (user, issuer, source) = (Arc::clone(user), issuer.clone(), *source);
    let (groups, roles) = (groups.clone(), roles.clone());
    Arc::new(CachedSubject {
        subject: Subject { user, issuer, source, groups, roles, claims: Value::Null },
        attached,
    })
}
