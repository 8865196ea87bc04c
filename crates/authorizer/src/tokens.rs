//! Tokens in other places than the `Authorization` header: `token_from` of the policy.

use policy::model::{AUTHORIZATION, Identity};

use crate::cookies::{self, is_cookie};
use crate::reason::Reason;

/// Adds the token of a header line. Its value is not verified, and may be empty.
///
/// # Errors
/// If the request has a second token: an application might read the other token.
pub(crate) fn find<'a>(
    identity: &Identity,
    (header, value): (&[u8], &'a [u8]),
    token: &mut Option<&'a [u8]>,
) -> Result<(), Reason> {
    for name in identity.token_headers().filter(|name| *name != AUTHORIZATION) {
        if header.eq_ignore_ascii_case(name.as_bytes()) {
            // Envoy joins two lines with a comma.
            if value.contains(&b',') {
                return Err(Reason::SeveralCredentials);
            }
            add(value, token)?;
        }
    }
    if is_cookie(header) {
        for (name, _) in identity.token_cookies() {
            cookies::values(value, name).try_for_each(|value| add(value, token))?;
        }
    }
    Ok(())
}

fn add<'a>(value: &'a [u8], token: &mut Option<&'a [u8]>) -> Result<(), Reason> {
    if token.replace(value).is_some() { Err(Reason::SeveralCredentials) } else { Ok(()) }
}
