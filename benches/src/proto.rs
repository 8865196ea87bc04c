//! The messages of `proto/` as prost types: the alternative to our hand-written wire format.

use std::collections::HashMap;

/// `envoy.service.auth.v3.CheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CheckRequest {
    /// `attributes`.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

/// `envoy.service.auth.v3.AttributeContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeContext {
    /// `source`.
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    /// `destination`.
    #[prost(message, optional, tag = "2")]
    pub destination: Option<Peer>,
    /// `request`.
    #[prost(message, optional, tag = "4")]
    pub request: Option<Request>,
    /// `context_extensions`.
    #[prost(map = "string, string", tag = "10")]
    pub context_extensions: HashMap<String, String>,
}

/// `AttributeContext.Peer`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Peer {
    /// `principal`.
    #[prost(string, tag = "4")]
    pub principal: String,
}

/// `AttributeContext.Request`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// `http`.
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

/// `AttributeContext.HttpRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpRequest {
    /// `id`.
    #[prost(string, tag = "1")]
    pub id: String,
    /// `method`.
    #[prost(string, tag = "2")]
    pub method: String,
    /// `headers`.
    #[prost(map = "string, string", tag = "3")]
    pub headers: HashMap<String, String>,
    /// `path`.
    #[prost(string, tag = "4")]
    pub path: String,
    /// `host`.
    #[prost(string, tag = "5")]
    pub host: String,
    /// `scheme`.
    #[prost(string, tag = "6")]
    pub scheme: String,
    /// `protocol`.
    #[prost(string, tag = "10")]
    pub protocol: String,
    /// `body`.
    #[prost(string, tag = "11")]
    pub body: String,
    /// `raw_body`.
    #[prost(bytes = "vec", tag = "12")]
    pub raw_body: Vec<u8>,
    /// `header_map`.
    #[prost(message, optional, tag = "13")]
    pub header_map: Option<HeaderMap>,
}

/// `envoy.config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderMap {
    /// `headers`.
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValue {
    /// `key`.
    #[prost(string, tag = "1")]
    pub key: String,
    /// `value`.
    #[prost(string, tag = "2")]
    pub value: String,
    /// `raw_value`.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

/// `envoy.config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValueOption {
    /// `header`.
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    /// `append`, a `google.protobuf.BoolValue`.
    #[prost(message, optional, tag = "2")]
    pub append: Option<bool>,
    /// `append_action`.
    #[prost(int32, tag = "3")]
    pub append_action: i32,
}

/// `envoy.service.auth.v3.CheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CheckResponse {
    /// `status`.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// `denied_response`.
    #[prost(message, optional, tag = "2")]
    pub denied_response: Option<DeniedHttpResponse>,
    /// `ok_response`.
    #[prost(message, optional, tag = "3")]
    pub ok_response: Option<OkHttpResponse>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// `code`.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// `message`.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `envoy.service.auth.v3.OkHttpResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OkHttpResponse {
    /// `headers`.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// `headers_to_remove`.
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
}

/// `envoy.service.auth.v3.DeniedHttpResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeniedHttpResponse {
    /// `status`.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// `headers`.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// `body`.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// `envoy.type.v3.HttpStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpStatus {
    /// `code`.
    #[prost(int32, tag = "1")]
    pub code: i32,
}
