//! Text with placeholders: `{user}`, `{claims./tenant/id}`.

use crate::model::{Piece, Template};
use crate::parse::values;
use document::{Reader, Text, Warning, closest};

const NAMES: [(&str, Piece); 5] = [
    ("user", Piece::User),
    ("roles", Piece::Roles),
    ("groups", Piece::Groups),
    ("rule", Piece::Rule),
    ("revision", Piece::Revision),
];

/// Reads a template. `{{` and `}}` are literal braces.
pub(crate) fn read(reader: &mut Reader, text: &Text<'_>) -> Option<Template> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut failed = false;
    let mut rest = text.text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at_checked(at)?;
        literal.push_str(before);
        if let Some((brace, after)) = doubled(from) {
            warn_of_literal(reader, text, from);
            literal.push(brace);
            rest = after;
            continue;
        }
        let name = from.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, after)) = name.filter(|(name, _)| !name.contains('{')) else {
            let help = "write `{{` or `}}` for the character itself";
            reader.error_help(text.locate(from), "a single brace", help);
            return None;
        };
        match placeholder(reader, text, from, name) {
            Some(piece) => {
                if literal.ends_with('$') {
                    let message = "`$` before a placeholder is literal text";
                    let help = format!("did you mean `{{{name}}}`?");
                    reader.warning_help(
                        text.locate(before),
                        Warning::LikePlaceholder,
                        message,
                        help,
                    );
                }
                push_text(&mut pieces, &mut literal);
                pieces.push(piece);
            }
            None => failed = true,
        }
        rest = after;
    }
    literal.push_str(rest);
    push_text(&mut pieces, &mut literal);
    (!failed).then_some(Template(pieces))
}

/// The brace that is doubled at the start of this text, and the rest.
fn doubled(text: &str) -> Option<(char, &str)> {
    let open = text.strip_prefix("{{").map(|after| ('{', after));
    open.or_else(|| text.strip_prefix("}}").map(|after| ('}', after)))
}

/// Warns of `{{user}}`, which is the text `{user}`.
fn warn_of_literal(reader: &mut Reader, text: &Text<'_>, from: &str) {
    let inside = from.strip_prefix("{{").and_then(|from| from.split_once("}}"));
    if let Some((name, _)) = inside
        && (NAMES.iter().any(|(known, _)| *known == name.trim()) || name.starts_with("claims."))
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
    if let Some((_, piece)) = NAMES.into_iter().find(|(known, _)| *known == name) {
        return Some(piece);
    }
    let help = match closest(name, NAMES.iter().map(|(known, _)| *known)) {
        Some(close) => format!("did you mean `{{{close}}}`?"),
        None => "there are `{user}`, `{roles}`, `{groups}`, `{rule}`, `{revision}` and \
                 `{claims./json/pointer}`; `{{` is the brace itself"
            .to_owned(),
    };
    reader.error_help(text.locate(from), format!("unknown placeholder `{{{name}}}`"), help);
    None
}
