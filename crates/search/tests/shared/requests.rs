//! What several tests of requests share.

use std::time::Duration;

use search::{Request, RequestBody};

/// A request at the same time as every other: noon of 1 January 2026.
pub(crate) fn request<'a>(method: &'a str, target: &'a str, body: &'a str) -> Request<'a> {
    Request {
        method,
        target,
        content_type: Some("application/json"),
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(body.as_bytes()),
        now: Request::time(Duration::from_secs(1_767_268_800)),
    }
}
