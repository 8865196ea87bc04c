//! Text with placeholders: `{user}`, `{claims./tenant/id}`.

use crate::model::{Piece, Template};
use crate::parse::values;
use document::{Node, Reader, Text, Warning, closest};

const NAMES: [(&str, Piece); 6] = [
    ("user", Piece::User),
    ("roles", Piece::Roles),
    ("groups", Piece::Groups),
    ("actor", Piece::Actor),
    ("rule", Piece::Rule),
    ("revision", Piece::Revision),
];

/// The maximum length of a text in bytes, before placeholders are filled in.
const MAX_LENGTH: usize = 8192;

/// Reads a text with placeholders. Problems call it `what`.
pub(crate) fn read_value(reader: &mut Reader, node: &Node, what: &str) -> Option<Template> {
    let text = reader.text(node, what)?;
    if text.text.len() > MAX_LENGTH {
        reader.error(text.at, format!("{what} has more than {MAX_LENGTH} bytes"));
        return None;
    }
    if text.text.chars().any(char::is_control) {
        reader.error(text.at, format!("{what} has a control character in it"));
        return None;
    }
    read(reader, &text)
}

/// Reads a template. `{{` and `}}` are literal braces.
fn read(reader: &mut Reader, text: &Text<'_>) -> Option<Template> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut failed = false;
    let mut remainder = text.text;
    while let Some(at) = remainder.find(['{', '}']) {
        let (before, from) = remainder.split_at_checked(at)?;
        literal.push_str(before);
        if let Some((brace, after)) = doubled(from) {
            warn_of_literal(reader, text, from);
            literal.push(brace);
            remainder = after;
            continue;
        }
        let name = from.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, after)) = name.filter(|(name, _)| !name.contains('{')) else {
            let help = "write `{{` or `}}` for the character itself";
            return reader.reject(text.locate(from), "a single brace", help);
        };
        match placeholder(reader, text, from, name) {
            Some(piece) => {
                if let Some(start) = before.strip_suffix('$') {
                    let message = "`$` before a placeholder is literal text";
                    let help = format!("did you mean `{{{name}}}`?");
                    let at = text.locate(before.get(start.len()..).unwrap_or(before));
                    reader.warning_help(at, Warning::LikePlaceholder, message, help);
                }
                push_text(&mut pieces, &mut literal);
                pieces.push(piece);
            }
            None => failed = true,
        }
        remainder = after;
    }
    literal.push_str(remainder);
    push_text(&mut pieces, &mut literal);
    (!failed).then_some(Template(pieces))
}

/// If the text starts with a doubled brace: the brace, and the text after it.
fn doubled(text: &str) -> Option<(char, &str)> {
    [("{{", '{'), ("}}", '}')]
        .into_iter()
        .find_map(|(doubled, brace)| Some((brace, text.strip_prefix(doubled)?)))
}

/// Warns of `{{user}}`, which is the text `{user}`.
fn warn_of_literal(reader: &mut Reader, text: &Text<'_>, from: &str) {
    let inside = from.strip_prefix("{{").and_then(|from| from.split_once("}}"));
    if let Some((name, _)) = inside
        && (NAMES.iter().any(|(placeholder, _)| *placeholder == name.trim())
            || name.starts_with("claims."))
    {
        let message = format!("`{{{{{name}}}}}` is the text `{{{name}}}`, not a placeholder");
        let help = format!("did you mean `{{{}}}`?", name.trim());
        reader.warning_help(text.locate(from), Warning::LikePlaceholder, message, help);
    }
}

fn push_text(pieces: &mut Vec<Piece>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(Piece::Text(std::mem::take(literal).into_boxed_str()));
    }
}

fn placeholder(reader: &mut Reader, text: &Text<'_>, from: &str, name: &str) -> Option<Piece> {
    if let Some(path) = name.strip_prefix("claims.") {
        return values::claim_path(reader, text, path).map(Piece::Claim);
    }
    if let Some((_, piece)) = NAMES.into_iter().find(|(placeholder, _)| *placeholder == name) {
        return Some(piece);
    }
    let help = match closest(name, NAMES.iter().map(|(placeholder, _)| *placeholder)) {
        Some(close) => format!("did you mean `{{{close}}}`?"),
        None => "there are `{user}`, `{roles}`, `{groups}`, `{actor}`, `{rule}`, `{revision}` \
                 and `{claims./json/pointer}`; `{{` is the brace itself"
            .to_owned(),
    };
    reader.reject(text.locate(from), format!("unknown placeholder `{{{name}}}`"), help)
}
