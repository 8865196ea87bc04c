//! The cases of every example under `policies/`, sent through a real Envoy in each form in which it
//! can forward a request.

use testbed::client::Version;
use testbed::golden::Caller;
use testbed::policies::{self, Example};
use testbed::tokens::Signer;

use super::{each_form, start};

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_through_envoy() {
    hold(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_hold_through_envoy_with_paths_that_it_normalised() {
    hold(true).await;
}

/// Every case of every example, over HTTP/1.1 and over HTTP/2.
async fn hold(normalize_path: bool) {
    let signer = Signer::default();
    let mut wrong = Vec::new();
    let mut ran = 0;
    for mut options in each_form() {
        options.envoy.normalize_path = normalize_path;
        for name in policies::names().unwrap() {
            let folder = tempfile::tempdir().unwrap();
            let example = Example::signed_by(&name, folder.path(), &signer).unwrap();
            // The cases of a search cluster have bodies that count.
            let is_cluster = example.loaded.policy.search.is_some();
            options.envoy.with_request_body = is_cluster.then_some(1 << 20);
            options.envoy.whole_bodies = is_cluster;
            let stack = start(&example.file, &options).await;
            for version in [Version::Http1, Version::Http2] {
                let identity = &example.loaded.policy.identity;
                let mut caller =
                    Caller::connect(&stack, identity, Some(&signer), version).await.unwrap();
                // A running rolegate has the clock of the machine and the address of the test. The
                // shipped listener has no TLS: `certificates` sends the cases with a certificate.
                for case in example.cases.iter().filter(|case| {
                    let request = &case.request;
                    request.at.is_none()
                        && request.client.is_empty()
                        && request.certificate.is_none()
                }) {
                    let outcome = caller.run(case).await.unwrap();
                    ran += 1;
                    let as_given = normalize_path || outcome.expected == case.expect.status;
                    assert!(
                        as_given,
                        "{name}, {version:?}, `{}`: its path was changed on the way",
                        case.name
                    );
                    for what in outcome.wrong {
                        wrong.push(format!("{name}, {version:?}, `{}`: {what}", case.name));
                    }
                }
            }
        }
    }
    assert!(ran > 200, "only {ran} cases were found");
    assert!(wrong.is_empty(), "{} of {ran} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
