//! `identity.token_from`: where a token may be in a request.

use std::sync::Arc;

use document::Place;

use super::Identity;

/// The header that has a token behind the scheme `Bearer` (RFC 6750, 2.1).
pub const AUTHORIZATION: &str = "authorization";

/// The header with cookies (RFC 6265, 5.4).
pub const COOKIE: &str = "cookie";

/// A place that may have a token.
#[derive(Clone, Debug)]
pub struct TokenPlace {
    /// The header or the cookie.
    pub field: TokenField,
    /// Where it is configured.
    pub at: Place,
}

/// A header or a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenField {
    /// A header: a valid field name (RFC 9110, 5.1) in lower case. Its value is the token alone,
    /// unless it is [`AUTHORIZATION`].
    Header(Arc<str>),
    /// A cookie (RFC 6265, 4.1.1). Its name is case-sensitive.
    Cookie(Arc<str>),
}

impl Identity {
    /// Whether a token may be in the `Authorization` header.
    #[must_use]
    pub fn reads_bearer(&self) -> bool {
        self.token_from.is_empty() || self.token_headers().any(|name| name == AUTHORIZATION)
    }

    /// The headers that the policy names in `token_from`. Empty if the policy has no `token_from`,
    /// although `Authorization` may have a token then.
    pub fn token_headers(&self) -> impl Iterator<Item = &str> {
        self.token_from.iter().filter_map(|place| match &place.field {
            TokenField::Header(name) => Some(&**name),
            TokenField::Cookie(_) => None,
        })
    }

    /// The cookies that may have a token.
    pub fn token_cookies(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.token_from.iter().filter_map(|place| match &place.field {
            TokenField::Cookie(name) => Some((&**name, &place.at)),
            TokenField::Header(_) => None,
        })
    }

    /// The name and the value of a header with this token, at the first place that may have a
    /// token. Tools send it in their requests.
    #[must_use]
    pub fn token_line(&self, token: &str) -> (String, String) {
        match self.token_from.first().map(|place| &place.field) {
            Some(TokenField::Header(name)) if **name != *AUTHORIZATION => {
                (name.to_string(), token.to_owned())
            }
            Some(TokenField::Cookie(name)) => (COOKIE.to_owned(), format!("{name}={token}")),
            Some(TokenField::Header(_)) | None => {
                (AUTHORIZATION.to_owned(), format!("Bearer {token}"))
            }
        }
    }
}
