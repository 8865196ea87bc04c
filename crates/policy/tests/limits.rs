//! Texts that are too much, and texts in odd shapes.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use document::{MapFiles, Problem};
use lint::load;
use policy::Loaded;
use policy::reference::{Caller, certain_roles};

fn loaded(text: impl Into<Vec<u8>>) -> Result<Loaded, Vec<Problem>> {
    load(&MapFiles::new("policy.yaml", text), Path::new("policy.yaml"))
}

fn first(text: impl Into<Vec<u8>>) -> String {
    let problems = loaded(text).unwrap_err();
    let problem =
        problems.iter().find(|problem| problem.severity == document::Severity::Error).unwrap();
    format!("{}:{} {}", problem.at.line, problem.at.column, problem.message)
}

fn with_rules(rules: &str) -> String {
    format!("version: 1\nroles:\n  r:\n    allow: [{rules}]\n")
}

#[test]
fn a_byte_order_mark_and_crlf_count_for_nothing() {
    let text = "\u{feff}version: 1\r\nroles:\r\n  anyone:\r\n    allow:\r\n      - GET /a\r\n";
    let policy = loaded(text).unwrap().policy;
    assert_eq!(&*policy.roles[0].allow[0].name, "GET /a");
    assert_eq!(policy.roles[0].allow[0].at.to_string(), "policy.yaml:5:9");
}

#[test]
fn bytes_that_are_not_utf8_are_shown_where_they_are() {
    assert_eq!(first(b"version: 1\n# \xc3\xa9\xff\n"), "2:4 the file is not UTF-8 from here on");
}

#[test]
fn a_compressed_file_is_named_as_such() {
    assert_eq!(first(b"\x1f\x8b\x08\0"), "1:1 the file is compressed (gzip)");
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let problems = load(&MapFiles::default(), Path::new("policy.yaml")).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "policy.yaml:1:1: error: cannot read the policy: no such file"
    );
}

#[test]
fn a_rule_has_a_length_and_a_number_of_methods() {
    let long = with_rules(&format!("GET /{}", "a".repeat(9000)));
    assert_eq!(first(long), "4:13 a rule has 9005 bytes, more than 8192");
    let methods: String = (0..101).map(|number| format!("M{number}, ")).collect();
    let many = with_rules(&format!("{{ methods: [{methods}], paths: [/a] }}"));
    assert!(first(many).ends_with("more than 100 methods"));
}

/// Each is short, and its index would not fit into memory.
#[test]
fn rules_have_a_number_of_combinations() {
    let list = |prefix: &str, number: usize| -> String {
        (0..number).map(|number| format!("{prefix}{number}, ")).collect()
    };
    let rule = |hosts, paths, methods| {
        let (hosts, paths, methods) = (list("h", hosts), list("/p", paths), list("M", methods));
        format!("{{ methods: [{methods}], hosts: [{hosts}], paths: [{paths}] }}")
    };
    let too_many = "the rules have more than 5,000,000 combinations of a host, a path and a method";
    assert_eq!(first(with_rules(&rule(2_500, 2_500, 1))), format!("4:13 {too_many}"));
    assert!(loaded(with_rules(&rule(100, 100, 100))).is_ok());
    let several = [rule(200, 200, 50), rule(200, 200, 50), rule(200, 200, 50)].join(", ");
    assert!(first(with_rules(&several)).ends_with(too_many));
}

/// What is compared with every known name has a limit itself.
#[test]
fn a_long_name_is_not_compared_with_others() {
    let (one, other) = ("a".repeat(200_000), format!("{}b", "a".repeat(199_999)));
    let text = format!(
        "version: 1\nroles: {{ {one}: {{ allow: [GET /a] }} }}\ngrants: {{ {other}: {{ users: [ann] }} }}\n"
    );
    assert!(first(text).contains("unknown role"));
}

/// A request with a longer segment is refused, so that such a rule would look like protection and
/// be none.
#[test]
fn a_segment_of_a_rule_is_no_longer_than_one_of_a_request() {
    let never = "a segment of over 4096 bytes never matches: such a request is denied";
    let half = "a".repeat(2048);
    for segment in [format!("{half}{half}"), format!("{half}*{half}"), "%40".repeat(2_700)] {
        assert!(loaded(with_rules(&format!("GET /x/{segment}/y"))).is_ok(), "{}", segment.len());
    }
    for segment in
        [format!("{half}{half}b"), format!("{half}*{half}b"), "é".repeat(700), "%20".repeat(1_366)]
    {
        assert_eq!(first(with_rules(&format!("GET /x/{segment}/y"))), format!("4:20 {never}"));
    }
}

#[test]
fn so_many_problems_are_counted_not_listed() {
    let problems = loaded(with_rules(&"get /a, ".repeat(20_000))).unwrap_err();
    assert_eq!(problems.iter().filter(|problem| problem.message.contains("`get`")).count(), 10_000);
    assert!(
        problems
            .iter()
            .any(|problem| problem.message == "there are 10000 more problems in this file")
    );
}

#[test]
fn so_many_warnings_of_one_kind_are_counted_not_listed() {
    let warnings = loaded(with_rules(&"GET /a, ".repeat(3_000))).unwrap().warnings;
    assert_eq!(warnings.len(), 1001);
    assert!(
        warnings.iter().any(|warning| warning.message.ends_with("(and 1999 more like this)")),
        "{}",
        warnings[1000]
    );
}

#[test]
fn a_long_chain_of_roles_is_followed() {
    let roles: String = (1..20_000)
        .map(|role| format!("  r{role}: {{ extends: [r{}], allow: [GET /r{role}] }}\n", role - 1))
        .collect();
    let text = format!("version: 1\nroles:\n  r0: {{ allow: [GET /a] }}\n{roles}");
    assert_eq!(loaded(text).unwrap().policy.roles.len(), 20_000);
}

/// The paths through the layers double with each of them.
#[test]
fn layers_of_roles_are_visited_once() {
    use std::fmt::Write;
    const LAYERS: usize = 60;
    let mut text = "version: 1\nidentity: { basic: { verify: false } }\nroles:\n".to_owned();
    for layer in 0..LAYERS {
        let extended = match layer {
            0 => String::new(),
            _ => format!("extends: [a{0}, b{0}], ", layer - 1),
        };
        for name in ["a", "b"] {
            writeln!(text, "  {name}{layer}: {{ {extended}allow: [GET /{name}/{layer}] }}")
                .unwrap();
        }
    }
    writeln!(
        text,
        "grants: {{ a{0}: {{ users: [ann], when: \"request.method == 'GET'\" }} }}",
        LAYERS - 1
    )
    .unwrap();
    let policy = loaded(text).unwrap().policy;
    let ann = Caller { user: Some("ann"), ..Caller::default() };
    let bob = Caller { roles: vec!["b58"], user: Some("bob"), ..Caller::default() };
    assert_eq!(certain_roles(&policy, &ann), [""; 0]);
    assert_eq!(certain_roles(&policy, &bob).len(), 2 * LAYERS - 3);
}

#[test]
fn includes_end() {
    let mut files = MapFiles::new("policy.yaml", "version: 1\ninclude: [0.yaml]\n");
    for number in 0..30 {
        files = files.and(&format!("{number}.yaml"), format!("include: [{}.yaml]\n", number + 1));
    }
    let problems = load(&files, Path::new("policy.yaml")).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "14.yaml:1:11: error: files include each other more than 16 deep"
    );
}

#[test]
fn the_same_file_is_read_once_whatever_it_is_called() {
    let files = MapFiles::new(
        "p/policy.yaml",
        "version: 1\ninclude: [a.yaml, ./a.yaml, b/../a.yaml, \"*.yaml\"]\n",
    )
    .and("p/a.yaml", "roles: { anyone: { allow: [GET /a] } }\n");
    let loaded = load(&files, Path::new("p/policy.yaml")).unwrap();
    assert_eq!(loaded.files.len(), 2);
    assert_eq!(loaded.policy.roles[0].at.to_string(), "p/a.yaml:1:10");
}

#[test]
fn hidden_files_match_no_pattern_that_is_not_hidden() {
    let files = MapFiles::new("policy.yaml", "version: 1\ninclude: [\"r/*.yaml\"]\n")
        .and("r/..data.yaml", "broken: [")
        .and("r/b.yaml", "roles: { b: { allow: [GET /b] } }\n")
        .and("r/a.yaml", "roles: { a: { allow: [GET /a] } }\n");
    let roles = load(&files, Path::new("policy.yaml")).unwrap().policy.roles;
    assert_eq!(roles.iter().map(|role| &*role.name).collect::<Vec<_>>(), ["a", "b"]);
}
