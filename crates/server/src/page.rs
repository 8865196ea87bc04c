//! Responses with a text, which no cache may keep.

use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

pub(crate) type Page = Response<String>;

pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Page {
    with_type(status, "text/plain; charset=utf-8", body.into())
}

pub(crate) fn not_allowed(body: &str, allow: &'static str) -> Page {
    let mut page = text(StatusCode::METHOD_NOT_ALLOWED, body);
    page.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    page
}

pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Page {
    let mut page = Response::new(body);
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}
