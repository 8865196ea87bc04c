//! The settings of the filter, and the messages about wrong ones.

use std::collections::BTreeSet;
use std::path::PathBuf;

use runtime::settings::{DecisionLog, DecisionLogTo, OtlpSettings, PolicySource, Traces};
use serde_json::{Value, json};
use testbed::pages::{names, table};

use super::*;

#[test]
fn a_wrong_setting_is_an_error_that_says_what_is_wrong() {
    for (config, problem) in [
        ("", "`filter_config` is missing"),
        ("{}", "missing setting `policy`"),
        (
            r#"{"policy": "p", "poll-intervall": "5s"}"#,
            "unknown setting `poll-intervall`: did you mean `poll-interval`?",
        ),
        (
            r#"{"policy": "p", "decision_log": "all"}"#,
            "unknown setting `decision_log`: did you mean `decision-log`?",
        ),
        (
            r#"{"policy": "p", "on-stale": "keeps"}"#,
            "`keeps` for `on-stale`: one of keep, unavailable is expected",
        ),
        (
            r#"{"policy": "p", "listen": "off"}"#,
            "unknown setting `listen`: the settings are policy, shadow,",
        ),
        (
            r#"{"policy": "p", "poll-interval": "5"}"#,
            "`5` for `poll-interval`: not a duration: write one such as `500ms`",
        ),
        (
            r#"{"policy": "p", "hash-queue": 0}"#,
            "`0` for `hash-queue`: not a number above zero: write a whole one from 1 to 65535",
        ),
        (r#"{"policy": "p", "hash-timeout": "0"}"#, "`0` for `hash-timeout`: not a duration"),
        (r#"{"policy": "p", "hash-queue": -1}"#, "`-1` for `hash-queue`: not a number above zero"),
        (
            r#"{"policy": "p", "metadata": "yes"}"#,
            "`yes` for `metadata`: one of true, false is expected",
        ),
        (
            r#"{"policy": "p", "max-request-body": "10MB"}"#,
            "`10MB` for `max-request-body`: not a size: write one such as",
        ),
        (r#"{"policy": "p", "max-request-body": 0}"#, "`0` for `max-request-body`: not a size"),
        // What was left empty in Envoy's YAML must not mean the default, such as trust in every
        // public authority.
        (r#"{"policy": "p", "bundle-ca": null}"#, "a value for `bundle-ca` is expected"),
        (r#"{"policy": "p", "otlp-ca": ""}"#, "a value for `otlp-ca` is expected"),
        (
            r#"{"policy": "p", "bundle-public-key": []}"#,
            "at least one value for `bundle-public-key`",
        ),
        (r#"{"policy": "p", "max-request-body": []}"#, "at least one value for `max-request-body`"),
        (r#"{"policy": "p", "admin": ["off", "off"]}"#, "`admin` takes one value, not a list"),
        (r#"{"policy": {"file": "p"}}"#, "at least one value for `policy`"),
        (r#"{"policy": "p", "policy": "q"}"#, "`policy` is defined twice"),
        (r#"{"policy": "p", "traces": "on"}"#, "`on` for `traces`: one of off, otlp is expected"),
        (
            r#"{"policy": "p", "trace-ratio": 2}"#,
            "`2` for `trace-ratio`: not a share: write a number from 0 to 1",
        ),
        (
            r#"{"policy": "p", "decision-log-to": "stdout"}"#,
            "`stdout` for `decision-log-to`: one of file, otlp",
        ),
        (
            r#"{"policy": "p", "decision-log": true}"#,
            "`true` for `decision-log`: one of off, denied, all",
        ),
        (
            r#"{"policy": "p", "admin": "9192"}"#,
            "`9192` for `admin`: not an address: write one such as",
        ),
        (r#"{"policy": "p", "admin": true}"#, "`true` for `admin`: not an address"),
        ("policy", "`filter_config` must be a mapping, not text"),
    ] {
        let error = FilterSettings::read(config.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{config}: {error}");
    }
}

#[test]
fn a_policy_is_a_file_or_the_url_of_a_bundle() {
    let of = |config: &str| FilterSettings::read(config.as_bytes()).unwrap().policy;
    let path = of(r#"{"policy": "p"}"#);
    assert_eq!(path.policy, PolicySource::Path("p".into()));
    assert_eq!((path.bundle.interval, path.bundle.max_size), (Duration::from_secs(60), 64 << 20));
    let more =
        r#""bundle-public-key": ["a.pub", "b.pub"], "bundle-interval": "5s", "bundle-cache": "c""#;
    let bundle = of(&format!(r#"{{"policy": "https://files.example/b?secret", {more}}}"#));
    assert_eq!(bundle.policy, PolicySource::Bundle("https://files.example/b?secret".into()));
    assert_eq!(bundle.bundle.public_keys, ["a.pub", "b.pub"].map(PathBuf::from));
    assert_eq!(bundle.bundle.cache, Some("c".into()));
    assert!(!format!("{bundle:?}").contains("secret"));
    let one = of(r#"{"policy": "https://files.example/b", "bundle-public-key": "a.pub"}"#);
    assert_eq!(one.bundle.public_keys, [PathBuf::from("a.pub")]);
}

/// `max-policy-age: 0` is a number in YAML.
#[test]
fn a_duration_of_zero_needs_no_unit_and_no_quotes() {
    let of = |value: &str| {
        FilterSettings::read(format!(r#"{{"policy": "p", "poll-interval": {value}}}"#).as_bytes())
    };
    assert_eq!(of("0").unwrap().policy.poll_interval, Duration::ZERO);
    assert_eq!(of("\"0\"").unwrap().policy.poll_interval, Duration::ZERO);
    for (value, problem) in [
        ("5", "`5` for `poll-interval`: not a duration: write one such as `500ms`"),
        ("-1", "`-1` for `poll-interval`: not a duration"),
        ("true", "`true` for `poll-interval`: not a duration"),
    ] {
        let error = of(value).unwrap_err().to_string();
        assert!(error.contains(problem), "{value}: {error}");
    }
}

#[test]
fn a_size_may_be_a_number_of_bytes() {
    let of = |value: &str| {
        let settings = format!(r#"{{"policy": "p", "max-request-body": {value}}}"#);
        FilterSettings::read(settings.as_bytes()).unwrap().max_request_body
    };
    assert_eq!((of("1024"), of("\"2KiB\"")), (1 << 10, 2 << 10));
    assert_eq!(FilterSettings::read(br#"{"policy": "p"}"#).unwrap().max_request_body, 10 << 20);
}

/// Envoy's YAML reads `off` as `false`.
#[test]
fn a_decision_log_is_off_in_each_form() {
    let of = |value: &str| {
        FilterSettings::read(format!(r#"{{"policy": "p", "decision-log": {value}}}"#).as_bytes())
    };
    assert_eq!(of("false").unwrap().policy.decision_log.which, DecisionLog::Off);
    assert_eq!(of("\"off\"").unwrap().policy.decision_log.which, DecisionLog::Off);
    assert_eq!(of("\"all\"").unwrap().policy.decision_log.which, DecisionLog::All);
}

#[test]
fn a_route_has_another_policy_or_none() {
    assert_eq!(RouteSettings::read(br#"{"disabled": true}"#), Ok(RouteSettings::Disabled));
    assert_eq!(RouteSettings::read(b"\n{\"disabled\": true}\n"), Ok(RouteSettings::Disabled));
    let of_1_38 =
        RouteSettings::read(b"\n\x0e\n\x08disabled\x12\x02 \x01").unwrap_err().to_string();
    assert!(of_1_38.contains("`google.protobuf.StringValue`"), "{of_1_38}");
    let other = FilterSettings::read(br#"{"policy": "other", "hash-timeout": "1s"}"#).unwrap();
    assert_eq!(other.hash_timeout, Duration::from_secs(1));
    let route = RouteSettings::read(br#"{"policy": "other", "hash-timeout": "1s"}"#);
    assert_eq!(route, Ok(RouteSettings::Policy(Box::new(other))));
    for config in ["", "{}", r#"{"disabled": false}"#, r#"{"disabled": true, "policy": "p"}"#] {
        assert!(RouteSettings::read(config.as_bytes()).is_err(), "{config}");
    }
}

#[test]
fn what_a_collector_gets_has_the_settings_of_the_sidecar() {
    let of = |more: &str| {
        let config = format!(r#"{{"policy": "p"{more}}}"#);
        FilterSettings::read(config.as_bytes()).unwrap().policy
    };
    assert_eq!(of("").otlp, OtlpSettings::off());
    assert_eq!(of(r#", "traces": false, "trace-ratio": "0""#).otlp, OtlpSettings::off());
    let all = of(
        r#", "traces": "otlp", "trace-ratio": 0.25, "otlp-endpoint": "http://127.0.0.1:4317", "otlp-ca": "ca.pem",
            "otlp-headers": "headers", "otlp-timeout": "1s", "otlp-batch-size": 7, "otlp-service-name": "gate",
            "otlp-resource": "a=b,c=d", "decision-log-to": ["otlp"]"#,
    );
    let expected = OtlpSettings {
        traces: Traces::Otlp,
        trace_ratio: "0.25".parse().unwrap(),
        endpoint: Some("http://127.0.0.1:4317".to_owned()),
        ca: Some("ca.pem".into()),
        headers: Some("headers".into()),
        timeout: Duration::from_secs(1),
        batch_size: 7,
        service_name: "gate".to_owned(),
        resource: vec!["a=b".parse().unwrap(), "c=d".parse().unwrap()],
    };
    assert_eq!(all.otlp, expected);
    assert_eq!(all.decision_log.to, [DecisionLogTo::Otlp]);
}

/// The page has each setting, and its defaults are those of the code.
#[test]
fn the_table_of_settings_is_what_is_accepted() {
    let rows = table(include_str!("../../../../deploy/module/README.md"), "| setting | default |");
    let command = command();
    let accepted: BTreeSet<&str> =
        command.get_arguments().filter_map(|flag| flag.get_long()).collect();
    assert_eq!(rows.iter().flat_map(|row| names(row[0])).collect::<BTreeSet<_>>(), accepted);
    let read = |settings: Value| FilterSettings::read(settings.to_string().as_bytes()).unwrap();
    let with_default = rows.iter().filter(|row| row[1].starts_with('`'));
    for (name, default) in with_default.flat_map(|row| names(row[0]).map(|name| (name, row[1]))) {
        let text = default.trim_matches('`');
        let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        let with = json!({ "policy": "p", name: value });
        assert_eq!(read(with), read(json!({ "policy": "p" })), "{name}: {default}");
    }
}
