//! `rolegate lint-proxy`: the configurations in `deploy/`, and its output.

use serde_json::Value;

use crate::process::{PolicyFolder, run, run_with};

#[test]
fn the_configurations_of_deploy_have_no_finding() {
    let deploy = testbed::repository().join("deploy");
    for file in ["nginx/rolegate.conf", "caddy/Caddyfile"] {
        let file = deploy.join(file).display().to_string();
        assert_eq!(
            run(&["lint-proxy", "--strict", &file]),
            (0, format!("{file}: ok\n"), String::new())
        );
    }
}

#[test]
fn findings_have_an_exit_code_and_a_place() {
    let folder = PolicyFolder::new("");
    folder.write("nginx.conf", "http { include site.conf; }\n");
    folder.write(
        "site.conf",
        "server {\n  auth_request /a;\n  location / { auth_request off; proxy_pass http://b; }\n  \
         location = /a { internal; return 200; }\n}\n",
    );
    let file = folder.path().join("nginx.conf").display().to_string();
    let (code, out, err) = run(&["lint-proxy", &file]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.contains("site.conf:3:16: unsafe[unprotected]: "), "{out}");
    assert!(out.contains("site.conf:4:3: unsafe[unchecked-answer]: "), "{out}");
    assert!(out.ends_with("nginx.conf: 2 unsafe\n"), "{out}");
    let (code, out, _) = run(&["lint-proxy", "--output", "json", "--accept", "unprotected", &file]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"]), (1, &false.into()));
    assert_eq!(report["findings"][0]["name"], "unchecked-answer");
    assert_eq!(
        (&report["findings"][0]["line"], report["findings"].as_array().unwrap().len()),
        (&4.into(), 1)
    );
    let (code, _, err) = run(&["lint-proxy", "--accept", "unprotectd", &file]);
    assert!(code == 2 && err.contains("did you mean `unprotected`?"), "{err}");
    assert_eq!(run(&["lint-proxy", "nowhere"]).0, 3);
    let (code, _, err) = run_with(&["lint-proxy", "-"], "http {}\n");
    assert!(code == 3 && err.contains("no `auth_request` is in it"), "{err}");
    let (code, _, err) = run_with(&["lint-proxy", "--proxy", "caddy", "-"], "a.example {\n}\n");
    assert!(code == 3 && err.contains("no `forward_auth` is in it"), "{err}");
}
