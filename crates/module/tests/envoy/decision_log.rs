//! The decision log that the library writes: what is left out of it, and its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use testbed::Stack;
use testbed::client::Version;
use testbed::policies::Example;

use super::admin_pages::wait_for_metric;
use super::{ALICE, authorization, start, with};

/// Sends an allowed request, a denied one and an invalid one, so many times.
async fn send(stack: &Stack, times: usize) {
    for _ in 0..times {
        for (path, status) in
            [("/people", 200), ("/people/zoe7301", 403), ("/people%2Fzoe7301", 400)]
        {
            // Envoy closes the connection with a 400.
            let mut connection = stack.connect(Version::Http1).await.unwrap();
            let answer = connection
                .send("GET", path, "localhost", &authorization(ALICE), b"")
                .await
                .unwrap();
            assert_eq!(answer.status, status, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_masked_or_sampled_out_is_in_no_file_and_files_are_renamed_at_their_size() {
    let people = Example::named("people").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let admin: PathBuf = folder.path().join("admin");
    let settings = [
        &*format!("admin: unix:{}", admin.display()).leak(),
        "hash-timeout: 15s",
        "decision-log-sample: [allowed=0, invalid_path=1]",
        "decision-log-mask-path: /people/{id}",
        "decision-log-mask-users: drop",
        "decision-log-max-size: 2KiB",
        "decision-log-keep: 3",
    ];
    let stack = start(&people.file, &with(&settings)).await;
    let counted =
        |result: &str| format!("rolegate_decision_log_lines_total{{result=\"{result}\"}}");
    let file = |suffix: &str| stack.folder().join(format!("decisions{suffix}"));
    // Lines are written in batches, and a batch is not divided: so in several.
    for round in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] {
        send(&stack, 10).await;
        wait_for_metric(&admin, &counted("written"), round * 20.0).await;
    }
    wait_for_metric(&admin, &counted("sampled_out"), 60.0).await;
    assert!(!file(".4").exists());
    let mut paths = BTreeMap::<String, usize>::new();
    for suffix in ["", ".1", ".2", ".3"] {
        let text = fs::read_to_string(file(suffix)).unwrap();
        assert!(!text.contains("alice") && !text.contains("zoe7301"), "{text}");
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&line["decision"], &line["user"]),
                (&"denied".into(), &Value::Null),
                "{line}"
            );
            *paths.entry(line["path"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["*", "/people/*"]);
    // As logrotate does.
    fs::rename(file(""), stack.folder().join("moved")).unwrap();
    send(&stack, 1).await;
    wait_for_metric(&admin, &counted("written"), 122.0).await;
    assert_eq!(fs::read_to_string(file("")).unwrap().lines().count(), 2);
}
