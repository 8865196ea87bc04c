//! The texts of conditions, and when each holds.

use std::time::Instant;

use authorizer::Revision;
use document::{Place, Problem};

use super::*;
use crate::compiled_policy::Issuers;
use crate::status::BundleFacts;

fn healthy() -> Facts {
    let mut facts = Facts::default();
    facts.policy.revision = Some(Revision { policy: "abc123".into(), keys: None });
    facts
}

fn observe(facts: &Facts, shadow: Option<&Facts>, certificate: Option<u64>) -> Vec<Condition> {
    let decision_lines = &Counts::default();
    let certificate = certificate.map(Duration::from_secs);
    conditions(&Observed { facts, shadow, decision_lines, certificate })
}

fn lines(facts: &Facts) -> Vec<String> {
    let line = |condition: Condition| format!("{}: {}", condition.severity.name(), condition.text);
    observe(facts, None, None).into_iter().map(line).collect()
}

#[test]
fn nothing_is_wrong_with_a_healthy_server() {
    assert_eq!(observe(&healthy(), Some(&healthy()), Some(30 * 86_400)), []);
}

#[test]
fn a_failed_reload_says_what_is_wrong_and_what_still_decides() {
    let mut facts = healthy();
    facts.policy.failing_since = Some(Instant::now());
    let at = Place { file: Path::new("etc/roles/a.yaml").into(), line: 3, column: 5 };
    let problem = Problem::error(at, "unknown role `clerk`").help("did you mean `clerks`?");
    facts.policy.problems = [problem].into();
    let conditions = observe(&facts, None, None);
    let [condition] = &conditions[..] else { panic!("{conditions:?}") };
    assert_eq!(condition.text, "the changed policy does not load (roles/a.yaml:3:5)");
    let [since, problem] = &condition.details[..] else { panic!("{condition:?}") };
    assert_eq!(since, "for 0 s");
    assert!(problem.contains("roles/a.yaml:3:5: ") && problem.ends_with("`clerks`?)"), "{problem}");
    assert!(condition.hint.starts_with("abc123 is still active"), "{condition:?}");
    facts.policy.hangs = true;
    assert_eq!(lines(&facts), ["problem: the file system of the policy does not answer"]);
}

#[test]
fn a_bundle_that_is_not_accepted_names_the_last_result() {
    let mut facts = healthy();
    facts.policy.failing_since = Some(Instant::now());
    facts.bundle = Some(BundleFacts {
        last: Some(BundleResult::Unsigned),
        cached: Some(false),
        ..BundleFacts::default()
    });
    let not_accepted = "problem: no new bundle of the policy is accepted, last fetch: unsigned";
    assert_eq!(lines(&facts), [not_accepted, "warning: the active bundle is not in the cache"]);
}

#[test]
fn keys_that_are_missing_are_worse_than_keys_that_are_old() {
    let mut facts = healthy();
    for (name, loaded) in [("https://a.example", true), ("https://b.example", false)] {
        let keys = KeyFacts {
            issuers: Issuers(vec![name.into()]),
            loaded,
            failing: Some((Instant::now(), "no route".into())),
            ..KeyFacts::default()
        };
        facts.keys.insert(name.into(), keys);
    }
    assert_eq!(
        lines(&facts),
        [
            "problem: no keys of https://b.example",
            "warning: newer keys of https://a.example cannot be fetched, or are not usable",
        ]
    );
    let of_shadow = observe(&healthy(), Some(&facts), None);
    assert_eq!(of_shadow.len(), 2);
    assert!(of_shadow.iter().all(|condition| condition.severity == Severity::Warning));
}

#[test]
fn an_expired_certificate_and_a_full_disk_are_problems() {
    let facts = healthy();
    let names = |certificate| {
        let conditions = observe(&facts, None, Some(certificate));
        conditions.into_iter().map(|condition| condition.name).collect::<Vec<_>>()
    };
    assert_eq!(names(3 * 86_400), ["certificate_expires"]);
    assert_eq!(names(0), ["certificate_expired"]);
    let decision_lines = Counts::default();
    decision_lines.set_failing(true);
    let observed = Observed {
        facts: &facts,
        shadow: None,
        decision_lines: &decision_lines,
        certificate: None,
    };
    assert_eq!(conditions(&observed)[0].name, "decision_log_failing");
}

#[test]
fn durations_are_short() {
    let rough = |seconds| rough(Duration::from_secs(seconds));
    assert_eq!(
        [rough(0), rough(119), rough(120), rough(7_199)],
        ["0 s", "119 s", "2 min", "119 min"]
    );
    assert_eq!([rough(7_200), rough(172_799), rough(864_000)], ["2 h", "47 h", "10 days"]);
}

#[test]
fn conditions_are_logged_once_as_they_begin_and_end() {
    let text = crate::test_log::logged(|| {
        let mut log = ConditionLog::default();
        let broken = [Condition::new("name", Severity::Problem, "it is broken", "mend it")];
        for conditions in [&[][..], &broken, &[], &broken, &[], &[]] {
            for _ in 0..if conditions.is_empty() { 1 } else { 3 } {
                log.log_changes(conditions);
            }
        }
        log.log_changes(&[Condition::new("short", Severity::Problem, "a moment", "")]);
        log.log_changes(&[]);
    });
    assert_eq!(text.matches("no longer: it is broken").count(), 2, "{text}");
    assert_eq!(text.matches("it is broken").count(), 4, "{text}");
    assert!(!text.contains("a moment"), "{text}");
}
