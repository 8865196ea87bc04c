//! Requests as JSON: those of an evaluation (6.1), of evaluations (7.1) and of searches (8).
//!
//! Unknown members are ignored (10.1.1). A name that occurs twice is an error at every level
//! (11.4): another reader may take the other value.

use std::sync::Arc;

use serde_json::{Map, Value};

/// The maximum number of evaluations in a request. While they are decided, the requests of other
/// clients wait.
pub const MAX_EVALUATIONS: usize = 1_000;

/// What a request asks for. The path of the request says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/access/v1/evaluation`: one decision.
    Evaluation,
    /// `/access/v1/evaluations`: several.
    Evaluations,
    /// `/access/v1/search/…`: all that would be permitted.
    Search(Sought),
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Subjects of a type.
    Subject,
    /// Resources of a type.
    Resource,
    /// Actions.
    Action,
}

/// Why a request is answered with 400. The message shows nothing of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The body is not a JSON object.
    #[error(
        "the body is not a JSON object in UTF-8 with distinct names, at most 128 levels deep and \
         with at most 16,384 values"
    )]
    NoObject,
    /// A member is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A member has a value of another type.
    #[error("`{0}` is not {1}")]
    WrongType(String, &'static str),
    /// The value of `options.evaluations_semantic` is unknown.
    #[error(
        "`options.evaluations_semantic` is none of `execute_all`, `deny_on_first_deny` and \
         `permit_on_first_permit`"
    )]
    UnknownSemantic,
    /// There are too many evaluations.
    #[error("`evaluations` has more than {MAX_EVALUATIONS} items")]
    TooMany,
    /// `page.limit` is not a whole number.
    #[error("`page.limit` is not a whole number from 0")]
    BadLimit,
    /// `page.token` is not that of an answer to the same search.
    #[error("`page.token` is not of an answer to this search: begin again without it")]
    BadToken,
    /// The policy trusts `context.time`, which is not a time.
    #[error("`context.time` is not a time after 1969, such as `2026-01-31T08:00:00Z`")]
    BadTime,
    /// The policy trusts `context.ip`, which is not an address.
    #[error("`context.ip` is not an address, such as `192.0.2.7`")]
    BadAddress,
}

/// A question: may this subject do this to this resource?
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub(crate) subject: Arc<Entity>,
    pub(crate) action: Arc<Action>,
    pub(crate) resource: Arc<Entity>,
    pub(crate) context: Arc<Map<String, Value>>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) name: String,
    pub(crate) properties: Map<String, Value>,
}

/// A subject or a resource.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) properties: Map<String, Value>,
}

/// A search: a question without the `id` of the sought entity, or without an action.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) sought: Sought,
    /// The question that is asked about each candidate. The `id` of the sought entity, or the name
    /// of the sought action, is empty here.
    pub(crate) question: Evaluation,
    /// All members but `page`.
    pub(crate) members: Map<String, Value>,
    pub(crate) page: Map<String, Value>,
}

/// Questions, in order. A malformed question is denied, and the others are answered.
#[derive(Debug)]
pub struct Batch {
    pub(crate) items: Vec<Result<Evaluation, Malformed>>,
    pub(crate) semantic: Semantic,
}

/// Which questions are answered (7.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantic {
    /// All of them.
    #[default]
    ExecuteAll,
    /// Those until the first that is denied.
    DenyOnFirstDeny,
    /// Those until the first that is permitted.
    PermitOnFirstPermit,
}

/// The members of a request or of an evaluation in it. Those of a request are defaults for its
/// evaluations.
#[derive(Clone, Default)]
struct Parts {
    subject: Option<Arc<Entity>>,
    action: Option<Arc<Action>>,
    resource: Option<Arc<Entity>>,
    context: Option<Arc<Map<String, Value>>>,
}

impl Evaluation {
    /// Reads a request of `/access/v1/evaluation`.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        Parts::read(&object(body)?)?.complete()
    }
}

impl Batch {
    /// Reads a request of `/access/v1/evaluations`. If `evaluations` is absent or empty, the
    /// request is a single question: the inner `Err` has it.
    ///
    /// # Errors
    /// If it is malformed as a whole.
    pub fn parse(body: &[u8]) -> Result<Result<Self, Evaluation>, Malformed> {
        let members = object(body)?;
        let defaults = Parts::read(&members)?;
        let semantic = Semantic::read(&members)?;
        let items = match members.get("evaluations") {
            None => &[],
            Some(Value::Array(items)) => items.as_slice(),
            Some(_) => return Err(Malformed::WrongType("evaluations".to_owned(), "an array")),
        };
        if items.len() > MAX_EVALUATIONS {
            return Err(Malformed::TooMany);
        }
        if items.is_empty() {
            return defaults.complete().map(Err);
        }
        let items = items.iter().map(|item| defaults.override_with(item)).collect();
        Ok(Ok(Self { items, semantic }))
    }
}

impl Search {
    pub(crate) fn parse(sought: Sought, body: &[u8]) -> Result<Self, Malformed> {
        let mut members = object(body)?;
        let page = optional_object(&members, "page", "")?.cloned().unwrap_or_default();
        members.remove("page");
        let (mut question, empty) = (members.clone(), Value::String(String::new()));
        // The `id` of the sought entity, or the sought action, is ignored if it was sent (8.4.1,
        // 8.5.1, 8.6.1).
        match sought {
            Sought::Subject | Sought::Resource => {
                let name = if sought == Sought::Subject { "subject" } else { "resource" };
                if let Some(Value::Object(entity)) = question.get_mut(name) {
                    entity.insert("id".to_owned(), empty);
                }
            }
            Sought::Action => {
                question.insert("action".to_owned(), serde_json::json!({ "name": empty }));
            }
        }
        let question = Parts::read(&question)?.complete()?;
        Ok(Self { sought, question, members, page })
    }

    /// The question whether this candidate is permitted.
    pub(crate) fn question(&self, candidate: &str) -> Evaluation {
        let question = self.question.clone();
        match self.sought {
            Sought::Subject => {
                Evaluation { subject: question.subject.with_id(candidate), ..question }
            }
            Sought::Resource => {
                Evaluation { resource: question.resource.with_id(candidate), ..question }
            }
            Sought::Action => {
                let (name, properties) = (candidate.to_owned(), Map::new());
                Evaluation { action: Arc::new(Action { name, properties }), ..question }
            }
        }
    }

    /// An entity of a result (8.3).
    pub(crate) fn result(&self, id: &str) -> Value {
        match self.sought {
            Sought::Subject => serde_json::json!({ "type": self.question.subject.kind, "id": id }),
            Sought::Resource => {
                serde_json::json!({ "type": self.question.resource.kind, "id": id })
            }
            Sought::Action => serde_json::json!({ "name": id }),
        }
    }
}

impl Semantic {
    fn read(members: &Map<String, Value>) -> Result<Self, Malformed> {
        let options = optional_object(members, "options", "")?;
        match options.and_then(|options| options.get("evaluations_semantic")) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::String(name)) => match name.as_str() {
                "execute_all" => Ok(Self::ExecuteAll),
                "deny_on_first_deny" => Ok(Self::DenyOnFirstDeny),
                "permit_on_first_permit" => Ok(Self::PermitOnFirstPermit),
                _ => Err(Malformed::UnknownSemantic),
            },
            Some(_) => Err(Malformed::UnknownSemantic),
        }
    }

    /// Whether no further question is answered after this decision.
    pub(crate) fn ends_with(self, decision: bool) -> bool {
        match self {
            Self::ExecuteAll => false,
            Self::DenyOnFirstDeny => !decision,
            Self::PermitOnFirstPermit => decision,
        }
    }
}

impl Parts {
    fn read(members: &Map<String, Value>) -> Result<Self, Malformed> {
        Ok(Self {
            subject: Entity::read(members, "subject")?.map(Arc::new),
            action: Action::read(members)?.map(Arc::new),
            resource: Entity::read(members, "resource")?.map(Arc::new),
            context: optional_object(members, "context", "")?.cloned().map(Arc::new),
        })
    }

    /// The question of an item. Each member that the item lacks is taken from these defaults; two
    /// members of the same name are not merged (7.1.1).
    fn override_with(&self, item: &Value) -> Result<Evaluation, Malformed> {
        let Value::Object(members) = item else {
            return Err(Malformed::WrongType("evaluations".to_owned(), "an array of objects"));
        };
        let parts = Self::read(members)?;
        let parts = Self {
            subject: parts.subject.or_else(|| self.subject.clone()),
            action: parts.action.or_else(|| self.action.clone()),
            resource: parts.resource.or_else(|| self.resource.clone()),
            context: parts.context.or_else(|| self.context.clone()),
        };
        parts.complete()
    }

    fn complete(self) -> Result<Evaluation, Malformed> {
        let missing = |name: &str| Malformed::Missing(name.to_owned());
        Ok(Evaluation {
            subject: self.subject.ok_or_else(|| missing("subject"))?,
            action: self.action.ok_or_else(|| missing("action"))?,
            resource: self.resource.ok_or_else(|| missing("resource"))?,
            context: self.context.unwrap_or_default(),
        })
    }
}

impl Action {
    fn read(members: &Map<String, Value>) -> Result<Option<Self>, Malformed> {
        let Some(action) = required_object(members, "action")? else { return Ok(None) };
        let properties = optional_object(action, "properties", "action.")?;
        let name = text(action, "name", "action.")?;
        Ok(Some(Self { name, properties: properties.cloned().unwrap_or_default() }))
    }
}

impl Entity {
    fn with_id(&self, id: &str) -> Arc<Self> {
        let Self { kind, properties, .. } = self;
        let (kind, properties) = (kind.clone(), properties.clone());
        Arc::new(Self { kind, id: id.to_owned(), properties })
    }

    fn read(members: &Map<String, Value>, name: &str) -> Result<Option<Self>, Malformed> {
        let Some(entity) = required_object(members, name)? else { return Ok(None) };
        let prefix = format!("{name}.");
        let properties = optional_object(entity, "properties", &prefix)?;
        Ok(Some(Self {
            kind: text(entity, "type", &prefix)?,
            id: text(entity, "id", &prefix)?,
            properties: properties.cloned().unwrap_or_default(),
        }))
    }
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Malformed> {
    match identity::json::parse(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) | Err(_) => Err(Malformed::NoObject),
    }
}

/// An object that a question must have; `None` if it is absent, since a default may complete the
/// question. `null` is an error: an item with `"subject": null` does not ask about the default
/// subject.
fn required_object<'m>(
    members: &'m Map<String, Value>,
    name: &str,
) -> Result<Option<&'m Map<String, Value>>, Malformed> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Malformed::WrongType(name.to_owned(), "an object")),
    }
}

/// An object that may be absent, or `null`, which means the same here (11.4).
fn optional_object<'m>(
    members: &'m Map<String, Value>,
    name: &str,
    prefix: &str,
) -> Result<Option<&'m Map<String, Value>>, Malformed> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Malformed::WrongType(format!("{prefix}{name}"), "an object")),
    }
}

fn text(members: &Map<String, Value>, name: &str, prefix: &str) -> Result<String, Malformed> {
    match members.get(name) {
        None => Err(Malformed::Missing(format!("{prefix}{name}"))),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Malformed::WrongType(format!("{prefix}{name}"), "a string")),
    }
}
