//! Originals with the policies and the notes that they become: `cases/*.txt`. Each case is a line `=== name`, with the
//! options that are set in brackets, then the original, then after `--- policy` the policy and after `--- notes` the notes.

#![expect(clippy::disallowed_methods, reason = "the cases are files")]

use std::path::{Path, PathBuf};

use import::{Imported, Options, envoy_rbac, istio};

#[test]
fn originals_become_these_policies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut wrong) = (0, String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (_, cases) = text.split_once("=== ").unwrap();
        for case in cases.split("\n=== ") {
            count += 1;
            let (name, case) = case.split_once('\n').unwrap();
            let (original, expected) = case.split_once("--- policy").unwrap();
            let found = shown(&imported(name, original));
            if found.trim() != expected.trim() {
                wrong += &format!("=== {name}\n{original}--- policy\n{found}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 20);
}

fn imported(name: &str, original: &str) -> Result<Imported, String> {
    let has = |option: &str| name.contains(&format!("[{option}]"));
    let options = Options {
        allow_wider: has("allow-wider"),
        audiences: if has("audience") { vec!["api".to_owned()] } else { Vec::new() },
        listener: has("listener").then(|| "public".to_owned()),
        namespace: has("workload").then(|| "shop".to_owned()),
        labels: if has("workload") || has("label") {
            vec![("app".to_owned(), "b".to_owned())]
        } else {
            Vec::new()
        },
    };
    let bytes = original.as_bytes();
    let result = if has("istio") {
        istio(&[(PathBuf::from("in"), bytes.to_vec())], &options)
    } else {
        envoy_rbac(Path::new("in"), bytes, &options)
    };
    result.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn shown(imported: &Result<Imported, String>) -> String {
    match imported {
        Err(error) => error.clone(),
        Ok(imported) => {
            let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            let files: String =
                imported.key_sets.iter().map(|(name, text)| format!("file {name}: {text}\n")).collect();
            format!("{}{files}--- notes\n{notes}", imported.policy)
        }
    }
}

/// Envoy reads `yes` as `true`. Read as `false`, an inverted condition would allow what it is to deny.
#[test]
fn booleans_are_read_as_envoy_reads_them() {
    let with = |value: &str| {
        let original = format!(
            "http_filters:
  - name: rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        policies:
          one:
            permissions:
              - and_rules:
                  rules:
                    - url_path: {{ path: {{ exact: /a }} }}
                    - header: {{ name: ':method', string_match: {{ exact: GET }}, invert_match: {value} }}
            principals: [{{ any: true }}]
"
        );
        imported("", &original).map(|imported| imported.policy)
    };
    let inverted = with("true");
    for value in ["yes", "on", "Y", "True"] {
        assert_eq!(with(value), inverted, "{value}");
    }
    assert!(with("false").unwrap().contains("GET /a"));
    assert_ne!(with("no"), inverted);
}
