//! The page of metrics.

use std::sync::Arc;
use std::time::Duration;

use authorizer::Revision;
use runtime::compiled_policy::Issuers;
use runtime::counters::{CacheLookups, ErrorKind, Totals};
use runtime::hashing::HashingTotals;
use runtime::lines::Counts;
use runtime::status::{KeyFacts, Status};
use runtime::{Caches, OtlpCounts};

use super::{AuthorizationStats, MetricsPage, PageSources};

/// A server that has counted something.
struct Counted;

impl AuthorizationStats for Counted {
    fn decisions(&self) -> Totals {
        Totals {
            allowed: 3,
            denied: vec![("not_allowed", 2)],
            errors: vec![(ErrorKind::Malformed, 1)],
            credentials: vec![("basic", "valid", 4), ("bearer", "expired", 5)],
            lookups: CacheLookups { local: 6, shared: 7, missed: 8 },
            check: [500, 1024, 1025, 1_500_000_000].map(Duration::from_nanos).into_iter().collect(),
            evaluation: [200, 300].map(Duration::from_nanos).into_iter().collect(),
            ..Totals::default()
        }
    }

    fn hashing(&self) -> HashingTotals {
        HashingTotals { queued: 4, done: 5, ..HashingTotals::default() }
    }

    fn write_metrics(&self, page: &mut MetricsPage<'_>) {
        page.gauge("its_own", "One that only this server has", 7.0);
    }
}

fn sources() -> Arc<PageSources> {
    let status = Status::default();
    status.set_answering();
    let revision = Revision { policy: "p1".into(), keys: None };
    status.update(|facts| facts.policy.revision = Some(revision));
    status.update(|facts| {
        for issuer in ["https://one.example", "https://two.example"] {
            let url = format!("https://user:secret@id.example/k?key=secret-of-{issuer}");
            let issuers = Issuers(vec![issuer.into()]);
            facts.keys.insert(
                url.as_str().into(),
                KeyFacts { issuers, fetches: 1, ..KeyFacts::default() },
            );
        }
    });
    let (decisions, logs) = (Arc::default(), Some(Arc::<Counts>::default()));
    let (status, checks) = (Arc::new(status), Arc::new(Counted));
    let (caches, otlp) = (Caches::default(), OtlpCounts::default());
    Arc::new(PageSources { status, shadow: None, caches, decisions, otlp, logs, checks })
}

#[test]
fn every_figure_is_on_the_page() {
    let page = sources().render_metrics().unwrap();
    for line in [
        r#"rolegate_checks_total{decision="allowed",reason=""} 3"#,
        r#"rolegate_checks_total{decision="denied",reason="not_allowed"} 2"#,
        r#"rolegate_check_errors_total{kind="malformed"} 1"#,
        r#"rolegate_credentials_total{scheme="basic",result="valid"} 4"#,
        r#"rolegate_credentials_total{scheme="bearer",result="expired"} 5"#,
        r#"rolegate_credential_cache_lookups_total{cache="worker",result="hit"} 6"#,
        r#"rolegate_credential_cache_lookups_total{cache="worker",result="miss"} 15"#,
        r#"rolegate_credential_cache_lookups_total{cache="shared",result="hit"} 7"#,
        r#"rolegate_credential_cache_lookups_total{cache="shared",result="miss"} 8"#,
        r#"rolegate_credential_cache_entries{scheme="bearer"} 0.0"#,
        r#"rolegate_credential_cache_evictions_total{scheme="basic"} 0"#,
        r#"rolegate_check_duration_seconds_bucket{le="0.000001024"} 2"#,
        r#"rolegate_check_duration_seconds_bucket{le="0.000002048"} 3"#,
        r#"rolegate_check_duration_seconds_bucket{le="+Inf"} 4"#,
        "rolegate_check_duration_seconds_sum 1.500002549",
        r#"rolegate_evaluation_duration_seconds_bucket{le="2.56e-7"} 1"#,
        "rolegate_evaluation_duration_seconds_count 2",
        "rolegate_hash_queue_length 4.0",
        "rolegate_hashes_total 5",
        "its_own 7.0",
        "rolegate_ready 1.0",
        r#"rolegate_policy_info{policy="p1",keys=""} 1"#,
        r#"rolegate_policy_reloads_total{result="failed"} 0"#,
        r#"rolegate_keys_fetches_total{issuer="https://one.example",url="https://id.example/k",result="ok"} 1"#,
        r#"rolegate_keys_fetches_total{issuer="https://two.example",url="https://id.example/k",result="ok"} 1"#,
        r#"rolegate_decision_log_lines_total{result="dropped"} 0"#,
        r#"rolegate_log_lines_total{result="written"} 0"#,
        "# EOF",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert!(!page.contains("secret"));
    let resident =
        page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
    assert!(resident.parse::<f64>().unwrap() > 1e5);
}

#[test]
fn histograms_are_json_that_can_be_subtracted() {
    let page: serde_json::Value = serde_json::from_str(&sources().histograms()).unwrap();
    let handler = &page["handler"];
    assert_eq!((&handler["unit"], &handler["count"]), (&"ns".into(), &4.into()));
    assert_eq!(handler["sum"], 1_500_002_549);
    let buckets: Vec<(u64, u64)> = serde_json::from_value(handler["buckets"].clone()).unwrap();
    assert_eq!(buckets, [(500, 1), (1024, 1), (1040, 1), (1_509_949_440, 1)]);
    assert_eq!(page["evaluation"]["count"], 2);
}
