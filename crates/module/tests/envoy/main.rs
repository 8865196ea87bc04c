//! The library in a real Envoy: `.tools/`, or the one that `ENVOY=` names.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]
#![expect(clippy::disallowed_methods, reason = "`REQUESTS` says how many requests are compared")]

mod cases;
mod configuration;
mod differential;
mod pauses;
mod shipped;
mod updates;

use std::path::{Path, PathBuf};

use testbed::{Options, Stack};

/// The folder of the library that was built with this test.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("librolegate.so").is_file(), "{} has no librolegate.so", folder.display());
    folder
}

/// An Envoy with the library and this policy, in front of the application. `settings` are lines of its configuration.
async fn start(policy: &Path, settings: &[&'static str]) -> Stack {
    let options = Options { module: Some(library()), arguments: settings.to_vec(), ..Options::default() };
    Stack::start(Path::new(""), policy, &options).await.unwrap()
}
