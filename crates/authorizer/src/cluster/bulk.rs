//! Bulk requests of which only some items are permitted, where the request and its response can be
//! changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use policy::model::Bulk;
use search::{Caller, DeniedItem, Need};
use serde_json::json;

use super::answer::{error_members, explained};
use super::{Cluster, Forwarded};
use crate::verdict::{BulkErrors, MAX_INDICES, PartialBulk};

/// Maximum bytes of the errors of a request, which are kept until the response arrives. A request
/// with more is denied as a whole.
const MAX_ERRORS: usize = 4 << 20;

impl Cluster {
    /// Whether this is a bulk request of which only some items may be permitted to a caller, and
    /// forwarded.
    #[must_use]
    pub fn separates_items(&self, request: &search::Request<'_>, needs: &[Need<'_>]) -> bool {
        let mut indices = 0;
        let items = search::permitted_items(request, needs, |_, _| {
            indices += 1;
            true
        });
        self.compiled.bulk == Bulk::PerItem && items.is_some() && indices > 1
    }

    /// Reduces a bulk request to its permitted items. The reduced request is read and decided like
    /// any other.
    pub(super) fn permitted_items(
        &self,
        request: &search::Request<'_>,
        caller: &Caller,
        subject: &search::Subject,
        needs: &[Need<'_>],
    ) -> Option<Forwarded> {
        if self.compiled.bulk == Bulk::Whole {
            return None;
        }
        let (mut names, mut texts) = (Vec::new(), BTreeMap::new());
        let items = search::permitted_items(request, needs, |index, needs| {
            match self.decide(caller, needs) {
                Ok(_) => {
                    names.push(index.to_owned());
                    true
                }
                Err((reason, answer)) => {
                    texts.insert(index.to_owned(), explained(reason, subject, &answer));
                    false
                }
            }
        })?;
        let body = search::RequestBody::Whole(&items.body);
        let mut needs = Vec::new();
        search::read(&search::Request { body, ..*request }, &mut needs).ok()?;
        let filters = self.decide(caller, &needs).ok()?;
        let (mut denied, mut size) = (Vec::with_capacity(items.denied.len()), 0);
        for item in &items.denied {
            let error = error(item, texts.get(&*item.index).map_or("", |text| text));
            // With its comma.
            size += error.len() + 1;
            if size > MAX_ERRORS {
                return None;
            }
            denied.push((item.position, error));
        }
        names.truncate(MAX_INDICES);
        let errors = Arc::new(BulkErrors { denied, size, forwarded: items.count });
        let bulk = Some(PartialBulk { body: Arc::new(items.body), errors });
        Some(Forwarded { target: String::new(), names, filters, bulk })
    }
}

/// The error of an item, as the plugin writes it.
fn error(item: &DeniedItem<'_>, text: &str) -> String {
    let DeniedItem { operation, index, id, position: _ } = item;
    let (index, id, error) = (json!(index), json!(id), error_members("security_exception", text));
    let item = format!("\"_index\":{index},\"_id\":{id},\"status\":403,\"error\":{{{error}}}");
    format!("{{\"{operation}\":{{{item}}}}}")
}
