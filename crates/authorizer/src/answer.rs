//! The content of answers: header values, challenges, and the bodies of denials.

use std::borrow::Cow;
use std::fmt::Write;

use identity::Subject;
use policy::model::{ANYONE, AUTHENTICATED, ContentType, DenyResponse, Identity, Piece, SetHeader};
use serde_json::{Number, Value};

use crate::reason::Reason;

/// A header of a response to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The name, in lower case.
    pub name: &'static str,
    /// The value, without control characters.
    pub value: Box<str>,
}

/// The value of a header of `set_headers`, or a text of metadata, rendered for a caller. Only the
/// name of the rule is not filled in yet: it depends on the request.
#[derive(Debug)]
pub(crate) enum Rendered {
    /// The whole value; `None` removes the header.
    Complete(Option<Box<str>>),
    /// The parts of a value that contains the rule's name; `None` stands for the name.
    WithRule(Box<[Option<Box<str>>]>),
}

/// The values of `set_headers` for a caller.
#[derive(Debug)]
pub(crate) struct Values {
    values: Box<[Rendered]>,
    /// Their length in total; `None` if any of them contains the rule's name.
    pub(crate) size: Option<usize>,
}

impl Values {
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// The value of the header at index `at` of `set_headers`; `None` removes the header.
    /// `with_rule` has the values that [`Self::render_rule`] has written.
    pub(crate) fn rendered<'a>(&'a self, with_rule: &'a [String], at: usize) -> Option<&'a str> {
        match self.values.get(at)? {
            Rendered::Complete(value) => value.as_deref(),
            Rendered::WithRule(_) => {
                with_rule.get(at).map(String::as_str).filter(|value| is_sendable(value))
            }
        }
    }

    /// Writes the values that contain the rule's name to `with_rule`, at the indices of their
    /// headers.
    pub(crate) fn render_rule(&self, rule: &str, with_rule: &mut Vec<String>) {
        if self.size.is_some() {
            return;
        }
        if with_rule.len() < self.values.len() {
            with_rule.resize_with(self.values.len(), String::new);
        }
        for (value, text) in self.values.iter().zip(with_rule) {
            if let Rendered::WithRule(parts) = value {
                text.clear();
                text.extend(parts.iter().map(|part| part.as_deref().unwrap_or(rule)));
            }
        }
    }

    /// The bytes that they have allocated on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let values: usize = self.values.iter().map(Rendered::heap_size).sum();
        identity::allocated(size_of_val(&*self.values)) + values
    }
}

impl Rendered {
    /// Its length; `None` if it contains the rule's name.
    fn size(&self) -> Option<usize> {
        match self {
            Self::Complete(value) => Some(value.as_deref().map_or(0, str::len)),
            Self::WithRule(_) => None,
        }
    }

    /// The text for a request that this rule allowed; `None` if it must not be sent.
    pub(crate) fn text<'a>(&'a self, rule: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Self::Complete(value) => value.as_deref().map(Cow::Borrowed),
            Self::WithRule(parts) => {
                let text: String =
                    parts.iter().map(|part| part.as_deref().unwrap_or(rule)).collect();
                is_sendable(&text).then_some(Cow::Owned(text))
            }
        }
    }

    /// The length of the text for a request that this rule allowed.
    pub(crate) fn length(&self, rule: &str) -> usize {
        match self {
            Self::Complete(value) => value.as_deref().map_or(0, str::len),
            Self::WithRule(parts) => {
                parts.iter().map(|part| part.as_deref().unwrap_or(rule).len()).sum()
            }
        }
    }

    /// The bytes that it has allocated on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let (texts, list) = match self {
            Self::Complete(value) => (std::slice::from_ref(value), 0),
            Self::WithRule(parts) => (&**parts, identity::allocated(size_of_val(&**parts))),
        };
        list + texts.iter().flatten().map(|text| identity::allocated(text.len())).sum::<usize>()
    }
}

/// The values that header templates can refer to.
#[derive(Clone, Copy)]
pub(crate) struct TemplateValues<'a> {
    pub(crate) subject: Option<&'a Subject>,
    pub(crate) roles: &'a [&'a str],
    /// The revision of the policy without its keys.
    pub(crate) revision: &'a str,
}

/// Computes the values of a policy's `set_headers` for a caller.
///
/// A user name, group, role or claim is not sent if a header cannot carry it unchanged. A user name
/// or claim that has a control character, or begins or ends with white space, removes its whole
/// header. A group or role for which one of these is true, or that has a comma, is omitted from its
/// list.
/// Characters that are not ASCII pass, in UTF-8 (RFC 9110, 5.5: obs-text).
pub(crate) fn render(headers: &[SetHeader], template: TemplateValues<'_>) -> Values {
    let values: Box<[Rendered]> =
        headers.iter().map(|header| render_value(&header.value.0, template)).collect();
    Values { size: values.iter().map(Rendered::size).sum(), values }
}

/// The text of these pieces; `None` if a placeholder has no value, or if the text must not be sent.
pub(crate) fn render_filled(pieces: &[Piece], template: TemplateValues<'_>) -> Option<Rendered> {
    let is_filled = |piece: &Piece| {
        *piece == Piece::Rule || render_piece(piece, template).is_some_and(|text| !text.is_empty())
    };
    if !pieces.iter().all(is_filled) {
        return None;
    }
    let rendered = render_value(pieces, template);
    (!matches!(rendered, Rendered::Complete(None))).then_some(rendered)
}

fn render_value(pieces: &[Piece], template: TemplateValues<'_>) -> Rendered {
    let Some(texts) =
        pieces.iter().map(|piece| render_piece(piece, template)).collect::<Option<Vec<_>>>()
    else {
        return Rendered::Complete(None);
    };
    if pieces.contains(&Piece::Rule) {
        let parts = pieces.iter().zip(texts);
        let parts = parts.map(|(piece, text)| (*piece != Piece::Rule).then(|| text.into()));
        return Rendered::WithRule(parts.collect());
    }
    let text = texts.concat();
    Rendered::Complete(is_sendable(&text).then(|| text.into()))
}

/// The text of a template piece; `None` if it must not be sent.
fn render_piece(piece: &Piece, template: TemplateValues<'_>) -> Option<String> {
    let text = match piece {
        Piece::Text(text) => return Some(text.to_string()),
        Piece::Rule => String::new(),
        Piece::User => template.subject.map(|subject| subject.user.to_string()).unwrap_or_default(),
        // Reserved roles are left out. A caller has such a role only if the policy defines it. If
        // they were sent, a policy's first rule for `anyone` would change every header.
        Piece::Roles => join(unreserved_roles(template.roles).into_iter()),
        Piece::Groups => join(
            template.subject.iter().flat_map(|subject| subject.groups.iter().map(|group| &**group)),
        ),
        Piece::Actor => {
            let actor = template.subject.and_then(|subject| subject.actor.as_ref());
            actor.map(|actor| actor.user.to_string()).unwrap_or_default()
        }
        Piece::Revision => template.revision.to_owned(),
        Piece::Claim(path) => {
            let claim = template.subject.and_then(|subject| identity::claim(subject, path));
            claim.and_then(claim_text).unwrap_or_default()
        }
    };
    (text.is_empty() || is_sendable(&text)).then_some(text)
}

/// The roles but those whose names are reserved: `anyone` and `authenticated`.
pub(crate) fn unreserved_roles<'r>(roles: &[&'r str]) -> Vec<&'r str> {
    roles.iter().copied().filter(|role| ![ANYONE, AUTHENTICATED].contains(role)).collect()
}

/// Joins names with commas. Omits those that such a list in a header cannot carry.
fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.filter(|name| is_sendable(name) && !name.contains(',')).collect();
    names.join(",")
}

/// The text of a claim, if it is a single value that was not rounded.
pub(crate) fn claim_text(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if is_exact(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether this number is surely not a rounded integer. An integer of more than 64 bits is read as
/// a floating-point number, and such a number cannot hold every integer from 2^53 on. Rounding
/// could make the numbers of two tenants equal.
pub(crate) fn is_exact(number: &Number) -> bool {
    const FIRST_ROUNDED: f64 = 9_007_199_254_740_992.0;
    number.is_u64()
        || number.is_i64()
        || number.as_f64().is_some_and(|number| number.abs() < FIRST_ROUNDED)
}

/// Whether a header carries this text unchanged: control characters could end the line, and white
/// space at either end would be trimmed.
fn is_sendable(text: &str) -> bool {
    !text.is_empty()
        && !text.contains(char::is_control)
        && !text.starts_with(char::is_whitespace)
        && !text.ends_with(char::is_whitespace)
}

/// Maximum bytes of a request's id in a body. A longer id is cut off. The ids that Envoy sends have
/// at most 20 digits, but another client of this server may send a much longer id.
const MAX_ID_BYTES: usize = 256;

/// How a policy answers denied requests: its settings, and the headers of each kind of answer.
#[derive(Debug)]
pub(crate) struct Denials {
    settings: DenyResponse,
    plain: Box<[ResponseHeader]>,
    challenges: Box<[ResponseHeader]>,
    invalid_token: Box<[ResponseHeader]>,
}

impl Denials {
    pub(crate) fn new(settings: &DenyResponse, identity: &Identity) -> Self {
        let content_type =
            ResponseHeader { name: "content-type", value: content_type(settings).into() };
        let plain = Box::new([content_type]);
        let [challenges, invalid_token] = ["", ", error=\"invalid_token\""].map(|bearer_error| {
            plain.iter().cloned().chain(challenges(identity, bearer_error)).collect()
        });
        Self { settings: settings.clone(), plain, challenges, invalid_token }
    }

    /// The headers of an answer. `bearer`: the request has a Bearer token, so the answer names its
    /// error (RFC 6750, 3.1). The answer to a gRPC call omits `content-type`, the first header.
    pub(crate) fn headers(&self, reason: Reason, bearer: bool, grpc: bool) -> &[ResponseHeader] {
        let headers = match (reason.status(), reason.credentials_error()) {
            (401, Some(_)) if bearer => &self.invalid_token,
            (401, _) => &self.challenges,
            (_, _) => &self.plain,
        };
        headers.get(usize::from(grpc)..).unwrap_or_default()
    }

    /// Replaces `body` with the body of an answer. For a gRPC call, this is the message that Envoy
    /// sends as `grpc-message`. Clients show it in one line.
    pub(crate) fn write_body(
        &self,
        reason: Reason,
        rule: Option<&str>,
        (id, is_grpc): (&[u8], bool),
        body: &mut String,
    ) {
        body.clear();
        let content_type = self.settings.content_type;
        if let Some(text) = &self.settings.body
            && (!is_grpc || content_type == ContentType::Text)
        {
            body.push_str(text);
            return;
        }
        let id = String::from_utf8_lossy(id.get(..MAX_ID_BYTES).unwrap_or(id));
        let fields = [
            ("request", Some(&*id).filter(|id| !id.is_empty())),
            ("reason", self.settings.explain.then(|| reason.name())),
            ("rule", rule.filter(|_| self.settings.explain)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let error = error_name(reason);
        if is_grpc {
            return write_message(error, fields, body);
        }
        match content_type {
            ContentType::Json => write_json(error, fields, body),
            ContentType::Text => write_text(error, fields, body),
            ContentType::Html => write_html(error, fields, body),
        }
    }
}

fn content_type(settings: &DenyResponse) -> &'static str {
    match settings.content_type {
        ContentType::Json => "application/json",
        ContentType::Text => "text/plain; charset=utf-8",
        ContentType::Html => "text/html; charset=utf-8",
    }
}

/// The `WWW-Authenticate` challenges of the configured methods (RFC 7617, 2; RFC 6750, 3).
pub(crate) fn challenges(identity: &Identity, bearer_error: &str) -> Vec<ResponseHeader> {
    let realm = identity.basic.as_ref().map_or("rolegate", |basic| &basic.realm);
    let realm = realm.replace('\\', "\\\\").replace('"', "\\\"");
    let basic =
        identity.basic.iter().map(|_| format!("Basic realm=\"{realm}\", charset=\"UTF-8\""));
    let bearer = identity.jwt.first().map(|_| format!("Bearer realm=\"{realm}\"{bearer_error}"));
    // Without any challenge, a 401 is no valid answer (RFC 9110, 15.5.2). No RFC has a scheme for
    // API keys or for certificates, so these two schemes are our own.
    let api_key = identity.api_key_header();
    let api_key = api_key.map(|name| format!("ApiKey realm=\"{realm}\", header=\"{name}\""));
    let certificate = identity.certificates.iter();
    let certificate = certificate.map(|_| format!("ClientCertificate realm=\"{realm}\""));
    let challenges = basic.chain(bearer).chain(api_key).chain(certificate);
    let sendable = challenges.filter(|value| is_sendable(value));
    sendable.map(|value| ResponseHeader { name: "www-authenticate", value: value.into() }).collect()
}

fn error_name(reason: Reason) -> &'static str {
    match reason.status() {
        401 => "unauthorized",
        403 => "forbidden",
        413 => "content_too_large",
        503 => "unavailable",
        _ => "bad_request",
    }
}

fn write_json<'f>(
    error: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    body: &mut String,
) {
    body.extend(["{\"error\":\"", error]);
    for (name, value) in fields {
        let name = if name == "request" { "request_id" } else { name };
        body.extend(["\",\"", name, "\":\""]);
        value.chars().for_each(|character| push_json(character, body));
    }
    body.push_str("\"}");
}

fn write_message<'f>(
    error: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    message: &mut String,
) {
    message.push_str(error);
    for (name, value) in fields {
        message.extend(["; ", name, ": "]);
        message.extend(value.chars().map(without_control));
    }
}

fn write_text<'f>(
    error: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    body: &mut String,
) {
    body.extend([error, "\n"]);
    for (name, value) in fields {
        body.extend([name, ": "]);
        body.extend(value.chars().map(without_control));
        body.push('\n');
    }
}

fn write_html<'f>(
    error: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    body: &mut String,
) {
    body.extend(["<!doctype html><title>", error, "</title><h1>", error, "</h1>"]);
    for (name, value) in fields {
        body.extend(["<p>", name, ": <code>"]);
        value.chars().for_each(|character| push_html(character, body));
        body.push_str("</code></p>");
    }
}

/// Writes a character of a JSON string. Escapes more than RFC 8259, 7 requires: DEL, C1 controls,
/// U+2028 and U+2029.
fn push_json(character: char, body: &mut String) {
    match character {
        '"' | '\\' => body.extend(['\\', character]),
        '\u{2028}' | '\u{2029}' | '\0'..' ' | '\u{7F}'..='\u{9F}' => {
            // Writing to a string never fails.
            let _ = write!(body, "\\u{:04x}", u32::from(character));
        }
        _ => body.push(character),
    }
}

/// The character; for a control character, U+FFFD.
fn without_control(character: char) -> char {
    if character.is_control() { '\u{FFFD}' } else { character }
}

fn push_html(character: char, body: &mut String) {
    match character {
        '&' => body.push_str("&amp;"),
        '<' => body.push_str("&lt;"),
        '>' => body.push_str("&gt;"),
        '"' => body.push_str("&quot;"),
        '\'' => body.push_str("&#39;"),
        _ => body.push(without_control(character)),
    }
}
