//! The library in real Envoys: those in `.tools/`, or that `ENVOY=` and `ENVOY_OLDER=` name.
//! `cases`, `rate_limits`, `requests` and `under_load` are the tests of the sidecar. Of its `faults`, which are
//! those of another process, the counterparts here are a hash that takes too long (`pauses`), a
//! panic (`abi/tests.rs`), and a configuration that Envoy rejects (`configuration`).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "`REQUESTS` says how many requests are compared, `SEED` which"
)]

mod admin_pages;
mod bodies;
mod bulk;
#[expect(dead_code, reason = "these tests need less of it")]
#[path = "../../../rolegate/tests/rolegate/bundle_server.rs"]
mod bundle_server;
mod bundles;
#[path = "../../../rolegate/tests/envoy/cases.rs"]
mod cases;
mod configuration;
mod console;
mod decision_log;
mod differential;
#[path = "../../../rolegate/tests/envoy/grpc.rs"]
mod grpc;
#[path = "../../../rolegate/tests/envoy/identity_header.rs"]
mod identity_header;
mod listeners;
mod otlp;
mod pauses;
#[path = "../../../rolegate/tests/envoy/rate_limits.rs"]
mod rate_limits;
#[path = "../../../rolegate/tests/envoy/requests.rs"]
mod requests;
#[path = "../../../rolegate/tests/envoy/search.rs"]
mod search;
mod shipped;
#[path = "../../../rolegate/tests/envoy/under_load.rs"]
mod under_load;
mod updates;

use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::{Options, Stack};

const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";
/// How long anything may take on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

/// Settings with one thread that hashes passwords, and with this many places in its queue.
const QUEUE_OF_16: &[&str] = &["hash-threads: 1", "hash-queue: 16"];
const QUEUE_OF_2000: &[&str] = &["hash-threads: 1", "hash-queue: 2000"];

/// The folder of the library that was built with this test.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("librolegate.so").is_file(), "{} has no librolegate.so", folder.display());
    folder
}

/// Each Envoy: the one that the other tests use, and an older one.
fn each_form() -> Vec<Options> {
    let older = testbed::envoy::older_program().unwrap();
    let patient = with(&["hash-timeout: 15s"]);
    vec![patient.clone(), Options { program: Some(older), ..patient }]
}

/// The library with these lines of its configuration.
fn with(settings: &[&'static str]) -> Options {
    Options { module: Some(library()), arguments: settings.to_vec(), ..Options::default() }
}

/// An Envoy with the library and this policy, in front of the application.
async fn start(policy: &Path, options: &Options) -> Stack {
    Stack::start(Path::new(""), policy, options).await.unwrap()
}

fn authorization(value: &str) -> [(String, String); 1] {
    [("authorization".to_owned(), value.to_owned())]
}
