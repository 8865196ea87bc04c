//! A part of the results of a search, and the token with which the next part is asked for (8.2).

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::message::{MAX_EVALUATIONS, Malformed, Sought};

/// The results that are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Their maximum number.
    pub(crate) limit: usize,
    /// The results come after this name in order; empty at the beginning. It is a name, not a
    /// number, so that it is still right after a reload has added other names.
    pub(crate) after: String,
    /// The hash of the search, so that a token does not continue another search.
    hash: u64,
}

impl Page {
    /// # Errors
    /// If `page` has other types, or a token of another search or limit.
    pub(crate) fn new(
        sought: Sought,
        search: &Map<String, Value>,
        page: &Map<String, Value>,
    ) -> Result<Self, Malformed> {
        let hash = hash(sought, search);
        let limit = match page.get("limit") {
            None | Some(Value::Null) => None,
            Some(limit) => Some(limit.as_u64().ok_or(Malformed::BadLimit)?),
        };
        let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limit = limit.map(|limit| limit.min(MAX_EVALUATIONS));
        match page.get("token") {
            None | Some(Value::Null) => {
                let limit = limit.unwrap_or(MAX_EVALUATIONS);
                Ok(Self { limit, after: String::new(), hash })
            }
            Some(Value::String(token)) => Self::from_token(token)
                .filter(|earlier| earlier.hash == hash)
                .filter(|earlier| limit.is_none_or(|limit| limit == earlier.limit))
                .ok_or(Malformed::BadToken),
            Some(_) => Err(Malformed::BadToken),
        }
    }

    /// The token of the results after `last`.
    pub(crate) fn token_after(&self, last: &str) -> String {
        let Self { limit, hash, .. } = self;
        BASE64_URL_SAFE_NO_PAD.encode(format!("{hash:x},{limit},{last}"))
    }

    fn from_token(token: &str) -> Option<Self> {
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let mut parts = text.splitn(3, ',');
        let hash = u64::from_str_radix(parts.next()?, 16).ok()?;
        let limit: usize = parts.next()?.parse().ok()?;
        (limit <= MAX_EVALUATIONS).then_some(Self { limit, after: parts.next()?.to_owned(), hash })
    }
}

/// Another release may hash otherwise: then a token is refused, and the client begins again.
fn hash(sought: Sought, search: &Map<String, Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{sought:?}").hash(&mut hasher);
    Value::Object(search.clone()).to_string().hash(&mut hasher);
    hasher.finish()
}
