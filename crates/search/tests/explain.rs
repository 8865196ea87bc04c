//! The code that decides does not use the code that explains.

#![expect(clippy::disallowed_methods, reason = "it reads the code of this crate")]

use std::fs;
use std::path::Path;

#[test]
fn nothing_that_decides_uses_the_module_explain() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if path.is_dir() {
                folders.extend((name != "explain" && name != "tests").then_some(path));
            } else if name.ends_with(".rs") && !["lib.rs", "explain.rs", "tests.rs"].contains(&name)
            {
                let text = fs::read_to_string(&path).expect("text");
                assert!(!text.contains("explain::"), "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 30, "{files}");
}
