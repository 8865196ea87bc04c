//! What the top of the page says for each thing that can be wrong.

use std::path::Path;

use authorizer::Revision;
use document::{Place, Problem};
use runtime::compiled_policy::Issuers;
use runtime::status::BundleFacts;

use super::*;

fn healthy() -> Facts {
    let mut facts = Facts::default();
    facts.policy.revision = Some(Revision { policy: "abc123".into(), keys: None });
    facts
}

fn window(counts: Counts) -> Window {
    Window { length: Duration::from_secs(60), counts }
}

/// The first lines of what is wrong with these facts and these counts of the last minute.
fn lines(facts: &Facts, counts: Counts) -> Vec<String> {
    lines_of(&Observed {
        runs_in: RunsIn::OwnProcess,
        ready: Ok(()),
        facts,
        shadow: None,
        minute: &window(counts.clone()),
        five_minutes: &window(counts),
        certificate: None,
    })
}

fn lines_of(observed: &Observed<'_>) -> Vec<String> {
    let line = |trouble: Trouble| format!("{}: {}", trouble.severity.name(), trouble.what);
    troubles(observed).into_iter().map(line).collect()
}

#[test]
fn nothing_is_wrong_with_a_healthy_server() {
    let denied = vec![("not_allowed", 5)];
    assert_eq!(lines(&healthy(), Counts { allowed: 100, denied, ..Counts::default() }), [""; 0]);
}

#[test]
fn a_failed_reload_says_what_is_wrong_and_what_still_decides() {
    let mut facts = healthy();
    facts.policy.failing_since = Some(Instant::now());
    let at = Place { file: Path::new("policy.yaml").into(), line: 3, column: 5 };
    let problem = Problem::error(at, "unknown role `clerk`").help("did you mean `clerks`?");
    facts.policy.problems = [problem].into();
    let troubles = troubles(&Observed {
        runs_in: RunsIn::OwnProcess,
        ready: Ok(()),
        facts: &facts,
        shadow: None,
        minute: &Window::default(),
        five_minutes: &Window::default(),
        certificate: None,
    });
    let [trouble] = &troubles[..] else { panic!("{troubles:?}") };
    assert_eq!(trouble.what, "A change of the policy has not loaded for 0 s");
    assert!(
        trouble.more[0].contains("policy.yaml:3:5: ") && trouble.more[0].ends_with("`clerks`?)"),
        "{trouble:?}"
    );
    assert!(trouble.hint.contains("abc123"), "{trouble:?}");
}

#[test]
fn a_bundle_that_is_not_accepted_names_the_last_result() {
    let mut facts = healthy();
    facts.policy.failing_since = Some(Instant::now());
    facts.bundle = Some(BundleFacts { last: Some(BundleResult::Unsigned), ..BundleFacts::default() });
    let wanted = "Problem: No bundle of the policy was accepted for 0 s (last fetch: unsigned)";
    assert_eq!(lines(&facts, Counts::default()), [wanted]);
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
    let lines = lines(&facts, Counts::default());
    assert_eq!(
        lines,
        [
            "Problem: The keys of https://b.example are not fetched: all its tokens get 401",
            "Warning: The keys of https://a.example cannot be fetched again",
        ]
    );
}

#[test]
fn errors_and_a_full_queue_are_problems() {
    let counts = Counts {
        allowed: 7,
        denied: vec![("overloaded", 2)],
        errors: vec![(ErrorKind::NotReady, 1)],
        hashes_denied: 2,
        ..Counts::default()
    };
    assert_eq!(
        lines(&healthy(), counts),
        [
            "Problem: 1 of 10 checks in the last minute got an error and no decision",
            "Problem: 2 requests got 503 in the last minute for lack of capacity",
        ]
    );
}

#[test]
fn a_rise_of_denials_is_a_warning() {
    let counts =
        |allowed, denied| Counts { allowed, denied: vec![("not_allowed", denied)], ..Counts::default() };
    let observed = |minute: Counts, five: Counts| {
        let (minute, five_minutes) = (window(minute), window(five));
        let facts = healthy();
        lines_of(&Observed {
            runs_in: RunsIn::OwnProcess,
            ready: Ok(()),
            facts: &facts,
            shadow: None,
            minute: &minute,
            five_minutes: &five_minutes,
            certificate: None,
        })
    };
    assert_eq!(
        observed(counts(60, 40), counts(460, 60)),
        ["Warning: 40 % of the checks in the last minute were denied, 4 % in the minutes before"]
    );
    assert_eq!(observed(counts(60, 40), counts(300, 200)), [""; 0], "as before");
    assert_eq!(observed(counts(60, 40), counts(60, 40)), [""; 0], "nothing came before");
}

#[test]
fn what_only_the_server_knows_is_a_warning_and_an_expired_certificate_a_problem() {
    let observed = |certificate: u64, failure_counts: u64| {
        let failure_counts = vec![(("Failed accepts", "See the system."), failure_counts)];
        let failure_counts = failure_counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let window = window(Counts { failure_counts, ..Counts::default() });
        lines_of(&Observed {
            runs_in: RunsIn::OwnProcess,
            ready: Ok(()),
            facts: &healthy(),
            shadow: None,
            minute: &window,
            five_minutes: &window,
            certificate: Some(Duration::from_secs(certificate)),
        })
    };
    assert_eq!(observed(30 * 86_400, 0), [""; 0]);
    assert_eq!(
        observed(3 * 86_400, 2),
        ["Warning: The TLS certificate expires in 3 days", "Warning: Failed accepts: 2 in the last minutes",]
    );
    assert_eq!(observed(0, 0), ["Problem: The TLS certificate has expired"]);
}

#[test]
fn a_shadow_policy_is_never_worse_than_a_warning() {
    let mut shadow = healthy();
    shadow.policy.failing_since = Some(Instant::now());
    let counts = Counts { shadow: vec![("same", 9), ("would_deny", 2)], ..Counts::default() };
    let facts = healthy();
    let lines = lines_of(&Observed {
        runs_in: RunsIn::OwnProcess,
        ready: Err("draining".to_owned()),
        facts: &facts,
        shadow: Some(&shadow),
        minute: &window(Counts::default()),
        five_minutes: &window(counts),
        certificate: None,
    });
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.starts_with("Warning: ")), "{lines:?}");
}

/// There is no gRPC call that fails, and nothing that lets requests pass then.
#[test]
fn inside_envoy_the_hints_are_about_the_module() {
    let counts = Counts {
        denied: vec![("overloaded", 2), ("deadline_exceeded", 1)],
        errors: vec![(ErrorKind::NotReady, 1)],
        hashes_denied: 2,
        ..Counts::default()
    };
    let hints = |runs_in| {
        let troubles = troubles(&Observed {
            runs_in,
            ready: Err("no policy".to_owned()),
            facts: &healthy(),
            shadow: None,
            minute: &window(counts.clone()),
            five_minutes: &window(counts.clone()),
            certificate: None,
        });
        assert_eq!(troubles.len(), 3, "{troubles:?}");
        troubles.into_iter().map(|trouble| trouble.hint).collect::<String>()
    };
    let (own, inside) = (hints(RunsIn::OwnProcess), hints(RunsIn::Envoy));
    for only_own in ["failure_mode_allow", "rolegate_checks_overloaded_total", "Envoy's `timeout`"] {
        assert!(own.contains(only_own) && !inside.contains(only_own), "{only_own}: {inside}");
    }
    assert!(inside.contains("`hash-timeout`") && inside.contains("each request gets 503"), "{inside}");
}
