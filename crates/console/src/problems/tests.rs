//! What the top of the page says for each thing that can be wrong.

use std::time::Duration;

use super::*;

fn window(counts: Counts) -> Window {
    Window { length: Duration::from_secs(60), counts }
}

/// What is wrong with these counts of the last minute.
fn lines(counts: Counts) -> Vec<String> {
    let window = window(counts);
    lines_of(&observed(&[], &window, &window))
}

fn observed<'a>(
    conditions: &'a [Condition],
    minute: &'a Window,
    five_minutes: &'a Window,
) -> InstanceState<'a> {
    let (runs_in, has_shadow) = (RunsIn::OwnProcess, false);
    InstanceState { runs_in, ready: Ok(()), conditions, has_shadow, minute, five_minutes }
}

fn lines_of(observed: &InstanceState<'_>) -> Vec<String> {
    let line = |problem: Condition| format!("{}: {}", problem.severity.name(), problem.text);
    all_conditions(observed).into_iter().map(line).collect()
}

#[test]
fn nothing_is_wrong_with_a_healthy_server() {
    let denied = vec![("not_allowed", 5)];
    assert_eq!(lines(Counts { allowed: 100, denied, ..Counts::default() }), [""; 0]);
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
        lines(counts),
        [
            "problem: 1 of 10 checks in the last minute got an error and no decision",
            "problem: 2 requests got 503 in the last minute for lack of capacity",
        ]
    );
}

#[test]
fn a_rise_of_denials_is_a_warning() {
    let counts = |allowed, denied| Counts {
        allowed,
        denied: vec![("not_allowed", denied)],
        ..Counts::default()
    };
    let rises =
        |minute: Counts, five: Counts| lines_of(&observed(&[], &window(minute), &window(five)));
    assert_eq!(
        rises(counts(60, 40), counts(460, 60)),
        ["warning: 40 % of the checks in the last minute were denied, 4 % in the minutes before"]
    );
    assert_eq!(rises(counts(60, 40), counts(300, 200)), [""; 0], "as before");
    assert_eq!(rises(counts(60, 40), counts(60, 40)), [""; 0], "nothing came before");
}

#[test]
fn conditions_and_what_only_the_server_knows_are_shown() {
    let expired =
        Condition::new("certificate_expired", Severity::Problem, "it has expired", "replace it");
    let failure_counts = vec![(("Failed accepts", "See the system."), 2)];
    let window = window(Counts { failure_counts, ..Counts::default() });
    let lines = lines_of(&observed(&[expired], &window, &window));
    assert_eq!(
        lines,
        ["problem: it has expired", "warning: Failed accepts: 2 in the last minutes"]
    );
}

#[test]
fn a_shadow_policy_that_disagrees_is_a_warning() {
    let counts = Counts { shadow: vec![("same", 9), ("would_deny", 2)], ..Counts::default() };
    let (minute, five_minutes) = (window(Counts::default()), window(counts));
    let lines = lines_of(&InstanceState {
        ready: Err("draining".to_owned()),
        has_shadow: true,
        ..observed(&[], &minute, &five_minutes)
    });
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.starts_with("warning: ")), "{lines:?}");
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
        let window = window(counts.clone());
        let problems = all_conditions(&InstanceState {
            runs_in,
            ready: Err("no policy".to_owned()),
            ..observed(&[], &window, &window)
        });
        assert_eq!(problems.len(), 3, "{problems:?}");
        problems.into_iter().map(|problem| problem.hint).collect::<String>()
    };
    let (own, inside) = (hints(RunsIn::OwnProcess), hints(RunsIn::Envoy));
    for only_own in ["failure_mode_allow", "rolegate_checks_overloaded_total", "Envoy's `timeout`"]
    {
        assert!(own.contains(only_own) && !inside.contains(only_own), "{only_own}: {inside}");
    }
    assert!(
        inside.contains("`hash-timeout`") && inside.contains("each request gets 503"),
        "{inside}"
    );
}
