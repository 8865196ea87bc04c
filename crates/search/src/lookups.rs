//! Queries that look documents up in other indices.
//!
//! A node finds look-ups at any depth while it rewrites a query, and reads the documents as the
//! same user. So every object is gone through, and whatever has the form of a look-up counts as
//! one.
//!
//! Several parsers of a node take the end of an object that they do not expect for their own:
//! `{"random_score": {"x": {}}` is over for it one brace early, and the next members count for the
//! object around it (seen in 3.4.0). Only the order of the tokens is certain. A name is that of an
//! index only as the value of `index` or `_index`, and a look-up begins with one of a few keys. So
//! if a body has such a key, each such value counts, wherever it stands.
//!
//! The same walk finds searches that show terms of documents that they do not find. A document
//! query of a role does not hide these terms, so the security plugin denies such searches on its
//! index (`DlsFlsValveImpl`). It looks for aggregations of terms at the top only. Inner ones show
//! the same.

use std::borrow::Cow;

use crate::action::Action;
use crate::expression::{Expression, Options};
use crate::json::{Json, Value, set_once};
use crate::need::Target;
use crate::problem::Problem;
use crate::reading::{MAX_NAMES, Reading};

const GET: &[Action] = &[Action::of("indices:data/read/get")];
const SEARCH: &[Action] =
    &[Action::of("indices:data/read/search"), Action::of("indices:monitor/settings/get")];
const TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv[shard]")];
const MULTI_TERM_VECTORS: &[Action] = &[Action::of("indices:data/read/mtv")];
const PREDICT: &[Action] = &[Action::of("cluster:admin/opensearch/ml/predict")];
/// The index in which `user-behavior-insights` records queries, and its actions as the caller.
const RECORDS: &str = "ubi_queries";
const RECORD: &[Action] = &[
    Action::of("indices:data/write/bulk[s]"),
    Action::of("indices:data/write/index"),
    Action::of("indices:admin/mapping/put"),
];
const CREATE: &[Action] = &[Action::of("indices:admin/create")];
/// The actions that a query that is not seen may perform.
const ANY: &[Action] = &[
    Action::of("indices:data/read/get"),
    Action::of("indices:data/read/mtv[shard]"),
    Action::of("indices:data/read/search"),
    Action::of("indices:monitor/settings/get"),
];
const NO_TEXT: Problem = Problem::Invalid("a look-up names its index by no text");

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

/// The searched indices of a query that searches none by itself.
pub(crate) fn nothing<'a>() -> Expression<'a> {
    Expression::new("", Options::OPEN)
}

/// Adds the needs of look-ups in the next value of `json`, which is a filter, or contains some.
pub(crate) fn filter<'a>(
    reading: &mut Reading<'_, 'a>,
    json: &mut Json<'a>,
) -> Result<(), Problem> {
    let nothing = nothing();
    let mut lookups = Lookups::new(&nothing);
    lookups.value(reading, json, Place::default())?;
    lookups.finish(reading).map(drop)
}

/// Adds the needs of a query that is not seen, because a template is made into it.
pub(crate) fn unseen(reading: &mut Reading<'_, '_>) -> Result<(), Problem> {
    reading.need_all(ANY)?;
    reading.need(MULTI_TERM_VECTORS, Target::Cluster)
}

/// Whether a `profile` beside the query counts: any value but false.
pub(crate) fn shows_profile(value: &[u8]) -> bool {
    !matches!(value, b"false" | b"\"false\"")
}

/// Whether the source of a template shows hidden terms.
///
/// # Errors
/// If it may contain a look-up, or a variable in a key.
pub(crate) fn hidden_terms_of_template(json: &mut Json<'_>) -> Result<bool, Problem> {
    let mut shows_hidden_terms = false;
    template_value(json, Place::default(), &mut shows_hidden_terms)?;
    Ok(shows_hidden_terms)
}

fn template_value(json: &mut Json<'_>, place: Place<'_>, shows: &mut bool) -> Result<(), Problem> {
    match json.peek()? {
        Value::Array => json.array(|json| template_value(json, place, shows)),
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
            _ if key.contains("{{") => {
                Err(Problem::Unsupported("a variable in a key of a template"))
            }
            _ => {
                let place = place.member(&key);
                *shows |= place.shows_hidden_terms(json)?;
                template_value(json, place, shows)
            }
        }),
        Value::String | Value::Null | Value::Other => json.ignore(),
    }
}

/// Where a value stands.
#[derive(Clone, Copy, Default)]
struct Place<'k> {
    /// The key of the value, and those of the objects around it, the inner one first.
    key: &'k str,
    outer: &'k str,
    outermost: &'k str,
    is_in_histogram: bool,
    is_in_template: bool,
    /// Whether the object of a `terms` is around it.
    is_in_terms: bool,
    is_in_pipeline: bool,
}

impl<'k> Place<'k> {
    /// The place of a member of the object that stands here.
    fn member(self, key: &'k str) -> Self {
        let is_aggregation = matches!(self.outermost, "aggs" | "aggregations");
        Place {
            key,
            outer: self.key,
            outermost: self.outer,
            // Groups of a histogram without documents are no terms.
            is_in_histogram: is_aggregation && matches!(self.key, "date_histogram" | "histogram"),
            is_in_template: self.is_in_template || self.key == "template",
            is_in_terms: self.is_in_terms || self.key == "terms",
            is_in_pipeline: self.is_in_pipeline || self.key == "search_pipeline",
        }
    }

    /// Whether the next value of `json` makes a search show terms of documents that it does not
    /// find: a `profile`, or an aggregation with terms that no found document has. An ambiguous
    /// value counts. So does a key at any depth: a node may take it for a member of an outer
    /// object.
    fn shows_hidden_terms(self, json: &mut Json<'_>) -> Result<bool, Problem> {
        let is_scalar = json.peek()?.is_scalar();
        Ok(match self.key {
            "profile" if self.outer.is_empty() => shows_profile(json.clone().skip()?),
            "profile" if json.peek()? == Value::String => json.clone().string()? == "true",
            "profile" if is_scalar => json.clone().skip()? == b"true",
            "min_doc_count" if !self.is_in_histogram => {
                !is_scalar || !is_positive(json.clone().skip()?)
            }
            _ => false,
        })
    }
}

/// Whether a value is a whole number above 0, or text with one. A node reads `0.5` as 0.
fn is_positive(value: &[u8]) -> bool {
    let text = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(value);
    text.first().is_some_and(|first| *first != b'0') && text.iter().all(u8::is_ascii_digit)
}

/// Whether a search pipeline has only [`PROCESSORS`]. Another one may replace the whole search.
fn has_known_processors(pipeline: &[u8]) -> bool {
    let processor = |json: &mut Json<'_>, name: Cow<'_, str>| {
        json.ignore()?;
        if PROCESSORS.contains(&&*name) { Ok(()) } else { Err(Problem::Unsupported("a processor")) }
    };
    let lists = |json: &mut Json<'_>| {
        json.object(|json, key| match &*key {
            "request_processors" | "response_processors" | "phase_results_processors" => {
                json.array(|json| json.object(processor))
            }
            "description" | "version" => json.ignore(),
            _ => Err(Problem::Unsupported("a key of a search pipeline")),
        })
    };
    Json::whole(pipeline, lists).is_ok()
}

/// Whether a text has one of these.
fn contains_any(text: &[u8], parts: &[&[u8]]) -> bool {
    parts.iter().any(|part| memchr::memmem::find(text, part).is_some())
}

/// Reads the look-ups of one body.
pub(crate) struct Lookups<'s, 'a> {
    searched: &'s Expression<'a>,
    /// Values that may be names of indices, and stand where no look-up is.
    names: Vec<Cow<'a, str>>,
    /// Whether there is an `indexed_shape`, a `percolate` or a `more_like_this`.
    has_lookup: bool,
    /// Whether there is a `terms` with an object in it, as it has for a look-up.
    has_terms: bool,
    /// Whether there is a `path`, which a look-up of terms must have.
    has_path: bool,
    /// Whether there is a query of the plugin `neural-search`, and input for a model.
    has_neural: bool,
    has_model_input: bool,
    /// Whether the plugin `user-behavior-insights` is to record the search.
    is_recorded: bool,
    shows_hidden_terms: bool,
}

impl<'s, 'a> Lookups<'s, 'a> {
    /// For a body that is run on the indices `searched`.
    pub(crate) fn new(searched: &'s Expression<'a>) -> Self {
        Self {
            searched,
            names: Vec::new(),
            has_lookup: false,
            has_terms: false,
            has_path: false,
            has_neural: false,
            has_model_input: false,
            is_recorded: false,
            shows_hidden_terms: false,
        }
    }

    /// Adds the needs of one member of a search.
    pub(crate) fn member(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        key: &str,
    ) -> Result<(), Problem> {
        self.member_at(reading, json, Place::default().member(key))
    }

    /// Keeps a name, and no more than one over the limit, which then denies a body with a look-up.
    fn add(&mut self, name: Cow<'a, str>) {
        if self.names.len() <= MAX_NAMES {
            self.names.push(name);
        }
    }

    /// Adds the needs of the names that a look-up may have, wherever they stand. Returns whether
    /// the search shows terms of documents that it does not find.
    pub(crate) fn finish(self, reading: &mut Reading<'_, 'a>) -> Result<bool, Problem> {
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
        Ok(self.shows_hidden_terms)
    }

    /// Adds the needs of a value.
    ///
    /// A client chooses the names of fields, aggregations and filters, and may give them those of
    /// queries. So a value that counts as one kind of query is read for the others, too.
    fn value(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        place: Place<'_>,
    ) -> Result<(), Problem> {
        let may_be_name = matches!(place.key, "index" | "_index");
        match json.peek()? {
            Value::Array => return json.array(|json| self.value(reading, json, place)),
            Value::Object => return self.object(reading, json, place),
            Value::String if may_be_name => self.add(json.string()?),
            Value::Other if may_be_name => self.add(String::from_utf8_lossy(json.skip()?)),
            Value::String | Value::Null | Value::Other => json.ignore()?,
        }
        Ok(())
    }

    /// Adds the needs of the value of a member.
    fn member_at(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        place: Place<'_>,
    ) -> Result<(), Problem> {
        self.shows_hidden_terms |= place.shows_hidden_terms(json)?;
        match (place.key, json.peek()?) {
            ("search_pipeline", value) => return self.pipeline(reading, json, place, value),
            ("indexed_shape", Value::Object) | ("percolate" | "more_like_this", _) => {
                self.has_lookup = true
            }
            // A node takes the members that follow for those of the shape.
            ("indexed_shape", _) => {
                return Err(Problem::Invalid("an `indexed_shape` is no object"));
            }
            ("path", Value::String) => self.has_path = true,
            ("neural" | "neural_sparse", Value::Object) => self.has_neural = true,
            ("query_text" | "query_image" | "model_id", _) => self.has_model_input = true,
            ("ubi", Value::Object) => self.is_recorded = true,
            _ => {}
        }
        self.value(reading, json, place)
    }

    /// Adds the needs of a search pipeline: a definition, or the name of one that is not seen.
    fn pipeline(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        place: Place<'_>,
        value: Value,
    ) -> Result<(), Problem> {
        let is_unseen = match value {
            Value::Null => false,
            Value::String => json.clone().string()? != "_none",
            // A node takes it for the name, as text.
            Value::Other => true,
            // A pipeline in another one is not gone through again: it counts as unseen.
            Value::Object | Value::Array if place.is_in_pipeline => true,
            Value::Object | Value::Array => {
                let pipeline = json.clone().skip()?;
                // A script may ask for a `profile`. A client may name something else so, too.
                let texts: [&[u8]; 4] = [b"script", b"profile", b"min_doc_count", b"\\u"];
                self.shows_hidden_terms |= contains_any(pipeline, &texts);
                !has_known_processors(pipeline)
            }
        };
        if is_unseen {
            self.shows_hidden_terms |= !place.is_in_pipeline;
            unseen(reading)?;
        }
        self.value(reading, json, place)
    }

    fn object(
        &mut self,
        reading: &mut Reading<'_, 'a>,
        json: &mut Json<'a>,
        place: Place<'_>,
    ) -> Result<(), Problem> {
        let Place { key, outer, .. } = place;
        match key {
            "more_like_this" => reading.need(MULTI_TERM_VECTORS, Target::Cluster)?,
            // A query in base64; a point in time on unknown indices; a query in a string, or a
            // stored one, that checks phrases; templates of the plugin
            // `opensearch-learning-to-rank`.
            "wrapper" | "pit" | "collate" | "validating_ltr_query" => unseen(reading)?,
            // Variables are filled in later. A node unescapes the text before it looks for them. A
            // template within another one was looked through with it.
            "template"
                if !place.is_in_template && contains_any(json.clone().skip()?, &[b"\\", b"${"]) =>
            {
                unseen(reading)?;
            }
            _ => {}
        }
        // {"terms": {FIELD: {"index": …, "id": …, "path": …}}}
        // {"geo_shape": {FIELD: {"indexed_shape": {"index": …, "id": …}}}}
        // {"percolate": {"field": …, "index": …, "id": …}}
        let is_document = outer == "terms" || matches!(key, "indexed_shape" | "percolate");
        // {"more_like_this": {"like": [{"_index": …, "_id": …}]}}
        let is_alike = outer == "more_like_this" && matches!(key, "like" | "unlike");
        self.has_terms |= place.is_in_terms;
        let (mut index, mut alike, mut has_query) = (None, None, false);
        json.object(|json, member| {
            match (&*member, json.peek()?) {
                ("index", Value::String) if is_document => {
                    return set_once(&mut index, json.string()?);
                }
                ("_index", Value::String) if is_alike => {
                    return set_once(&mut alike, json.string()?);
                }
                // The name of the index could be written as a number. Nobody needs that.
                ("index", Value::Other) if is_document => return Err(NO_TEXT),
                ("_index", Value::Other) if is_alike => return Err(NO_TEXT),
                ("query", Value::Object) => has_query = true,
                _ => {}
            }
            self.member_at(reading, json, place.member(&member))
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
            // Documents without an index are in the searched ones.
            let target = match alike {
                Some(index) => Target::Name(reading.name(index)?),
                None => Target::Fixed(self.searched.clone()),
            };
            reading.need(TERM_VECTORS, target)?;
        }
        Ok(())
    }
}
