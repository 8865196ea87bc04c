//! Queries that look documents up in other indices.
//!
//! A node finds these while it rewrites a query, at any depth and in any place that takes a query, and reads them as the
//! same user. So every object is gone through, and what has the form of a look-up counts as one.
//!
//! Where an object ends is not where it ends for a node: several of its parsers take the end of an object that they do not
//! expect for their own, so `{"random_score": {"x": {}}` is over for it one brace early, and what follows is read as members of
//! what is around it (seen in 3.4.0). What stays is which token follows which: a name is that of an index only as the value of
//! `index` or `_index`, and a look-up begins with one of a few keys. So where a body has such a key, each such value counts,
//! wherever it stands.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::{MAX_NAMES, Reading};

const GET: &[Action] = &[Action::of("indices:data/read/get")];
const SEARCH: &[Action] =
    &[Action::of("indices:data/read/search"), Action::of("indices:monitor/settings/get")];
const TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv[shard]")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv")];
const PREDICT: &[Action] = &[Action::of("cluster:admin/opensearch/ml/predict")];
/// The index in which the plugin `user-behavior-insights` records queries, and what it does there as the caller.
const RECORDS: &str = "ubi_queries";
const RECORD: &[Action] = &[
    Action::of("indices:data/write/bulk[s]"),
    Action::of("indices:data/write/index"),
    Action::of("indices:admin/mapping/put"),
];
const CREATE: &[Action] = &[Action::of("indices:admin/create")];
/// What a query may read that is not seen.
const ANY: &[Action] = &[
    Action::of("indices:data/read/get"),
    Action::of("indices:data/read/mtv[shard]"),
    Action::of("indices:data/read/search"),
    Action::of("indices:monitor/settings/get"),
];

/// Adds what the look-ups need that the next value of `json` contains. `searched` are the indices that it is run on.
pub(crate) fn read<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    let mut lookups = Lookups::of(searched);
    lookups.value(reading, json, Under::default())?;
    lookups.finish(reading)
}

/// Adds what a search needs: its query, and all that stands beside it.
pub(crate) fn search<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
    searched: &Expression<'a>,
) -> Result<(), Problem> {
    let mut lookups = Lookups::of(searched);
    json.object(|json, key| lookups.member(reading, json, &key))?;
    lookups.finish(reading)
}

/// Processors of a search pipeline that make no query of a text.
const PROCESSORS: [&str; 11] = [
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

/// Whether a search pipeline in the body of a request has only [`PROCESSORS`].
pub(crate) fn has_known_processors(pipeline: &[u8]) -> bool {
    let known = |json: &mut Json<'_>, kind: Cow<'_, str>| {
        json.skip()?;
        if PROCESSORS.contains(&&*kind) { Ok(()) } else { Err(Problem::Unsupported("a processor")) }
    };
    let lists = |json: &mut Json<'_>| {
        json.object(|json, key| match &*key {
            "request_processors" | "response_processors" | "phase_results_processors" => {
                json.array(|json| json.object(known))
            }
            "description" | "version" => json.skip().map(drop),
            _ => Err(Problem::Unsupported("a key of a search pipeline")),
        })
    };
    Json::whole(pipeline, lists).is_ok()
}

/// Whether the text of a template may have `${`. A node unescapes the text before it looks for variables.
fn may_have_variables(template: &[u8]) -> bool {
    template.contains(&b'\\') || template.windows(2).any(|pair| pair == b"${")
}

/// What a query needs that is not seen because a template is made into it.
pub(crate) fn unseen(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.need_all(ANY)?;
    reading.need(MULTI_TERM_VECTORS, Target::Cluster)
}

/// Fails if the next value of `json` may contain a look-up, or a variable in a key.
pub(crate) fn none(json: &mut Json<'_>) -> Result<(), Problem> {
    match json.peek()? {
        Value::Array => json.array(none),
        Value::Object => json.object(|json, key| match &*key {
            "index"
            | "_index"
            | "indexed_shape"
            | "percolate"
            | "more_like_this"
            | "wrapper"
            | "template"
            | "collate"
            | "pit"
            | "search_pipeline"
            | "validating_ltr_query" => Err(Problem::Unsupported("a look-up in a template")),
            _ if key.contains("{{") => Err(Problem::Unsupported("a variable in a key of a template")),
            _ => none(json),
        }),
        Value::String | Value::Null | Value::Other => json.skip().map(drop),
    }
}

/// What a value stands under.
#[derive(Clone, Copy, Default)]
struct Under<'k> {
    key: &'k str,
    /// The key of the object that has it.
    outer: &'k str,
    /// Whether a `template` is around it.
    is_in_template: bool,
    /// Whether the object of a `terms` is around it.
    is_in_terms: bool,
    /// Whether a `search_pipeline` is around it.
    is_in_pipeline: bool,
}

/// Reads the look-ups of one body.
pub(crate) struct Lookups<'s, 'a> {
    searched: &'s Expression<'a>,
    /// The names of indices, or what may be one, that stand where no look-up is.
    names: Vec<Cow<'a, str>>,
    /// Whether there is an `indexed_shape`, a `percolate` or a `more_like_this`.
    has_lookup: bool,
    /// Whether there is a `terms` with an object in it, as it has for a look-up.
    has_terms: bool,
    /// Whether there is a `path`, which a look-up of terms must have.
    has_path: bool,
    /// Whether there is a query of the plugin `neural-search`, and what it asks a model for. One that has only vectors or tokens
    /// asks none.
    has_neural: bool,
    has_model_input: bool,
    /// Whether the plugin `user-behavior-insights` is to record the search.
    is_recorded: bool,
}

impl<'s, 'a> Lookups<'s, 'a> {
    /// For a body that is run on the indices `searched`.
    pub(crate) fn of(searched: &'s Expression<'a>) -> Self {
        Self {
            searched,
            names: Vec::new(),
            has_lookup: false,
            has_terms: false,
            has_path: false,
            has_neural: false,
            has_model_input: false,
            is_recorded: false,
        }
    }

    /// Adds what one member of a search needs.
    pub(crate) fn member(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        key: &str,
    ) -> Result<(), Problem> {
        self.member_of(reading, json, Under { key, ..Under::default() })
    }

    /// Keeps a name, and no more than one over the limit: with that one, a body that has a look-up is refused.
    fn add(&mut self, name: Cow<'a, str>) {
        if self.names.len() <= MAX_NAMES {
            self.names.push(name);
        }
    }

    /// Adds what the names need that a look-up may have, wherever they stand.
    pub(crate) fn finish(self, reading: &mut Reading<'_, 'a>) -> Result<(), Problem> {
        if self.has_lookup || self.has_terms && self.has_path {
            for name in self.names {
                let named = reading.pattern(name, Options { hidden: true, ..Options::OPEN })?;
                reading.need(ANY, Target::Fixed(named))?;
            }
        }
        if self.has_neural && self.has_model_input {
            reading.need(PREDICT, Target::Cluster)?;
        }
        if self.is_recorded {
            reading.need(CREATE, Target::Missing(RECORDS.into()))?;
            reading.need(RECORD, Target::Name(RECORDS.into()))?;
        }
        Ok(())
    }

    /// Adds what a value needs.
    ///
    /// A client chooses the names of fields, aggregations and filters, and may give them those of queries. So what a value
    /// needs as one kind of query never keeps its members from being read as others.
    fn value(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        under: Under<'_>,
    ) -> Result<(), Problem> {
        match json.peek()? {
            Value::Array => json.array(|json| self.value(reading, json, under)),
            Value::Object => self.object(reading, json, under),
            Value::String if matches!(under.key, "index" | "_index") => {
                let name = json.string()?;
                self.add(name);
                Ok(())
            }
            Value::Other if matches!(under.key, "index" | "_index") => {
                let name = String::from_utf8_lossy(json.skip()?);
                self.add(name);
                Ok(())
            }
            Value::String | Value::Null | Value::Other => json.skip().map(drop),
        }
    }

    /// Adds what a member needs whose key and value are under `under`.
    fn member_of(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        under: Under<'_>,
    ) -> Result<(), Problem> {
        match (under.key, json.peek()?) {
            ("search_pipeline", Value::String) => {
                return if json.string()? == "_none" { Ok(()) } else { unseen(reading) };
            }
            // A node takes it for the name, as text.
            ("search_pipeline", Value::Other) => {
                json.skip()?;
                return unseen(reading);
            }
            // One in another one is not gone through again: the outer one was, and this one counts as unseen.
            ("search_pipeline", Value::Object)
                if under.is_in_pipeline || !has_known_processors(json.clone().skip()?) =>
            {
                unseen(reading)?;
            }
            ("indexed_shape", Value::Object) | ("percolate" | "more_like_this", _) => self.has_lookup = true,
            // A node takes the members that follow for those of the shape.
            ("indexed_shape", _) => return Err(Problem::Invalid("an `indexed_shape` is no object")),
            ("path", Value::String) => self.has_path = true,
            ("neural" | "neural_sparse", Value::Object) => self.has_neural = true,
            ("query_text" | "query_image" | "model_id", _) => self.has_model_input = true,
            ("ubi", Value::Object) => self.is_recorded = true,
            _ => {}
        }
        self.value(reading, json, under)
    }

    fn object(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        Under { key, outer, is_in_template, is_in_terms, is_in_pipeline }: Under<'_>,
    ) -> Result<(), Problem> {
        match key {
            "more_like_this" => reading.need(MULTI_TERM_VECTORS, Target::Cluster)?,
            // A query in base64; what a point in time was opened on; a query in a string, or a stored one, by which a suggester
            // checks its phrases; features of the plugin `opensearch-learning-to-rank`, which are templates of queries.
            "wrapper" | "pit" | "collate" | "validating_ltr_query" => unseen(reading)?,
            // Variables are filled in later. Those of a template within another one were looked for with it.
            "template" if !is_in_template && may_have_variables(json.clone().skip()?) => unseen(reading)?,
            _ => {}
        }
        // {"terms": {FIELD: {"index": …, "id": …, "path": …}}}
        // {"geo_shape": {FIELD: {"indexed_shape": {"index": …, "id": …}}}}
        // {"percolate": {"field": …, "index": …, "id": …}}
        let is_document = outer == "terms" || matches!(key, "indexed_shape" | "percolate");
        // {"more_like_this": {"like": [{"_index": …, "_id": …}]}}
        let is_alike = outer == "more_like_this" && matches!(key, "like" | "unlike");
        self.has_terms |= is_in_terms;
        let is_in_template = is_in_template || key == "template";
        let is_in_terms = is_in_terms || key == "terms";
        let is_in_pipeline = is_in_pipeline || key == "search_pipeline";
        let mut index = None;
        let mut alike = None;
        let mut has_query = false;
        json.object(|json, member| {
            match (&*member, json.peek()?) {
                ("index", Value::String) if is_document => return once(&mut index, json.string()?),
                ("_index", Value::String) if is_alike => return once(&mut alike, json.string()?),
                // The name of the index could be written as a number. Nobody needs that.
                ("index", Value::Other) if is_document => return Err(NO_TEXT),
                ("_index", Value::Other) if is_alike => return Err(NO_TEXT),
                ("query", Value::Object) => has_query = true,
                _ => {}
            }
            let under = Under { key: &member, outer: key, is_in_template, is_in_terms, is_in_pipeline };
            self.member_of(reading, json, under)
        })?;
        if key == "indexed_shape" && index.is_none() {
            index = Some(Cow::Borrowed("shapes"));
        }
        match index {
            // It searches there: a node expands patterns.
            Some(index) if has_query => {
                let searched = reading.pattern(index, Options { hidden: true, ..Options::OPEN })?;
                reading.need(SEARCH, Target::Fixed(searched))?;
            }
            Some(index) => {
                let index = reading.name(index)?;
                reading.need(GET, Target::Name(index))?;
            }
            None => {}
        }
        if is_alike {
            // Those that name no index are taken from the searched ones.
            let target = match alike {
                Some(index) => Target::Name(reading.name(index)?),
                None => Target::Fixed(self.searched.clone()),
            };
            reading.need(TERM_VECTORS, target)?;
        }
        Ok(())
    }
}

fn once<'a>(place: &mut Option<Cow<'a, str>>, name: Cow<'a, str>) -> Result<(), Problem> {
    match place.replace(name) {
        Some(_) => Err(Problem::Invalid("its body has a key twice")),
        None => Ok(()),
    }
}

const NO_TEXT: Problem = Problem::Invalid("a look-up names its index by no text");
/// The options that a look-up leaves as they are.
pub(crate) fn nothing<'a>() -> Expression<'a> {
    Expression::new("", Options::OPEN)
}
