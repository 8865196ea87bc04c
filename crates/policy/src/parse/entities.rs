//! The file `entities` of the section `authzen`: subjects and resources with their properties.

use std::path::Path;

use serde_json::{Map, Value};

use crate::hints::HINTS;
use crate::json;
use crate::model::{Entities, EntitiesById, ResourceType, SubjectType};
use crate::parse::values;
use document::{Fields, Key, Node, Problem, Reader, closest};

/// Parses the file. The entities are complete if no problem is an error.
pub(crate) fn parse(
    file: &Path,
    bytes: &[u8],
    subjects: &[SubjectType],
    resources: &[ResourceType],
) -> (Entities, Vec<Problem>) {
    let mut reader = Reader::with_hints(file.into(), HINTS);
    let entities = read(&mut reader, bytes, subjects, resources).unwrap_or_default();
    (entities, reader.finish())
}

fn read(
    reader: &mut Reader,
    bytes: &[u8],
    subjects: &[SubjectType],
    resources: &[ResourceType],
) -> Option<Entities> {
    // An empty file is an error: a file that is read while it is written may be empty, and it must
    // not remove the properties of all entities.
    let root = reader.parse_nonempty(bytes, "write `subjects: {}` to have no entities")?;
    let keys = ["subjects", "resources"];
    let fields = reader.fields(&root, "a file of entities", &keys)?;
    reader.report_empty(&fields, &keys);
    let mut entities = Entities::default();
    for (name, node) in types(reader, &fields, "subjects") {
        if is_type(reader, name, subjects.iter().map(|kind| &*kind.name)) {
            let ids = read_entities(reader, node, |reader, id| {
                values::is_name(reader, id.at, &id.text, "the `id` of a subject")
            });
            entities.subjects.0.insert(name.text.clone(), ids);
        }
    }
    for (name, node) in types(reader, &fields, "resources") {
        let kind = resources.iter().find(|kind| *kind.name == *name.text);
        if is_type(reader, name, resources.iter().map(|kind| &*kind.name))
            && let Some(kind) = kind
        {
            let ids = read_entities(reader, node, |reader, id| fits_in_path(reader, id, kind));
            entities.resources.0.insert(name.text.clone(), ids);
        }
    }
    Some(entities)
}

fn types<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> Vec<(&'n Key, &'n Node)> {
    let node = fields.value(key).filter(|node| !node.is_nothing());
    let entries = node.and_then(|node| reader.entries(node, &format!("`{key}`")));
    entries.iter().flat_map(Fields::iter).collect()
}

/// Whether the section `authzen` has this type. Reports a type that it lacks, because no request
/// could be about an entity of such a type.
fn is_type<'t>(
    reader: &mut Reader,
    name: &Key,
    mut types: impl Iterator<Item = &'t str> + Clone,
) -> bool {
    if types.clone().any(|kind| kind == &*name.text) {
        return true;
    }
    let near = closest(&name.text, types.clone());
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let example = types.next().unwrap_or_default();
            format!("write a type of the section, such as `{example}`, or add this one there")
        }
    };
    let message = format!("the section `authzen` has no type `{}`", name.text);
    reader.error_help(name.at, message, help);
    false
}

/// Whether the path of this type can contain this `id`; reports an `id` that it cannot contain.
fn fits_in_path(reader: &mut Reader, id: &Key, kind: &ResourceType) -> bool {
    let has_path = kind.path.with_id(&id.text).is_some();
    if !has_path {
        let message = format!("no segment of a path can hold the `id` `{}`", id.text);
        let help = "an `id` has no `/` and no control characters, and is not `.` or `..`";
        reader.error_help(id.at, message, help);
    }
    has_path
}

/// The properties of the entities of a type, by their `id`.
fn read_entities(
    reader: &mut Reader,
    node: &Node,
    is_id: impl Fn(&mut Reader, &Key) -> bool,
) -> EntitiesById {
    let mut entities = EntitiesById::new();
    if node.is_nothing() {
        return entities;
    }
    let entries = reader.entries(node, "the entities of a type");
    for (id, node) in entries.iter().flat_map(Fields::iter) {
        if is_id(reader, id)
            && let Some(properties) = read_properties(reader, node)
        {
            entities.insert(id.text.clone(), properties);
        }
    }
    entities
}

fn read_properties(reader: &mut Reader, node: &Node) -> Option<Map<String, Value>> {
    if node.is_nothing() {
        return Some(Map::new());
    }
    reader.entries(node, "the properties of an entity")?;
    match json::from_yaml(reader, node)? {
        Value::Object(properties) => Some(properties),
        _ => None,
    }
}
