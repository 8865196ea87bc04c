//! The decisions of this crate, and the cases in which it is stricter than a node.

use std::sync::Arc;

use search::{Kind, Need, Part, Privileges, Request, RequestBody, Subject, Target, Verdict, read};

use crate::requests::Sent;
use crate::world::World;

/// The decision about a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Only on these indices, if there are some.
    Permitted(Option<Vec<String>>),
    Denied {
        operation: String,
        why: String,
    },
}

const NEW_FIELDS: &str =
    "a node asks for it only if a document has a new field, which the request does not show";
const EARLIER: &str = "a node asks only after it has found the index: not for one that is missing or closed, nor an alias of several";
const CLOSED: &str = "a node does not ask about closed indices that only a pattern stands for";
const REDUCED: &str = "a node with `do_not_fail_on_forbidden` also reduces bodies, aliases where one document is asked for, and \
     expressions with a name that is missing";
const NOT_EXPANDED: &str = "a pattern beside a name that is missing is compared as it is, and a node may then find nothing";
const NOTHING_FOUND: &str =
    "a node asks only if it finds something to write, which the request does not show";

const MISLEADING: &str = "a node reads it in another way than it looks";
const EXCLUDED: &str = "whether an exclusion stands for a hidden alias is not known, and what leaves nothing is forwarded as nothing or denied";
const TENANT: &str =
    "a node asks for the tenant only if the request is about the index of Dashboards alone";
const LOOKED_UP: &str =
    "a name that a node may take for that of a look-up needs whatever a look-up may do there";
const UNSEEN: &str = "what a node makes of several sources is not seen";

/// Operations, why a request is denied that a node permits, and the reason for that. Every
/// difference is in this table. `*` stands for any operation, and once in the second column for any
/// text. A line without `(reduces)` holds for both kinds of clusters, and a line without
/// `(excludes)` also for expressions with exclusions.
pub(crate) const STRICTER: &[(&str, &str, &str)] = &[
    ("*", "* NotGranted (pattern)", NOT_EXPANDED),
    ("*", "* SecurityIndex (pattern)", NOT_EXPANDED),
    ("*", "* NotGranted (excludes)", EXCLUDED),
    ("*", "* TenantNotGranted", TENANT),
    ("unread", "invalid: a parameter of its query begins with `=`", MISLEADING),
    ("unread", "invalid: its body has an unknown key", MISLEADING),
    ("unread", "invalid: it names an index by a name that begins with `_`", MISLEADING),
    (
        "unread",
        "invalid: it names several indices, where the cluster reads the list as a single name",
        MISLEADING,
    ),
    (
        "unread",
        "invalid: it has a pattern with `*` where the cluster reads the name of an index",
        MISLEADING,
    ),
    ("unread", "invalid: its body has an object or array in place of a value", MISLEADING),
    ("delete_by_query", "indices:admin/refresh NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:admin/refresh NotGranted", NOTHING_FOUND),
    ("reindex", "indices:admin/refresh NotGranted", NOTHING_FOUND),
    ("reindex", "indices:data/read/get NotGranted", EARLIER),
    ("search_template", "* NotGranted", UNSEEN),
    ("partly permitted", "NotGranted (reduces)", REDUCED),
    ("cat.aliases", "* NotGranted (reduces)", REDUCED),
    ("cat.indices", "* NotGranted (reduces)", REDUCED),
    ("exists", "* NotGranted (reduces)", REDUCED),
    ("explain", "* NotGranted (reduces)", REDUCED),
    ("field_caps", "* NotGranted (reduces)", REDUCED),
    ("get", "* NotGranted (reduces)", REDUCED),
    ("get_all_pits", "* NotGranted (reduces)", REDUCED),
    ("get_source", "* NotGranted (reduces)", REDUCED),
    ("indices.get_alias", "* NotGranted (reduces)", REDUCED),
    ("indices.get_field_mapping", "* NotGranted (reduces)", REDUCED),
    ("indices.get_settings", "* NotGranted (reduces)", REDUCED),
    ("indices.stats", "* NotGranted (reduces)", REDUCED),
    ("msearch", "* NotGranted (reduces)", REDUCED),
    ("search", "* NotGranted (reduces)", REDUCED),
    ("search_shards", "* NotGranted (reduces)", REDUCED),
    ("termvectors", "* NotGranted (reduces)", REDUCED),
    ("update_by_query", "* NotGranted (reduces)", REDUCED),
    ("delete_by_query", "* NotGranted (reduces)", REDUCED),
    ("count", "* NotGranted (reduces)", REDUCED),
    ("count", "indices:data/read/get NotGranted", LOOKED_UP),
    ("bulk", "indices:admin/create NotGranted", EARLIER),
    ("bulk", "indices:data/write/delete NotGranted", EARLIER),
    ("bulk", "indices:data/write/index NotGranted", EARLIER),
    ("bulk", "indices:data/write/update NotGranted", EARLIER),
    ("index", "indices:admin/mapping/put NotGranted", NEW_FIELDS),
    ("create", "indices:admin/mapping/put NotGranted", NEW_FIELDS),
    ("update", "indices:admin/mapping/put NotGranted", NEW_FIELDS),
    ("bulk", "indices:admin/mapping/put NotGranted", NEW_FIELDS),
    ("bulk", "indices:data/write/bulk[s] NotGranted", EARLIER),
    ("delete", "indices:data/write/bulk NotGranted", EARLIER),
    ("delete", "indices:data/write/bulk[s] NotGranted", EARLIER),
    ("mget", "indices:data/read/mget[shard] NotGranted", EARLIER),
    ("mtermvectors", "indices:data/read/mtv[shard] NotGranted", EARLIER),
    ("cat.indices", "cluster:monitor/* NotGranted", EARLIER),
    ("cat.indices", "indices:monitor/settings/get NotGranted", CLOSED),
    ("indices.get_alias", "indices:admin/aliases/get NotGranted", CLOSED),
    ("indices.get_field_mapping", "indices:admin/mappings/fields/get NotGranted", CLOSED),
    ("indices.get_settings", "indices:monitor/settings/get NotGranted", CLOSED),
    ("indices.open", "indices:admin/open NotGranted", CLOSED),
    ("indices.recovery", "indices:monitor/recovery NotGranted", CLOSED),
    ("indices.validate_query", "indices:admin/validate/query NotGranted", CLOSED),
    ("search_shards", "indices:admin/shards/search_shards NotGranted", CLOSED),
    ("reindex", "indices:data/read/search NotGranted", EARLIER),
    ("update", "indices:data/write/bulk NotGranted", NOTHING_FOUND),
    ("update", "indices:data/write/bulk[s] NotGranted", NOTHING_FOUND),
    ("update", "indices:data/write/index NotGranted", NOTHING_FOUND),
    ("reindex", "indices:admin/create NotGranted", NOTHING_FOUND),
    ("reindex", "indices:data/write/bulk NotGranted", NOTHING_FOUND),
    ("reindex", "indices:data/write/bulk[s] NotGranted", NOTHING_FOUND),
    ("reindex", "indices:data/read/scroll NotGranted", NOTHING_FOUND),
    ("reindex", "indices:admin/mapping/put NotGranted", NOTHING_FOUND),
    ("reindex", "indices:data/write/index NotGranted", NOTHING_FOUND),
    ("delete_by_query", "indices:data/write/bulk NotGranted", NOTHING_FOUND),
    ("delete_by_query", "indices:data/write/bulk[s] NotGranted", NOTHING_FOUND),
    ("delete_by_query", "indices:data/read/scroll NotGranted", NOTHING_FOUND),
    ("delete_by_query", "indices:data/write/delete NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:data/write/bulk NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:data/write/bulk[s] NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:data/read/scroll NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:admin/mapping/put NotGranted", NOTHING_FOUND),
    ("update_by_query", "indices:data/write/index NotGranted", NOTHING_FOUND),
];

/// Whether a row of [`STRICTER`] explains why a request for this operation is denied.
pub(crate) fn explains((row, reason, _): &(&str, &str, &str), operation: &str, why: &str) -> bool {
    let is_reason = |why: &str| match reason.split_once('*') {
        None => why == *reason,
        Some((before, after)) => why.strip_prefix(before).is_some_and(|rest| rest.ends_with(after)),
    };
    let in_both = why.strip_suffix(" (reduces)").unwrap_or(why);
    let of_any = in_both.strip_suffix(" (excludes)").unwrap_or(in_both);
    (*row == "*" || *row == operation) && [why, in_both, of_any].into_iter().any(is_reason)
}

/// The decision about a request.
pub(crate) fn decide(world: &World, sent: &Sent) -> Decision {
    decide_with_scrolls(world, sent, false)
}

/// The decision about a request, also for a cluster that checks the owner of a scroll.
pub(crate) fn decide_with_scrolls(
    world: &World,
    sent: &Sent,
    scrolls_are_checked: bool,
) -> Decision {
    let request = Request {
        method: &sent.method,
        target: &sent.target,
        content_type: Some("application/json"),
        content_encoding: None,
        scrolls_are_checked,
        body: RequestBody::Whole(sent.body.as_bytes()),
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
    };
    let mut needs = Vec::new();
    let operation = match read(&request, &mut needs) {
        Ok(operation) => operation,
        Err(problem) => {
            return Decision::Denied { operation: "unread".to_owned(), why: problem.to_string() };
        }
    };
    let subject = Subject {
        name: sent.user.clone(),
        backend_roles: sent.roles.split(',').map(ToOwned::to_owned).collect(),
        ..Subject::default()
    };
    let (config, settings) = (world.config.clone(), world.settings.clone());
    let inventory = Some(Arc::new(world.inventory.clone()));
    let privileges = Privileges::new(config, settings, inventory);
    let answer = privileges.decide(&privileges.caller(&subject), &needs);
    match answer.verdict {
        Verdict::Permitted => return Decision::Permitted(None),
        Verdict::PermittedInPart(parts) => {
            let names = parts.into_iter().flat_map(|part| part.names);
            return Decision::Permitted(Some(
                names.flat_map(|name| indices(world, name)).collect(),
            ));
        }
        Verdict::Denied => {}
    }
    let missing = answer.missing.iter().next();
    let why = missing.map_or("?".to_owned(), |cell| {
        let pattern = if cell.name.contains('*') { " (pattern)" } else { "" };
        let excludes = if needs.iter().any(excludes) { " (excludes)" } else { "" };
        let reduces = if world.reduces { " (reduces)" } else { "" };
        format!("{} {:?}{pattern}{excludes}{reduces}", cell.action.name(), cell.reason)
    });
    Decision::Denied { operation: operation.to_owned(), why }
}

/// The indices in which a request with this name finds documents.
fn indices(world: &World, name: String) -> Vec<String> {
    let inventory = &world.inventory;
    let group = inventory.id(&name).filter(|id| !inventory.kind(*id).is_some_and(Kind::is_index));
    match group {
        Some(group) => {
            inventory.related(group).iter().map(|index| inventory.name(*index).to_owned()).collect()
        }
        None => vec![name],
    }
}

/// Whether an expression of a need has exclusions.
fn excludes(need: &Need<'_>) -> bool {
    let (Target::Indices(expression) | Target::Fixed(expression)) = &need.target else {
        return false;
    };
    expression.parts().any(|part| matches!(part, Part::Except(_)))
}
