//! A tower layer that authorizes requests by a policy of rolegate, and a small service behind it.

mod layer;

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use rolegate_authorizer::Authorizer;
use tower_layer::Layer as _;

pub use layer::{Authorize, AuthorizeLayer};

/// The service, behind the layer. The layer is around the whole router: with `Router::layer`, a
/// route that somebody adds below would not be authorized.
#[must_use]
pub fn service(authorizer: Authorizer) -> Authorize<Router> {
    let router = Router::new()
        .route("/people", get(|| async { "[]\n" }).post(|| async { "created\n" }))
        .route("/whoami", get(who));
    AuthorizeLayer::new(Arc::new(authorizer)).layer(router)
}

/// The caller, as the policy says: the layer has replaced what the client sent.
async fn who(headers: HeaderMap) -> String {
    let user = headers.get("x-user").and_then(|user| user.to_str().ok());
    format!("{}\n", user.unwrap_or("nobody"))
}
