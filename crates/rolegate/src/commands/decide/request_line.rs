//! A line with a request. It has the members of a request in `cases.yaml`.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use identity::UnixTime;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::MAX_LINE;

/// Why a line is not decided. Never shows a value: the line may have a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidRequest(pub(super) String);

/// A text, which is copied only if it has escapes.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A request.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestLine<'a> {
    #[serde(borrow, default = "get")]
    pub(super) method: Text<'a>,
    #[serde(borrow)]
    pub(super) path: Text<'a>,
    #[serde(borrow, default = "localhost")]
    pub(super) host: Text<'a>,
    #[serde(borrow, default)]
    pub(super) headers: HeaderLines<'a>,
    #[serde(default, deserialize_with = "given")]
    pub(super) client: Option<IpAddr>,
    #[serde(default, deserialize_with = "given")]
    pub(super) certificate: Option<Vec<String>>,
    #[serde(borrow, default)]
    pub(super) body: Text<'a>,
    #[serde(borrow, default, deserialize_with = "given")]
    time: Option<Text<'a>>,
    // The caller, or its credentials.
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) basic: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) bearer: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) api_key: Option<Text<'a>>,
    /// As text, because it identifies the caller: see [`Callers`](super::Callers).
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) claims: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) user: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) issuer: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) groups: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub(super) roles: Option<&'a RawValue>,
}

/// Header lines: a text for each name, or a list of texts for several lines.
#[derive(Debug, Default)]
pub(super) struct HeaderLines<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

impl<'a> RequestLine<'a> {
    /// Parses a line.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, InvalidRequest> {
        match line.first() {
            Some(b'{') => {}
            // serde would also take a list: the values of the members, in their order.
            Some(_) => return Err(InvalidRequest("not a JSON object".to_owned())),
            None => return Err(InvalidRequest("the line is empty".to_owned())),
        }
        let request: Self = serde_json::from_slice(line).map_err(|error| json_error(&error))?;
        let callers = [
            ("basic", request.basic.is_some()),
            ("bearer", request.bearer.is_some()),
            ("api_key", request.api_key.is_some()),
            ("claims", request.claims.is_some()),
            ("user", request.user.is_some()),
        ];
        let mut callers = callers.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        if let (Some(first), Some(second)) = (callers.next(), callers.next()) {
            let problem = format!("a request has either `{first}` or `{second}`");
            return Err(InvalidRequest(problem));
        }
        let of_user = [
            ("issuer", request.issuer.is_some()),
            ("groups", request.groups.is_some()),
            ("roles", request.roles.is_some()),
        ];
        match of_user.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if request.user.is_none() => {
                Err(InvalidRequest(format!("only a request with `user` has `{name}`")))
            }
            Some(_) | None => Ok(request),
        }
    }

    /// The time of the request, if the line has it.
    pub(super) fn time(&self) -> Result<Option<UnixTime>, InvalidRequest> {
        let Some(text) = &self.time else { return Ok(None) };
        let problem = "`time` is not a time: write one such as `2026-01-31T08:00:00Z`";
        let time = policy::cases::parse_time(text).ok_or(InvalidRequest(problem.to_owned()))?;
        Ok(Some(time))
    }
}

impl InvalidRequest {
    pub(super) fn too_long() -> Self {
        Self(format!("the line is longer than {} MiB", MAX_LINE >> 20))
    }
}

/// An error without the value that causes it.
pub(super) fn json_error(error: &serde_json::Error) -> InvalidRequest {
    let text = error.to_string();
    let text = text.replace(" at line 1 column ", " at column ");
    // For example `invalid type: string "…", expected a sequence`. Only the value can have another
    // `, expected ` in it, so the last one is serde's.
    let expected = text.starts_with("invalid ").then(|| text.rsplit_once(", expected ")).flatten();
    InvalidRequest(match expected {
        Some((_, expected)) => format!("expected {expected}"),
        None => text,
    })
}

fn get() -> Text<'static> {
    Text(Cow::Borrowed("GET"))
}

fn localhost() -> Text<'static> {
    Text(Cow::Borrowed("localhost"))
}

/// A value that is not `null`: with `"user": null` it would not be clear whether nobody is the
/// caller, or whether the name got lost on the way.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Option<T>, D::Error> {
    T::deserialize(source).map(Some)
}

impl<'de: 'a, 'a> Deserialize<'de> for HeaderLines<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(HeadersVisitor(Vec::new())).map(Self)
    }
}

struct HeadersVisitor<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Visitor<'de> for HeadersVisitor<'a> {
    type Value = Vec<(Text<'a>, Text<'a>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers: an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(name) = map.next_key()? {
            map.next_value_seed(ValueVisitor { name, lines: &mut self.0 })?;
        }
        Ok(self.0)
    }
}

/// Adds the lines of a header.
struct ValueVisitor<'l, 'a> {
    name: Text<'a>,
    lines: &'l mut Vec<(Text<'a>, Text<'a>)>,
}

impl<'de: 'a, 'a> DeserializeSeed<'de> for ValueVisitor<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de: 'a, 'a> Visitor<'de> for ValueVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a header: a text, or a list of texts")
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.lines.push((self.name, Text(Cow::Borrowed(value))));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.lines.push((self.name, Text(Cow::Owned(value.to_owned()))));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while let Some(value) = values.next_element()? {
            self.lines.push((self.name.clone(), value));
        }
        Ok(())
    }
}
