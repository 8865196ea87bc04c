//! The section `authzen`: subjects, actions and resources of the AuthZEN Authorization API 1.0.

use std::sync::Arc;

use crate::canonical::{self, Buffers};
use crate::model::{
    ActionName, AuthZen, ClaimPath, Entities, ResourcePath, ResourceSegment, ResourceType,
    SubjectType,
};
use crate::parse::cached_files::CachedFiles;
use crate::parse::{entities, host, method, values};
use crate::pattern::Scope;
use document::{Fields, Key, Node, PolicyFile, Reader, Text};

/// In the path of a type of resources, the placeholder for the `id` of a resource.
const ID: &str = "{id}";

pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (key, node): (&Key, &Node),
) -> Option<AuthZen> {
    let keys = ["subjects", "actions", "resources", "entities", "trust_context"];
    let fields = reader.filled_fields(node, "`authzen`", &keys)?;
    let help =
        "write `subjects: { user: {} }`: each `id` of this type is then the user of that name";
    reader.required(&fields, "subjects", help);
    let help =
        "write a type and its path, such as `resources: { record: { path: \"/records/{id}\" } }`";
    reader.required(&fields, "resources", help);
    let subjects = read_types(reader, &fields, "subjects", read_subject);
    let actions = read_actions(reader, &fields);
    let resources = read_types(reader, &fields, "resources", read_resource);
    let trust_context = reader.field_boolean(&fields, "trust_context").unwrap_or_default();
    let (subjects, resources, at) = (subjects?, resources?, reader.place(key.at));
    let entities = if fields.lacks("entities") {
        Entities::default()
    } else {
        read_entities(reader, files, &fields, (&subjects, &resources))?
    };
    Some(AuthZen { subjects, actions, resources, trust_context, entities, at })
}

fn read_entities(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
    (subjects, resources): (&[SubjectType], &[ResourceType]),
) -> Option<Entities> {
    let name = reader.field_text(fields, "entities")?;
    let PolicyFile { path, bytes } = files.read_named(reader, &name)?;
    let (entities, problems) = entities::parse(&path, &bytes, subjects, resources);
    problems.into_iter().for_each(|problem| reader.push(problem));
    Some(entities)
}

/// Reads a mapping from the names of types to types. It must not be empty.
fn read_types<T>(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    read: fn(&mut Reader, &Key, &Node) -> Option<T>,
) -> Option<Vec<T>> {
    let node = fields.value(key)?;
    let entries = reader.entries(node, &format!("`{key}`"))?;
    let mut types = Vec::new();
    for (name, node) in entries.iter() {
        if values::is_name(reader, name.at, &name.text, "the name of a type") {
            types.extend(read(reader, name, node));
        }
    }
    if entries.iter().next().is_none() {
        reader.error_help(
            node.at,
            format!("`{key}` is empty"),
            "write a type, or leave `authzen` out",
        );
    }
    Some(types)
}

fn read_subject(reader: &mut Reader, name: &Key, node: &Node) -> Option<SubjectType> {
    let fields =
        reader.filled_fields(node, "a type of subjects", &["issuer", "groups", "roles"])?;
    let issuer = reader.field_text(&fields, "issuer").map(|text| text.shared.clone());
    let groups = read_pointer(reader, &fields, "groups");
    let roles = read_pointer(reader, &fields, "roles");
    Some(SubjectType { name: name.text.clone(), issuer, groups, roles, at: reader.place(name.at) })
}

/// The path of a value in the `properties` of a subject.
fn read_pointer(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<ClaimPath> {
    let text = reader.field_text(fields, key)?;
    values::claim_path(reader, &text, text.text)
}

fn read_actions(reader: &mut Reader, fields: &Fields<'_>) -> Vec<ActionName> {
    let Some(node) = fields.value("actions") else { return Vec::new() };
    let entries = reader.entries(node, "`actions`");
    let mut actions = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let Some(text) = reader.text(node, "a method") else { continue };
        if !method::is_method(text.text) {
            let help = "write one method, such as `view: GET`";
            reader.error_help(text.at, format!("`{}` is not a method", text.text), help);
        } else if values::is_name(reader, key.at, &key.text, "the name of an action") {
            actions.push(ActionName { name: key.text.clone(), method: text.shared.clone() });
        }
    }
    actions
}

fn read_resource(reader: &mut Reader, name: &Key, node: &Node) -> Option<ResourceType> {
    let fields = reader.filled_fields(node, "a type of resources", &["host", "path"])?;
    let help = "write the path of its resources, such as `path: \"/records/{id}\"`";
    reader.required(&fields, "path", help);
    let host = fields.value("host").map(|node| {
        let text = reader.text(node, "`host`")?;
        read_host(reader, &text)
    });
    let text = reader.field_text(&fields, "path");
    let path = text.and_then(|text| read_path(reader, &text))?;
    let host = host.map_or(Some(None), |host| host.map(Some))?;
    Some(ResourceType { name: name.text.clone(), host, path, at: reader.place(name.at) })
}

fn read_host(reader: &mut Reader, text: &Text<'_>) -> Option<Arc<str>> {
    match host::read(reader, text, text.text)? {
        Scope::Exact(host) => Some(host.as_ref().into()),
        Scope::Below(_) | Scope::Labels(_) => {
            let help = "write the host of the application, such as `api.example.com`";
            reader.reject(text.at, "the host of a type of resources is one host", help)
        }
    }
}

/// Either `{id}` alone, or a path in canonical form in which at least one whole segment is `{id}`.
fn read_path(reader: &mut Reader, text: &Text<'_>) -> Option<ResourcePath> {
    let path = text.text;
    if path == ID {
        return Some(ResourcePath(vec![ResourceSegment::Path]));
    }
    let segments: Option<Vec<ResourceSegment>> =
        path.strip_prefix('/').map(|path| path.split('/').map(segment).collect());
    let Some(segments) = segments.filter(|segments| segments.contains(&ResourceSegment::Id)) else {
        let help = "write one such as `/records/{id}`: each resource has a path of its own";
        let message = format!("`{path}` is not a path with a segment `{ID}`");
        return reader.reject(text.at, message, help);
    };
    let literals = segments.iter().filter_map(|segment| match segment {
        ResourceSegment::Literal(text) => Some(text),
        ResourceSegment::Id | ResourceSegment::Path => None,
    });
    let has_braces = literals.clone().any(|text| text.contains(['{', '}']));
    let sample = ResourcePath(segments.clone()).with_id("x")?;
    let is_canonical = canonical::path(b"GET", sample.as_bytes(), &mut Buffers::default())
        .is_ok_and(|paths| paths.is_only() && paths.first() == sample.as_bytes());
    if has_braces || !is_canonical {
        let help = "`{id}` is a whole segment; write other characters as the paths of rules do";
        return reader.reject(text.at, format!("`{path}` is not in canonical form"), help);
    }
    Some(ResourcePath(segments))
}

fn segment(text: &str) -> ResourceSegment {
    if text == ID { ResourceSegment::Id } else { ResourceSegment::Literal(text.into()) }
}
