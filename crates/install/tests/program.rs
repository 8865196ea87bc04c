//! The program as it is started.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A shell finds a program in PATH, and gives it only its name.
#[test]
fn the_library_is_found_beside_the_program_by_whatever_name_it_is_started() {
    let (image, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = image.path().join("rolegate-module");
    fs::copy(env!("CARGO_BIN_EXE_rolegate-module"), &program).unwrap();
    let run = |name: &str| {
        let output = Command::new(&program)
            .arg0(name)
            .arg(volume.path())
            .current_dir(volume.path())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (copied, errors) = run("rolegate-module");
    let library = image.path().join("librolegate.so");
    assert!(
        !copied && errors.contains(&format!("cannot read {}: ", library.display())),
        "{errors}"
    );
    fs::write(&library, "library").unwrap();
    for name in ["rolegate-module", "./rolegate-module", ""] {
        let (copied, errors) = run(name);
        assert!(copied, "{name}: {errors}");
        assert!(volume.path().join("librolegate.so").is_file());
    }
}
