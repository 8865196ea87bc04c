//! Queries that look documents up in other indices.
//!
//! A node finds look-ups at any depth while it rewrites a query, and reads the documents as the
//! same user. So this reader visits every object, and treats each object that has the form of a
//! look-up as a look-up.
//!
//! Several parsers of a node stop at the first `}` of an unexpected object (seen in 3.4.0). In
//! `{"function_score": {"random_score": {"x": {}}, "a": 1}}`, the `}` of `x` ends `random_score`,
//! and a node reads `a` as a member of the outermost object. Only the order of the tokens is
//! certain. The name of an index is always the value of `index` or `_index`, and a look-up begins
//! with one of a few keys. So if a body has such a key, each value of `index` and `_index` is taken
//! for the index of a look-up, wherever it stands.
//!
//! The same walk finds searches that show *hidden terms*: terms of documents that the search does
//! not find. The document query of a role does not hide these terms, so the security plugin denies
//! such searches on the role's indices (`DlsFlsValveImpl`). The plugin looks for aggregations of
//! terms at the top only, but inner aggregations show the same terms.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value, set_once};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::{MAX_NAMES, Reading};

pub(crate) const CREATE: &[Action] = &[Action::new("indices:admin/create")];
pub(crate) const INDEX_DOCUMENTS: &[Action] = &[
    Action::new("indices:data/write/bulk[s]"),
    Action::new("indices:data/write/index"),
    Action::new("indices:admin/mapping/put"),
];
pub(crate) const GET: &[Action] = &[Action::new("indices:data/read/get")];
const SEARCH: &[Action] =
    &[Action::new("indices:data/read/search"), Action::new("indices:monitor/settings/get")];
const TERM_VECTORS: &[Action] = &[Action::new("indices:data/read/mtv[shard]")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::new("indices:data/read/mtv")];
const PREDICT: &[Action] = &[Action::new("cluster:admin/opensearch/ml/predict")];
/// The index in which the plugin `user-behavior-insights` records queries, as the caller.
const RECORDED_QUERIES: &str = "ubi_queries";
/// The actions on indices that any kind of look-up may perform. A request needs them if rolegate
/// cannot tell which kind of look-up it has.
const ANY_LOOKUP: &[Action] = &[
    Action::new("indices:data/read/get"),
    Action::new("indices:data/read/mtv[shard]"),
    Action::new("indices:data/read/search"),
    Action::new("indices:monitor/settings/get"),
];
const NO_TEXT: Problem = Problem::Invalid("the index of a look-up is not text");

/// The processors of a search pipeline that cannot hide a look-up. Only `filter_query` has a query,
/// and this query is JSON, so it is read like any other query. A `script` may show hidden terms:
/// see [`Lookups::read_pipeline`].
const SAFE_PROCESSORS: [&str; 11] = [
    "filter_query",
    "oversample",
    "script",
    "collapse",
    "rename_field",
    "sort",
    "split",
    "truncate_hits",
    "normalization-processor",
    "score-ranker-processor",
    "hybrid_score_explanation",
];

/// The options for patterns in look-ups.
const WITH_HIDDEN_INDICES: Options = Options { hidden: true, ..Options::OPEN };

/// Keys of look-ups. A template with such a key may look up anything (`body::template`).
const LOOKUP_KEYS: [&str; 11] = [
    "index",
    "_index",
    "indexed_shape",
    "percolate",
    "more_like_this",
    "wrapper",
    "template",
    "collate",
    "pit",
    "search_pipeline",
    "validating_ltr_query",
];

/// Adds the needs of look-ups in the next value of `json`: a filter, or a value that has filters.
pub(crate) fn read_filter<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
) -> Result<(), Problem> {
    // The filter may be used on any index. So the searched indices are all indices, the default.
    let mut lookups = Lookups::default();
    lookups.read_value(reading, json, KeyPath::default())?;
    lookups.finish(reading).map(drop)
}

/// Adds the needs of a query that rolegate does not see: it may look up any document.
pub(crate) fn need_any_lookup(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.need_all(ANY_LOOKUP)?;
    reading.need(MULTI_TERM_VECTORS, Target::Cluster)
}

/// Whether a `profile` beside the query has an effect: any value but false.
pub(crate) fn shows_profile(value: &[u8]) -> bool {
    !matches!(value, b"false" | b"\"false\"")
}

/// Whether the source of a template shows hidden terms.
///
/// # Errors
/// If it may contain a look-up, or a variable in a key.
pub(crate) fn template_shows_hidden_terms(json: &mut Json<'_>) -> Result<bool, Problem> {
    value_shows_hidden_terms(json, KeyPath::default())
}

fn value_shows_hidden_terms(json: &mut Json<'_>, path: KeyPath<'_>) -> Result<bool, Problem> {
    let mut shows = false;
    match json.peek()? {
        Value::Array => json.array(|json| {
            shows |= value_shows_hidden_terms(json, path)?;
            Ok(())
        })?,
        Value::Object => json.object(|json, key| {
            if LOOKUP_KEYS.contains(&&*key) || key.contains("{{") {
                return Err(Problem::Unsupported("a look-up or a variable in a key of a template"));
            }
            let path = path.member(&key);
            shows |= path.shows_hidden_terms(json)?;
            shows |= value_shows_hidden_terms(json, path)?;
            Ok(())
        })?,
        Value::String | Value::Null | Value::Other => json.ignore()?,
    }
    Ok(shows)
}

/// The keys around a value in a query.
#[derive(Clone, Copy, Default)]
struct KeyPath<'k> {
    key: &'k str,
    /// The key of the object that has the value as a member.
    parent: &'k str,
    /// The key of the object around `parent`.
    grandparent: &'k str,
    /// Whether the value is a direct member of a histogram. A histogram's empty buckets show no
    /// terms.
    is_histogram_member: bool,
    is_in_template: bool,
    /// Whether the value is inside the object of a `terms`.
    is_in_terms: bool,
    is_in_pipeline: bool,
}

impl<'k> KeyPath<'k> {
    /// The path of a member of the object at this path.
    fn member(self, key: &'k str) -> Self {
        let is_aggregation = matches!(self.grandparent, "aggs" | "aggregations");
        KeyPath {
            key,
            parent: self.key,
            grandparent: self.parent,
            is_histogram_member: is_aggregation
                && matches!(self.key, "date_histogram" | "histogram"),
            is_in_template: self.is_in_template || self.key == "template",
            is_in_terms: self.is_in_terms || self.key == "terms",
            is_in_pipeline: self.is_in_pipeline || self.key == "search_pipeline",
        }
    }

    /// Whether the next value of `json` makes a search show hidden terms. A `profile` does so. A
    /// `min_doc_count` of 0 does so, too: an aggregation then has terms that no found document has.
    /// Any value that is not a whole number above 0 is taken for 0, since a node may read it as 0.
    ///
    /// Both keys are found at any depth, since a node may read them as members of an outer object.
    /// Below the top, `profile` may be the name of a field, so there it must be `true`.
    fn shows_hidden_terms(self, json: &mut Json<'_>) -> Result<bool, Problem> {
        let is_scalar = json.peek()?.is_scalar();
        Ok(match self.key {
            "profile" if self.parent.is_empty() => shows_profile(json.clone().raw_value()?),
            "profile" if json.peek()? == Value::String => json.clone().string()? == "true",
            "profile" if is_scalar => json.clone().raw_value()? == b"true",
            "min_doc_count" if !self.is_histogram_member => {
                !is_scalar || !is_positive(json.clone().raw_value()?)
            }
            _ => false,
        })
    }
}

/// Whether a value is a whole number above 0, maybe in quotes. A node reads `0.5` as 0.
fn is_positive(value: &[u8]) -> bool {
    let text = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(value);
    matches!(text, [b'1'..=b'9', ..]) && text.iter().all(u8::is_ascii_digit)
}

/// Whether a search pipeline has only [`SAFE_PROCESSORS`]. Another processor may replace the
/// search.
fn has_only_safe_processors(pipeline: &[u8]) -> bool {
    let unknown = Err(Problem::Unsupported("an unknown part of a search pipeline"));
    Json::whole(pipeline, |json| {
        json.object(|json, key| match &*key {
            "request_processors" | "response_processors" | "phase_results_processors" => json
                .array(|json| {
                    json.object(|json, name| match SAFE_PROCESSORS.contains(&&*name) {
                        true => json.ignore(),
                        false => unknown,
                    })
                }),
            "description" | "version" => json.ignore(),
            _ => unknown,
        })
    })
    .is_ok()
}

fn contains_any(text: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().any(|part| memchr::memmem::find(text, part).is_some())
}

/// Reads the look-ups of a body.
#[derive(Default)]
pub(crate) struct Lookups<'a> {
    /// The indices that the query of the body searches; all indices by default.
    searched: Expression<'a>,
    /// Values that may be names of indices, if there is a look-up anywhere.
    names: Vec<Cow<'a, str>>,
    /// Whether there is an `indexed_shape`, a `percolate` or a `more_like_this`.
    has_lookup: bool,
    /// Whether a `terms` has an object in it, as in a look-up.
    has_terms: bool,
    /// Whether there is a `path`, which a look-up of terms must have.
    has_path: bool,
    /// Whether there is a query of the plugin `neural-search`.
    has_neural: bool,
    /// Whether there is input for a model, as such a query may have.
    has_model_input: bool,
    /// Whether the plugin `user-behavior-insights` is to record the search.
    is_recorded: bool,
    shows_hidden_terms: bool,
}

impl<'a> Lookups<'a> {
    pub(crate) fn new(searched: Expression<'a>) -> Self {
        Self { searched, ..Self::default() }
    }

    /// Adds the needs of a member of a search.
    pub(crate) fn read_member(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        key: &str,
    ) -> Result<(), Problem> {
        self.read_member_at(reading, json, KeyPath::default().member(key))
    }

    /// Adds the needs that are known only after the whole body was read. The search may look up any
    /// index that the body names, ask a model, or be recorded. Returns whether it shows hidden
    /// terms.
    pub(crate) fn finish(self, reading: &mut Reading<'_, 'a>) -> Result<bool, Problem> {
        if self.has_lookup || self.has_terms && self.has_path {
            for name in self.names {
                let indices = reading.checked_pattern(name, WITH_HIDDEN_INDICES)?;
                reading.need(ANY_LOOKUP, Target::Fixed(indices))?;
            }
        }
        if self.has_neural && self.has_model_input {
            reading.need(PREDICT, Target::Cluster)?;
        }
        if self.is_recorded {
            reading.need(CREATE, Target::CreatedIfMissing(RECORDED_QUERIES.into()))?;
            reading.need(INDEX_DOCUMENTS, Target::Name(RECORDED_QUERIES.into()))?;
        }
        Ok(self.shows_hidden_terms)
    }

    /// Adds the needs of a value.
    ///
    /// A client chooses the names of fields, aggregations and filters. It may choose a name such as
    /// `percolate`, which is also the name of a kind of query. So the value of such a key may be no
    /// query. Such a value is read in both ways: as a query, and as any other value.
    fn read_value(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        path: KeyPath<'_>,
    ) -> Result<(), Problem> {
        let is_index = matches!(path.key, "index" | "_index");
        let name = match json.peek()? {
            Value::Array => return json.array(|json| self.read_value(reading, json, path)),
            Value::Object => return self.read_object(reading, json, path),
            Value::String if is_index => json.string()?,
            Value::Other if is_index => String::from_utf8_lossy(json.raw_value()?),
            Value::String | Value::Null | Value::Other => return json.ignore(),
        };
        // One name above the limit is kept: it makes `finish` deny a body with a look-up.
        if self.names.len() <= MAX_NAMES {
            self.names.push(name);
        }
        Ok(())
    }

    /// Adds the needs of the value of a member.
    fn read_member_at(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        path: KeyPath<'_>,
    ) -> Result<(), Problem> {
        self.shows_hidden_terms |= path.shows_hidden_terms(json)?;
        match (path.key, json.peek()?) {
            ("search_pipeline", value) => return self.read_pipeline(reading, json, path, value),
            ("indexed_shape", Value::Object) | ("percolate" | "more_like_this", _) => {
                self.has_lookup = true
            }
            // A node reads the members after this value as members of the shape. So rolegate cannot
            // know what they mean.
            ("indexed_shape", _) => {
                return Err(Problem::Invalid("an `indexed_shape` is no object"));
            }
            ("path", Value::String) => self.has_path = true,
            ("neural" | "neural_sparse", Value::Object) => self.has_neural = true,
            ("query_text" | "query_image" | "model_id", _) => self.has_model_input = true,
            ("ubi", Value::Object) => self.is_recorded = true,
            _ => {}
        }
        self.read_value(reading, json, path)
    }

    /// Adds the needs of a search pipeline. The next value of `json` is its definition or its name.
    fn read_pipeline(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        path: KeyPath<'_>,
        value: Value,
    ) -> Result<(), Problem> {
        let is_unseen = match value {
            Value::Null => false,
            Value::String => json.clone().string()? != "_none",
            // A node reads the value as a name.
            Value::Other => true,
            // The processors of an inner pipeline (one within a pipeline) are not checked. So an
            // inner pipeline may look up anything. The arm below searched its text already, as a
            // part of the outer pipeline.
            Value::Object | Value::Array if path.is_in_pipeline => true,
            Value::Object | Value::Array => {
                let pipeline = json.clone().raw_value()?;
                // A script may ask for a `profile`. So the raw text is searched for these words,
                // not only its keys. An escape (`\u`) may stand for a part of a word.
                let texts: [&[u8]; 4] = [b"script", b"profile", b"min_doc_count", b"\\u"];
                self.shows_hidden_terms |= contains_any(pipeline, &texts);
                !has_only_safe_processors(pipeline)
            }
        };
        if is_unseen {
            // An inner pipeline runs only if a processor of the outer pipeline is not safe. Then
            // the outer pipeline has already set `shows_hidden_terms`.
            self.shows_hidden_terms |= !path.is_in_pipeline;
            need_any_lookup(reading)?;
        }
        self.read_value(reading, json, path)
    }

    fn read_object(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        path: KeyPath<'_>,
    ) -> Result<(), Problem> {
        let KeyPath { key, parent, .. } = path;
        match key {
            "more_like_this" => reading.need(MULTI_TERM_VECTORS, Target::Cluster)?,
            // `wrapper`: a query in base64. `pit`: a point in time on unknown indices. `collate`: a
            // query that checks suggested phrases. The query is inside a string, or stored in the
            // cluster. `validating_ltr_query`: templates of the plugin
            // `opensearch-learning-to-rank`.
            "wrapper" | "pit" | "collate" | "validating_ltr_query" => need_any_lookup(reading)?,
            // `template`: a query with variables (`${…}`), which a node fills in later. The node
            // unescapes the text before it looks for variables, so an escape may hide one. The
            // text of an inner template was checked as a part of the outer template.
            "template"
                if !path.is_in_template
                    && contains_any(json.clone().raw_value()?, &[b"\\", b"${"]) =>
            {
                need_any_lookup(reading)?;
            }
            _ => {}
        }
        // {"terms": {FIELD: {"index": …, "id": …, "path": …}}}
        // {"geo_shape": {FIELD: {"indexed_shape": {"index": …, "id": …}}}}
        // {"percolate": {"field": …, "index": …, "id": …}}
        let is_document = parent == "terms" || matches!(key, "indexed_shape" | "percolate");
        // {"more_like_this": {"like": [{"_index": …, "_id": …}]}}
        let is_like_document = parent == "more_like_this" && matches!(key, "like" | "unlike");
        self.has_terms |= path.is_in_terms;
        let (mut index, mut like_index, mut has_query) = (None, None, false);
        json.object(|json, member| {
            match (&*member, json.peek()?) {
                ("index", Value::String) if is_document => {
                    return set_once(&mut index, json.string()?);
                }
                ("_index", Value::String) if is_like_document => {
                    return set_once(&mut like_index, json.string()?);
                }
                // The name of the index could be written as a number. Nobody needs that.
                ("index", Value::Other) if is_document => return Err(NO_TEXT),
                ("_index", Value::Other) if is_like_document => return Err(NO_TEXT),
                ("query", Value::Object) => has_query = true,
                _ => {}
            }
            self.read_member_at(reading, json, path.member(&member))
        })?;
        if key == "indexed_shape" && index.is_none() {
            index = Some(Cow::Borrowed("shapes"));
        }
        match index {
            // A node searches this index with the query. So the index may be a pattern, which the
            // node expands.
            Some(index) if has_query => {
                let indices = reading.checked_pattern(index, WITH_HIDDEN_INDICES)?;
                reading.need(SEARCH, Target::Fixed(indices))?;
            }
            Some(index) => reading.need(GET, Target::Name(reading.checked_name(index)?))?,
            None => {}
        }
        if is_like_document {
            // Documents without an index are in the searched indices.
            let target = match like_index {
                Some(index) => Target::Name(reading.checked_name(index)?),
                None => Target::Fixed(self.searched.clone()),
            };
            reading.need(TERM_VECTORS, target)?;
        }
        Ok(())
    }
}
