//! The actions that requests perform, by the names that roles grant.

/// An action, by its number among [`ACTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(u16);

impl Action {
    /// How many actions there are.
    pub(crate) const COUNT: usize = COUNT as usize;

    /// The action of this name, if a request can perform it.
    #[must_use]
    pub fn named(name: &str) -> Option<Action> {
        let number = ACTIONS.binary_search(&name).ok()?;
        u16::try_from(number).ok().map(Action)
    }

    /// All actions, in the order of their numbers and of their names.
    pub fn all() -> impl ExactSizeIterator<Item = Action> {
        (0..COUNT).map(Action)
    }

    /// The name, such as `indices:data/read/search`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ACTIONS.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// The number, below the number of [`Action::all`].
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The action of this name, for constants: a name that is missing below fails to compile.
    #[expect(clippy::panic, clippy::indexing_slicing, reason = "it runs when constants are compiled")]
    pub(crate) const fn of(name: &str) -> Action {
        let mut number = 0;
        while number < COUNT {
            if is_same(ACTIONS[number as usize].as_bytes(), name.as_bytes()) {
                return Action(number);
            }
            number += 1;
        }
        panic!("no such action")
    }
}

#[expect(clippy::indexing_slicing, reason = "it runs when constants are compiled")]
const fn is_same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// How many actions there are.
const COUNT: u16 = 152;

/// The names, sorted. They are those of OpenSearch 3.4.0 and its module rank-eval, and the one of the plugin ml-commons that a
/// query may need; an action that creates or maps an
/// index on the way (`auto_create`, `auto_put`) has the name of the plain one, as roles grant it. That for the segments of all
/// points in time is the plugin's own.
const ACTIONS: [&str; COUNT as usize] = [
    "cluster:admin/component_template/delete",
    "cluster:admin/component_template/get",
    "cluster:admin/component_template/put",
    "cluster:admin/decommission/awareness/delete",
    "cluster:admin/decommission/awareness/get",
    "cluster:admin/decommission/awareness/put",
    "cluster:admin/filecache/prune",
    "cluster:admin/indices/dangling/delete",
    "cluster:admin/indices/dangling/find",
    "cluster:admin/indices/dangling/import",
    "cluster:admin/indices/dangling/list",
    "cluster:admin/ingest/pipeline/delete",
    "cluster:admin/ingest/pipeline/get",
    "cluster:admin/ingest/pipeline/put",
    "cluster:admin/ingest/pipeline/simulate",
    "cluster:admin/nodes/reload_secure_settings",
    "cluster:admin/opensearch/ml/predict",
    "cluster:admin/reindex/rethrottle",
    "cluster:admin/remote_store/metadata",
    "cluster:admin/remotestore/restore",
    "cluster:admin/repository/_cleanup",
    "cluster:admin/repository/delete",
    "cluster:admin/repository/get",
    "cluster:admin/repository/put",
    "cluster:admin/repository/verify",
    "cluster:admin/reroute",
    "cluster:admin/routing/awareness/weights/delete",
    "cluster:admin/routing/awareness/weights/get",
    "cluster:admin/routing/awareness/weights/put",
    "cluster:admin/script/delete",
    "cluster:admin/script/get",
    "cluster:admin/script/put",
    "cluster:admin/script_context/get",
    "cluster:admin/script_language/get",
    "cluster:admin/scripts/painless/context",
    "cluster:admin/scripts/painless/execute",
    "cluster:admin/search/pipeline/delete",
    "cluster:admin/search/pipeline/get",
    "cluster:admin/search/pipeline/put",
    "cluster:admin/settings/update",
    "cluster:admin/snapshot/clone",
    "cluster:admin/snapshot/create",
    "cluster:admin/snapshot/delete",
    "cluster:admin/snapshot/get",
    "cluster:admin/snapshot/restore",
    "cluster:admin/snapshot/status",
    "cluster:admin/tasks/cancel",
    "cluster:admin/views/create",
    "cluster:admin/views/delete",
    "cluster:admin/views/update",
    "cluster:admin/voting_config/add_exclusions",
    "cluster:admin/voting_config/clear_exclusions",
    "cluster:monitor/_remotestore/stats",
    "cluster:monitor/allocation/explain",
    "cluster:monitor/health",
    "cluster:monitor/main",
    "cluster:monitor/nodes/hot_threads",
    "cluster:monitor/nodes/info",
    "cluster:monitor/nodes/stats",
    "cluster:monitor/nodes/usage",
    "cluster:monitor/point_in_time/segments/_all",
    "cluster:monitor/remote/info",
    "cluster:monitor/shards",
    "cluster:monitor/state",
    "cluster:monitor/stats",
    "cluster:monitor/task",
    "cluster:monitor/task/get",
    "cluster:monitor/tasks/lists",
    "cluster:monitor/wlm/stats",
    "indices:admin/aliases",
    "indices:admin/aliases/get",
    "indices:admin/analyze",
    "indices:admin/block/add",
    "indices:admin/block/add[s]",
    "indices:admin/cache/clear",
    "indices:admin/close",
    "indices:admin/close[s]",
    "indices:admin/create",
    "indices:admin/data_stream/create",
    "indices:admin/data_stream/delete",
    "indices:admin/data_stream/get",
    "indices:admin/delete",
    "indices:admin/exists",
    "indices:admin/flush",
    "indices:admin/flush[s]",
    "indices:admin/forcemerge",
    "indices:admin/get",
    "indices:admin/index_template/delete",
    "indices:admin/index_template/get",
    "indices:admin/index_template/put",
    "indices:admin/index_template/simulate",
    "indices:admin/index_template/simulate_index",
    "indices:admin/ingestion/pause",
    "indices:admin/ingestion/resume",
    "indices:admin/ingestion/updateState",
    "indices:admin/mapping/put",
    "indices:admin/mappings/fields/get",
    "indices:admin/mappings/get",
    "indices:admin/open",
    "indices:admin/refresh",
    "indices:admin/refresh[s]",
    "indices:admin/resize",
    "indices:admin/resolve/index",
    "indices:admin/rollover",
    "indices:admin/scale/search_only",
    "indices:admin/settings/update",
    "indices:admin/shards/search_shards",
    "indices:admin/template/delete",
    "indices:admin/template/get",
    "indices:admin/template/put",
    "indices:admin/tier/hot_to_warm",
    "indices:admin/upgrade",
    "indices:admin/validate/query",
    "indices:data/read/explain",
    "indices:data/read/field_caps",
    "indices:data/read/get",
    "indices:data/read/mget",
    "indices:data/read/mget[shard]",
    "indices:data/read/msearch",
    "indices:data/read/msearch/template",
    "indices:data/read/mtv",
    "indices:data/read/mtv[shard]",
    "indices:data/read/point_in_time/create",
    "indices:data/read/point_in_time/delete",
    "indices:data/read/point_in_time/readall",
    "indices:data/read/rank_eval",
    "indices:data/read/scroll",
    "indices:data/read/scroll/clear",
    "indices:data/read/search",
    "indices:data/read/search/stream",
    "indices:data/read/search/template",
    "indices:data/read/search/template/render",
    "indices:data/read/tv",
    "indices:data/write/bulk",
    "indices:data/write/bulk[s]",
    "indices:data/write/delete",
    "indices:data/write/delete/byquery",
    "indices:data/write/index",
    "indices:data/write/reindex",
    "indices:data/write/update",
    "indices:data/write/update/byquery",
    "indices:monitor/data_stream/stats",
    "indices:monitor/ingestion/state",
    "indices:monitor/point_in_time/segments",
    "indices:monitor/recovery",
    "indices:monitor/segment_replication",
    "indices:monitor/segments",
    "indices:monitor/settings/get",
    "indices:monitor/shard_stores",
    "indices:monitor/stats",
    "indices:monitor/upgrade",
    "system:admin/system_index",
];
