//! What a policy has that no proxy can be told over HTTP.

use authorizer::Authorizer;

/// The parts of a policy that do nothing, or deny, over HTTP forward-auth: for a warning each.
#[must_use]
pub fn unsupported(authorizer: &Authorizer) -> Vec<&'static str> {
    let policy = &authorizer.loaded().policy;
    let response = &policy.allow_response;
    let parts = [
        (
            !response.remove_headers.is_empty(),
            "`allow_response.remove_headers`: have the proxy remove these headers",
        ),
        (
            policy.identity.api_key_header().is_some(),
            "`identity.api_keys`: have the proxy remove the header of the keys, or the application \
             sees them",
        ),
        (
            !response.remove_cookies.is_empty(),
            "`allow_response.remove_cookies`: requests with one of these cookies are denied",
        ),
        (!response.metadata.is_empty(), "`allow_response.metadata`: no proxy receives it"),
        (
            policy.identity.certificates.is_some(),
            "`identity.certificates`: no certificate is seen, so its callers are anonymous",
        ),
        (
            policy.search.is_some(),
            "`search`: requests that depend on their body or need another path are denied",
        ),
    ];
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect()
}
