//! The cases of every example under `policies/`, sent through a real Envoy in each form in which it can forward a request.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use testbed::client::Version;
use testbed::envoy::Settings;
use testbed::golden::{self, Caller};
use testbed::policies::{self, Example};
use testbed::tokens::Signer;
use testbed::{Options, Stack};

const ROLEGATE: &str = env!("CARGO_BIN_EXE_rolegate");

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_with_raw_headers_over_a_unix_socket() {
    hold(&Options { envoy: shape(true, false), ..Options::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_with_a_map_of_headers_over_tcp() {
    hold(&Options { envoy: shape(false, false), tcp: true, ..Options::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_with_raw_headers_and_paths_that_envoy_normalised() {
    hold(&Options { envoy: shape(true, true), ..Options::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_with_a_map_of_headers_and_paths_that_envoy_normalised() {
    hold(&Options { envoy: shape(false, true), tcp: true, ..Options::default() }).await;
}

fn shape(encode_raw_headers: bool, normalize_path: bool) -> Settings {
    Settings { encode_raw_headers, normalize_path, ..Settings::default() }
}

/// Every case of every example, over HTTP/1.1 and over HTTP/2.
async fn hold(options: &Options) {
    let mut options = options.clone();
    options.arguments.extend(golden::ARGUMENTS);
    let signer = Signer::default();
    let mut wrong = Vec::new();
    let mut ran = 0;
    for name in policies::names().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let example = Example::signed_by(&name, folder.path(), &signer).unwrap();
        let stack = Stack::start(Path::new(ROLEGATE), &example.file, &options).await.unwrap();
        for version in [Version::Http1, Version::Http2] {
            let identity = &example.loaded.policy.identity;
            let mut caller = Caller::connect(&stack, identity, Some(&signer), version).await.unwrap();
            for case in example.cases.iter() {
                let outcome = caller.run(case).await.unwrap();
                ran += 1;
                let as_given = options.envoy.normalize_path || outcome.expected == case.expect.status;
                assert!(as_given, "{name}, {version:?}, `{}`: its path was changed on the way", case.name);
                for what in outcome.wrong {
                    wrong.push(format!("{name}, {version:?}, `{}`: {what}", case.name));
                }
            }
        }
    }
    assert!(ran > 200, "only {ran} cases were found");
    assert!(wrong.is_empty(), "{} of {ran} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
