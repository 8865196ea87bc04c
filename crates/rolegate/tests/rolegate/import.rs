//! `import`: both forms, their exit codes and their messages.

use crate::process::{PolicyFolder, run, run_with};

const RBAC: &str = r"
http_filters:
  - name: envoy.filters.http.rbac
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        action: ALLOW
        policies:
          health:
            permissions: [{ url_path: { path: { exact: /healthz } } }]
            principals: [{ any: true }]
          people:
            permissions: [{ url_path: { path: { prefix: /people/ } } }]
            principals: [{ any: true }]
  - name: deny
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
      rules:
        action: DENY
        policies:
          no-admin:
            permissions: [{ url_path: { path: { prefix: /admin } } }]
            principals: [{ any: true }]
normalize_path: true
merge_slashes: true
";

const ISTIO: &str = r#"
kind: RequestAuthentication
metadata: { name: tokens, namespace: shop }
spec:
  jwtRules: [{ issuer: "https://id.example.com" }]
---
kind: AuthorizationPolicy
metadata: { name: readers, namespace: shop }
spec:
  selector: { matchLabels: { app: reports } }
  rules:
    - from: [{ source: { requestPrincipals: ["https://id.example.com/*"] } }]
      to: [{ operation: { methods: [GET], paths: ["/reports/*"] } }]
      when: [{ key: "request.auth.claims[groups]", values: [finance] }]
    - to: [{ operation: { paths: ["/healthz"] } }]
---
kind: AuthorizationPolicy
metadata: { name: no-admin, namespace: shop }
spec:
  action: DENY
  selector: { matchLabels: { app: reports } }
  rules:
    - from: [{ source: { notRequestPrincipals: ["https://id.example.com/root"] } }]
      to: [{ operation: { paths: ["/admin*"] } }]
"#;

fn import(args: &[&str], text: &str) -> (i32, String, String) {
    run_with(&[&["import"], args, &["-"]].concat(), text)
}

/// What is printed passes `check --strict` and decides like the original.
#[test]
fn an_imported_policy_passes_the_strict_check() {
    for (args, text, allowed, denied) in [
        (&["envoy-rbac"][..], RBAC, "/people/1", "/admin"),
        (&["istio", "--audience", "shop"], ISTIO, "/healthz", "/reports/1"),
    ] {
        let (code, policy, errors) = import(args, text);
        assert_eq!(code, 0, "{errors}");
        let folder = PolicyFolder::new(&policy);
        let (code, out, _) = run(&["check", "--strict", &folder.arg()]);
        assert_eq!(code, 0, "{out}{policy}");
        for (path, status) in [(allowed, 0), (denied, 1)] {
            let (code, out, _) = run(&["explain", "--policy", &folder.arg(), "GET", path]);
            assert_eq!(code, status, "{path}: {out}");
        }
    }
    let (_, policy, _) = import(&["envoy-rbac"], RBAC);
    let why = "# accept: unmatched-deny because imported: the original denies it too, and allows it nowhere";
    assert!(policy.contains(why), "{policy}");
}

#[test]
fn a_denial_without_effect_is_named_and_costs_nothing() {
    let (code, policy, notes) = import(&["istio", "--audience", "shop"], ISTIO);
    assert_eq!(code, 0, "{notes}");
    assert!(!notes.contains("stricter"), "{notes}");
    assert!(
        notes.contains("note: `spec.rules[0]`: nothing that is allowed matches `no-admin`"),
        "{notes}"
    );
    assert!(policy.contains("finance"), "{policy}");
}

#[test]
fn a_denial_in_the_root_namespace_counts_for_each_workload() {
    let text = ISTIO.replace("name: no-admin, namespace: shop", "name: no-admin, namespace: infra");
    let imported = |more: &[&str]| {
        import(&[&["istio", "--audience", "shop", "--namespace", "shop"], more].concat(), &text)
    };
    let (code, _, notes) = imported(&["--root-namespace", "infra"]);
    assert!(code == 0 && !notes.contains("another namespace"), "{notes}");
    assert!(notes.contains("nothing that is allowed matches `no-admin`"), "{notes}");
    let (_, _, notes) = imported(&[]);
    assert!(
        notes.contains("the root namespace is `istio-system`, see `--root-namespace`"),
        "{notes}"
    );
}

/// Who reads the policy later did not see the notes.
#[test]
fn what_may_be_wider_is_also_a_comment_in_the_policy() {
    let (_, policy, _) = import(&["istio", "--audience", "shop"], ISTIO);
    let (head, rest) = policy.split_once("version: 1\n").unwrap();
    assert!(
        head.contains(
            ": note: `spec.rules[0].when[0].values[0]`: the claim `groups` must be a list"
        ),
        "{head}"
    );
    assert!(
        head.lines().count() == 1 && head.starts_with("# -:") && !rest.contains("note:"),
        "{policy}"
    );
    let (_, policy, _) = import(&["envoy-rbac"], &RBAC.replace("merge_slashes: true\n", ""));
    assert!(policy.starts_with("# -:"), "{policy}");
    assert!(
        policy.lines().next().unwrap().contains("other spellings of an allowed path are allowed"),
        "{policy}"
    );
    assert!(import(&["envoy-rbac"], RBAC).1.starts_with("version: 1\n"));
}

#[test]
fn an_audience_that_is_missing_is_named_once() {
    let (code, out, notes) = import(&["istio"], ISTIO);
    assert_eq!((code, &*out), (1, ""), "{notes}");
    let stricter: Vec<&str> = notes.lines().filter(|line| line.contains(": stricter: ")).collect();
    assert_eq!(stricter.len(), 1, "{notes}");
    assert!(
        notes.lines().next().unwrap().contains("(`--audience` gives those to accept)"),
        "{notes}"
    );
    assert!(notes.contains("`--partial` prints it nevertheless"), "{notes}");
    let (code, policy, _) = import(&["istio", "--partial"], ISTIO);
    assert!(code == 0 && policy.starts_with("# -:"), "{policy}");
    // Who cannot have a token of this issuer gets nothing.
    let folder = PolicyFolder::new(&policy);
    let (code, out, _) = run(&["explain", "--policy", &folder.arg(), "GET", "/reports/1"]);
    assert_eq!(code, 1, "{out}");
}

#[test]
fn the_workload_is_named_only_if_there_are_several() {
    let audience = ["istio", "--audience", "shop"];
    let with = |more: &[&str], text: &str| import(&[&audience[..], more].concat(), text);
    // The namespace is that of the resources, and the one without a selector is for this workload
    // too.
    for more in
        [&[][..], &["--label", "app=reports"], &["--namespace", "shop", "--label", "app=reports"]]
    {
        let (code, policy, notes) = with(more, ISTIO);
        assert!(code == 0 && policy.contains("finance"), "{more:?}: {notes}");
    }
    let other = ISTIO.replacen("app: reports", "app: orders", 1);
    let (code, _, errors) = with(&[], &other);
    assert!(
        code == 3 && errors.contains("this is for other workloads than the resources before"),
        "{errors}"
    );
    let (code, _, errors) = with(&["--label", "app=other"], ISTIO);
    assert!(
        code == 3 && errors.contains("no `AuthorizationPolicy` here is for this workload"),
        "{errors}"
    );
    let several =
        format!("{ISTIO}---\nkind: AuthorizationPolicy\nmetadata: {{ name: b, namespace: web }}\n");
    let (code, _, errors) = with(&["--label", "app=reports"], &several);
    assert!(code == 3 && errors.contains("in the namespaces `shop` and `web`"), "{errors}");
    assert!(errors.contains("give the workload's namespace with `--namespace`"), "{errors}");
}

#[test]
fn what_cannot_be_read_or_written_is_an_error() {
    let folder = PolicyFolder::new("a: b\n");
    let out = folder.path().join("new.yaml").display().to_string();
    for (args, text, code, error) in [
        (&["envoy-rbac"][..], "a: b\n", 3, "there is no RBAC filter here"),
        (&["envoy-rbac"], "a: [\n", 3, "error"),
        (&["envoy-rbac", "--listener", "x"], RBAC, 3, "there is no listener with an RBAC filter"),
        (&["istio"], "kind: Service\n", 3, "there is no Istio policy here"),
        (&["istio", "--label", "app"], ISTIO, 2, "not a label: write one such as `app=reports`"),
        (&["istio", "--listener", "x"], ISTIO, 2, "unexpected argument"),
        (&["envoy-rbac", "--output", &out], RBAC, 0, ""),
        (&["envoy-rbac", "--output", &out], RBAC, 5, "cannot write"),
    ] {
        // With wrong arguments nothing is read, so nothing is to be written.
        let (got, printed, errors) =
            if code == 2 { run(&[&["import"], args, &["-"]].concat()) } else { import(args, text) };
        assert_eq!(got, code, "{args:?}: {printed}{errors}");
        assert!(errors.contains(error), "{args:?}: {errors}");
        assert!(printed.is_empty(), "{args:?}: {printed}");
    }
    let (code, _, errors) = run(&["import", "envoy-rbac", "/nonexistent"]);
    assert!(code == 3 && errors.contains("cannot read `/nonexistent`"), "{errors}");
    let (code, _, errors) = run(&["check", &out]);
    assert_eq!(code, 0, "{errors}");
}

/// What was written would be in the way of the next call.
#[test]
fn nothing_is_left_of_a_policy_that_cannot_be_written() {
    let keys = r#"{"keys":[{"kty":"oct","alg":"HS256","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;
    let issuer = "\"https://id.example.com\"";
    let text = ISTIO.replace(&format!("{issuer} }}"), &format!("{issuer}, jwks: '{keys}' }}"));
    let folder = PolicyFolder::new("a: b\n");
    let (policy, key_set) =
        (folder.path().join("policy.yaml"), folder.path().join("id-example-com.jwks.json"));
    let out = policy.display().to_string();
    let args = ["istio", "--audience", "shop", "--output", &out];
    let (code, _, errors) = import(&args, &text);
    assert!(code == 5 && errors.contains(&format!("cannot write `{out}`")), "{errors}");
    assert!(!key_set.exists() && policy.exists());
    // A file that was there before stays.
    std::fs::write(&key_set, "mine").unwrap();
    std::fs::remove_file(&policy).unwrap();
    let (code, _, errors) = import(&args, &text);
    assert!(code == 5 && errors.contains("id-example-com.jwks.json"), "{errors}");
    assert!(key_set.exists() && !policy.exists());
    std::fs::remove_file(&key_set).unwrap();
    let (code, _, errors) = import(&args, &text);
    assert!(code == 0 && key_set.exists() && policy.exists(), "{errors}");
}
