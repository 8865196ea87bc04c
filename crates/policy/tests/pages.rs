//! The examples in `policies/README.md`: each policy loads without a problem, and each that begins with `# wrong` gives
//! exactly the messages in the block after it.

use std::path::Path;

use policy::{MapFiles, Warning, load, unaccepted};

const PAGE: &str = include_str!("../../../policies/README.md");

#[test]
fn every_example_gives_what_the_page_says() {
    let mut examples = 0;
    for part in PAGE.split("```yaml\n").skip(1) {
        let (example, after) = part.split_once("```").unwrap();
        let expected = if example.starts_with("# wrong") {
            after.split_once("```text\n").unwrap().1.split_once("```").unwrap().0
        } else {
            ""
        };
        assert_eq!(messages(example), expected, "{example}");
        examples += 1;
    }
    assert!(examples > 8, "{examples}");
}

#[test]
fn every_warning_is_listed() {
    for kind in Warning::ALL {
        assert!(PAGE.contains(&format!("\n| `{kind}` | ")), "{kind}");
    }
}

fn messages(example: &str) -> String {
    let files = MapFiles::of("policy.yaml", example).and("htpasswd", "alice:$6$x$y\nbob:$6$x$y\n");
    let files = files.and("jwks.json", "{}");
    let problems = load(&files, Path::new("policy.yaml"))
        .map_or_else(|errors| errors, |loaded| unaccepted(&loaded.sources, loaded.warnings.clone()));
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}
