//! Envoy with the sidecar. `cases`, `grpc`, `identity_header`, `rate_limits`, `requests` and `under_load` are
//! also compiled into the tests of the module, for an Envoy that authorizes by itself: they use
//! [`each_form`], [`start`] and the constants below, of which each has its own.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod cases;
mod certificates;
mod faults;
mod grpc;
mod identity_header;
#[expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "what is indexed is listed beside it; a difference is a failed test"
)]
mod import;
mod lint;
mod minimal;
mod rate_limits;
mod requests;
mod search;
mod search_secured;
mod tracing;
mod under_load;

use std::path::Path;
use std::time::Duration;

use testbed::envoy::Settings;
use testbed::policies::Example;
use testbed::{Options, Stack, golden};

const ROLEGATE: &str = env!("CARGO_BIN_EXE_rolegate");
const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";
/// How long anything may take on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

/// Settings with one thread that hashes passwords, and with this many places in its queue.
const QUEUE_OF_16: &[&str] = &["--hash-threads", "1", "--hash-queue", "16"];
const QUEUE_OF_2000: &[&str] = &["--hash-threads", "1", "--hash-queue", "2000"];

/// Each form in which Envoy tells the sidecar of a request.
fn each_form() -> Vec<Options> {
    let form = |encode_raw_headers| Settings {
        encode_raw_headers,
        timeout: PATIENT,
        ..Settings::default()
    };
    let arguments = golden::ARGUMENTS.to_vec();
    vec![
        Options { envoy: form(true), arguments: arguments.clone(), ..Options::default() },
        Options { envoy: form(false), arguments, tcp: true, ..Options::default() },
    ]
}

/// Starts all with this policy.
async fn start(policy: &Path, options: &Options) -> Stack {
    Stack::start(Path::new(ROLEGATE), policy, options).await.unwrap()
}

/// The example `people` with these settings of Envoy.
async fn people(envoy: Settings, instances: usize) -> Stack {
    let options = Options { envoy, instances, ..Options::default() };
    start(&Example::named("people").unwrap().file, &options).await
}

fn authorization(value: &str) -> [(String, String); 1] {
    [("authorization".to_owned(), value.to_owned())]
}
