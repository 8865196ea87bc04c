//! The settings of the filter, and the messages about wrong ones.

use std::collections::BTreeSet;

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
            "`on-stale`: unknown value `keeps`: did you mean `keep`?",
        ),
        (
            r#"{"policy": "p", "listen": "off"}"#,
            "unknown setting `listen`, expected one of `policy`, `shadow`, `admin`",
        ),
        (
            r#"{"policy": "p", "poll-interval": "5"}"#,
            "`poll-interval`: `5` is not a duration: write one such as `500ms`",
        ),
        (
            r#"{"policy": "p", "on-stale": "allow"}"#,
            "`on-stale`: unknown value `allow`, expected one of `keep`",
        ),
        (
            r#"{"policy": "p", "hash-queue": 0}"#,
            "`hash-queue`: `0` is not a number above zero: write a whole one from 1 to 65535",
        ),
        (r#"{"policy": "p", "hash-timeout": "0"}"#, "`hash-timeout`: with 0, every password would be denied"),
        (
            r#"{"policy": "p", "hash-queue": -1}"#,
            "`hash-queue`: invalid value: integer `-1`, expected a number from 0 to 65535",
        ),
        (
            r#"{"policy": "p", "hash-threads": "2"}"#,
            "`hash-threads`: invalid type: string \"2\", expected a number",
        ),
        (
            r#"{"policy": "p", "metadata": "yes"}"#,
            "`metadata`: invalid type: string \"yes\", expected a boolean",
        ),
        (
            r#"{"policy": "p", "max-request-body": "10MB"}"#,
            "`max-request-body`: `10MB` is not a size: write one such as",
        ),
        (r#"{"policy": "p", "max-request-body": 0}"#, "`max-request-body`: `0` is not a size"),
        // What was left empty in Envoy's YAML must not mean the default, such as trust in every public authority.
        (r#"{"policy": "p", "bundle-ca": null}"#, "`bundle-ca`: not a text with something in it"),
        (r#"{"policy": "p", "otlp-ca": ""}"#, "`otlp-ca`: not a text with something in it"),
        (r#"{"policy": "p", "bundle-credentials": null}"#, "`bundle-credentials`: not a text"),
        (r#"{"policy": "p", "decision-log-mask-key": null}"#, "`decision-log-mask-key`: not a text"),
        (
            r#"{"policy": "p", "bundle-public-key": []}"#,
            "`bundle-public-key`: at least one value is expected",
        ),
        (r#"{"policy": "p", "decision-log-mask-path": []}"#, "`decision-log-mask-path`: at least one value"),
        (r#"{"policy": "p", "max-request-body": []}"#, "a size is a number of bytes, or a string"),
        (r#"{"policy": 7}"#, "`policy`: invalid type: integer `7`, expected a string"),
        (r#"{"policy": "p", "policy": "q"}"#, "duplicate setting `policy`"),
        (r#"{"policy": "p"} x"#, "trailing characters at line 1 column 17"),
        (r#"{"policy": "p", "traces": "on"}"#, "`traces`: not one of `off` and `otlp`"),
        (
            r#"{"policy": "p", "trace-ratio": 2}"#,
            "`trace-ratio`: `2` is not a share: write a number from 0 to 1",
        ),
        (r#"{"policy": "p", "decision-log-to": "stdout"}"#, "`stdout` is not one of `file` and `otlp`"),
        (r#"{"policy": "p", "otlp-timeout": 0}"#, "`otlp-timeout`: `0` is not a duration"),
        (r#"{"policy": "p", "decision-log": true}"#, "`decision-log`: not one of `off`, `denied` and `all`"),
        (r#"{"policy": "p", "admin": "9192"}"#, "`admin`: `9192` is not an address: write one such as"),
        (r#"{"policy": "p", "console": "on"}"#, "`console`: invalid type: string \"on\", expected a boolean"),
        (r#"{"policy": "p", "admin": true}"#, "`admin`: neither an address nor `off`"),
        ("policy", "expected value at line 1 column 1"),
    ] {
        let error = FilterSettings::read(config.as_bytes()).unwrap_err();
        assert!(error.contains(problem), "{config}: {error}");
        // Of a text that is not JSON, which is the user's own, the place helps.
        let is_json = !config.starts_with("policy") && !config.ends_with('x');
        assert_eq!(error.contains(" at line "), !is_json, "{config}: {error}");
    }
}

#[test]
fn a_stale_policy_is_kept_or_unavailable() {
    let of = |value: &str| {
        let settings = format!(r#"{{"policy": "p", "on-stale": "{value}"}}"#);
        FilterSettings::read(settings.as_bytes()).unwrap().on_stale
    };
    assert_eq!(
        (of("keep"), of("unavailable"), of("deny")),
        (Stale::Keep, Stale::Unavailable, Stale::Unavailable)
    );
}

#[test]
fn a_policy_is_a_file_or_the_url_of_a_bundle() {
    let of = |config: &str| FilterSettings::read(config.as_bytes()).unwrap().of_policy();
    let path = of(r#"{"policy": "p"}"#);
    assert_eq!(path.policy, PolicySource::Path("p".into()));
    assert_eq!((path.bundle.interval, path.bundle.max_size), (Duration::from_secs(60), 64 << 20));
    let more = r#""bundle-public-key": ["a.pub", "b.pub"], "bundle-interval": "5s", "bundle-cache": "c""#;
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
    assert_eq!(of("0").unwrap().poll_interval, Duration::ZERO);
    assert_eq!(of("\"0\"").unwrap().poll_interval, Duration::ZERO);
    for (value, problem) in [
        ("5", "`5` is not a duration: write one such as `500ms`"),
        ("-1", "`-1` is not a duration"),
        ("true", "a duration is a string such as `500ms`, or 0"),
    ] {
        let error = of(value).unwrap_err();
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
    assert_eq!(of("false").unwrap().decision_log, Log::Off);
    assert_eq!(of("\"off\"").unwrap().decision_log, Log::Off);
    assert_eq!(of("\"all\"").unwrap().decision_log, Log::All);
}

#[test]
fn a_route_has_another_policy_or_none() {
    assert_eq!(RouteSettings::read(br#"{"disabled": true}"#), Ok(RouteSettings::Disabled));
    assert_eq!(RouteSettings::read(b"\n{\"disabled\": true}\n"), Ok(RouteSettings::Disabled));
    let of_1_38 = RouteSettings::read(b"\n\x0e\n\x08disabled\x12\x02 \x01").unwrap_err();
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
        FilterSettings::read(config.as_bytes()).unwrap().of_policy()
    };
    assert_eq!(of("").otlp, OtlpSettings::off());
    assert_eq!(of(r#", "traces": false, "trace-ratio": "0""#).otlp, OtlpSettings::off());
    let all = of(
        r#", "traces": "otlp", "trace-ratio": 0.25, "otlp-endpoint": "http://127.0.0.1:4317", "otlp-ca": "ca.pem",
            "otlp-headers": "headers", "otlp-timeout": "1s", "otlp-batch-size": 7, "otlp-service-name": "gate",
            "otlp-resource": "a=b,c=d", "decision-log-to": ["otlp"]"#,
    );
    let expected = OtlpSettings {
        traces: true,
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
    assert!(all.decision_log.to_otlp && !all.decision_log.to_file);
}

/// The page has each setting, and its defaults are those of the code.
#[test]
fn the_table_of_settings_is_what_is_accepted() {
    let rows = table(include_str!("../../../../deploy/module/README.md"), "| setting | default |");
    let error = serde_json::from_str::<FilterSettings>(r#"{"?": 0}"#).unwrap_err().to_string();
    let accepted: BTreeSet<&str> = names(&error).skip(1).collect();
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
