//! An S3 server on the loopback interface, which verifies the signatures of requests (AWS Signature
//! Version 4).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use rustls::{ServerConnection, StreamOwned};

use crate::bundle_server::{Answer, BundleServer, Compute};

/// Who may read objects.
pub(crate) const ACCESS_KEY: &str = "AKIAEXAMPLE";
pub(crate) const SECRET_KEY: &str = "s3cret-access-key";
/// The path of the only bucket.
const BUCKET: &str = "/policies/";

/// The server.
pub(crate) struct S3Server {
    server: BundleServer,
    store: Store,
}

/// The objects of the bucket, by their keys.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl S3Server {
    pub(crate) fn start() -> Self {
        let store = Store::default();
        Self { server: BundleServer::start(store.answers()), store }
    }

    /// A server that speaks TLS.
    pub(crate) fn start_tls(config: rustls::ServerConfig) -> Self {
        let (store, config) = (Store::default(), Arc::new(config));
        let server = BundleServer::start_over("https", store.answers(), move |stream| {
            StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream)
        });
        Self { server, store }
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    pub(crate) fn endpoint(&self) -> String {
        self.server.url().trim_end_matches("/bundle.tar.gz").to_owned()
    }

    /// Its address, as errors name it.
    pub(crate) fn host(&self) -> String {
        self.endpoint().split_once("://").unwrap().1.to_owned()
    }

    /// Stores an object.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.store.0.lock().unwrap().insert(key.to_owned(), bytes.to_vec());
    }

    /// Whether connections are closed without an answer.
    pub(crate) fn away(&self, away: bool) {
        self.server.answer(if away { Answer::Away } else { self.store.answers() });
    }

    /// The number of answers with this status.
    pub(crate) fn answered(&self, status: u16) -> usize {
        self.server.answered(status)
    }
}

impl Store {
    fn answers(&self) -> Answer {
        let store = self.clone();
        Answer::Computed(Compute(Arc::new(move |head| store.answer(head))))
    }

    fn answer(&self, head: &str) -> Answer {
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Err(code) = verify(head, path) {
            return Answer::Error(403, code);
        }
        let Some(key) = path.strip_prefix(BUCKET) else {
            return Answer::Error(404, "NoSuchBucket");
        };
        let object = self.0.lock().unwrap().get(key).cloned();
        object.map_or(Answer::Error(404, "NoSuchKey"), Answer::File)
    }
}

/// Verifies the signature of a `GET` without a query: the code of the error, if it is wrong.
fn verify(head: &str, path: &str) -> Result<(), &'static str> {
    let header = |name: &str| {
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.trim())
    };
    let authorization =
        header("authorization").strip_prefix("AWS4-HMAC-SHA256 ").ok_or("AccessDenied")?;
    let part = |name: &str| {
        let mut parts = authorization.split(',').filter_map(|part| part.trim().split_once('='));
        parts.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
    };
    let (access_key, scope) = part("Credential").split_once('/').unwrap_or_default();
    if access_key != ACCESS_KEY {
        return Err("InvalidAccessKeyId");
    }
    let names = part("SignedHeaders");
    let signed: String =
        names.split(';').map(|name| format!("{name}:{}\n", header(name))).collect();
    let request = format!("GET\n{path}\n\n{signed}\n{names}\n{}", header("x-amz-content-sha256"));
    let hash = hex(digest(&SHA256, request.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", header("x-amz-date"));
    // The key is that of the day, the region and the service.
    let key = scope
        .split('/')
        .fold(format!("AWS4{SECRET_KEY}").into_bytes(), |key, part| sign(&key, part));
    if part("Signature") == hex(&sign(&key, &text)) { Ok(()) } else { Err("SignatureDoesNotMatch") }
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
