//! How the values of settings are read from JSON that Envoy has made from YAML.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use runtime::settings::{PolicySource, Share};
use runtime::units::{self, UnitError};
use serde::{Deserialize, Deserializer, de};
use server::AdminAddress;

use super::{Log, Users};

/// A string such as `5s`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    quantity(deserializer, "a duration is a string such as `500ms`, or 0", units::duration)
}

/// The same, but not zero.
pub(super) fn positive_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = duration(deserializer)?;
    if duration.is_zero() {
        Err(de::Error::custom("with 0, every password would be denied"))
    } else {
        Ok(duration)
    }
}

pub(super) fn positive_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u16::deserialize(deserializer)? {
        0 => Err(de::Error::custom(format!("`0` is {}", UnitError::PositiveCount))),
        count => Ok(count),
    }
}

/// A string such as `10MiB`, or a number of bytes.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    quantity(deserializer, "a size is a number of bytes, or a string such as `10MiB`", units::size)
}

/// A text with a unit. In YAML, which Envoy turns into JSON, a number without one is no text.
pub(super) fn quantity<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    expected: &'static str,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Text(String),
        Number(serde_json::Number),
    }
    let text = match Value::deserialize(deserializer) {
        Ok(Value::Text(text)) => text,
        Ok(Value::Number(number)) => number.to_string(),
        Err(_) => return Err(de::Error::custom(expected)),
    };
    read(&text).map_err(|error| de::Error::custom(format!("`{text}` is {error}")))
}

/// In YAML, which Envoy turns into JSON, `off` is `false`.
pub(super) fn log<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Log, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, rename_all = "kebab-case")]
    enum Value {
        Which(Log),
        Off(bool),
    }
    match Value::deserialize(deserializer) {
        Ok(Value::Which(which)) => Ok(which),
        Ok(Value::Off(false)) => Ok(Log::Off),
        Ok(Value::Off(true)) | Err(_) => Err(de::Error::custom("not one of `off`, `denied` and `all`")),
    }
}

/// Also `false`, as above.
pub(super) fn users<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Users, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Which(Users),
        Off(bool),
    }
    match Value::deserialize(deserializer) {
        Ok(Value::Which(which)) => Ok(which),
        Ok(Value::Off(false)) => Ok(Users::Off),
        Ok(Value::Off(true)) | Err(_) => Err(de::Error::custom("not one of `off`, `hash` and `drop`")),
    }
}

/// Also `false`, as above.
pub(super) fn admin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AdminAddress, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Address(String),
        Off(bool),
    }
    match Value::deserialize(deserializer) {
        Ok(Value::Address(text)) => {
            text.parse().map_err(|error| de::Error::custom(format!("`{text}` is {error}")))
        }
        Ok(Value::Off(false)) => Ok(AdminAddress::Off),
        Ok(Value::Off(true)) | Err(_) => Err(de::Error::custom("neither an address nor `off`")),
    }
}

/// Also `false`, as above.
pub(super) fn traces<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Text(String),
        Off(bool),
    }
    match Value::deserialize(deserializer) {
        Ok(Value::Text(text)) if text == "otlp" => Ok(true),
        Ok(Value::Text(text)) if text == "off" => Ok(false),
        Ok(Value::Off(false)) => Ok(false),
        Ok(Value::Text(_) | Value::Off(true)) | Err(_) => {
            Err(de::Error::custom("not one of `off` and `otlp`"))
        }
    }
}

/// A number, or a string with one.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
    quantity(deserializer, "a share is a number from 0 to 1", str::parse::<Share>)
}

/// A string such as `10s`.
pub(super) fn answer_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    quantity(deserializer, "a duration is a string such as `500ms`", units::positive_duration)
}

pub(super) fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PolicySource, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

pub(super) fn optional_source<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PolicySource>, D::Error> {
    source(deserializer).map(Some)
}

pub(super) fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    size(deserializer).map(Some)
}

/// The path of a file, which `null` is not: a setting that was left empty must not mean the default.
pub(super) fn optional_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    optional_text(deserializer).map(|text| text.map(PathBuf::from))
}

/// A text, which neither `null` nor an empty one is.
pub(super) fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match String::deserialize(deserializer) {
        Ok(text) if !text.is_empty() => Ok(Some(text)),
        Ok(_) | Err(_) => Err(de::Error::custom("not a text with something in it")),
    }
}

const AT_LEAST_ONE: &str = "at least one value is expected";

/// One value or a list of values.
pub(super) fn some<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        One(String),
        More(Vec<String>),
    }
    let texts = match Value::deserialize(deserializer) {
        Ok(Value::One(text)) => text.split(',').map(str::to_owned).collect(),
        Ok(Value::More(texts)) => texts,
        Err(_) => return Err(de::Error::custom("neither a text nor a list of texts")),
    };
    if texts.is_empty() {
        return Err(de::Error::custom(AT_LEAST_ONE));
    }
    let value =
        |text: &String| text.parse().map_err(|error| de::Error::custom(format!("`{text}` is {error}")));
    texts.iter().map(value).collect()
}

/// A path or a list of paths.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        One(PathBuf),
        More(Vec<PathBuf>),
    }
    match Value::deserialize(deserializer) {
        Ok(Value::One(path)) => Ok(vec![path]),
        Ok(Value::More(paths)) if paths.is_empty() => Err(de::Error::custom(AT_LEAST_ONE)),
        Ok(Value::More(paths)) => Ok(paths),
        Err(_) => Err(de::Error::custom("neither a file nor a list of files")),
    }
}
