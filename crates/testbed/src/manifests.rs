//! What `deploy/` ships for Kubernetes, as the tools of a user make it: kustomize, Helm, and Kubernetes' own schemas.
//!
//! The tools are where `make tools` puts them, or where `HELM` and `KUSTOMIZE` say. A missing one is a failure.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::process::{Failed, first_file, repository};

/// The version of Kubernetes that charts are made for.
const KUBERNETES: &str = "1.36";

/// A file or folder of `deploy/`.
#[must_use]
pub fn deploy(path: &str) -> PathBuf {
    repository().join("deploy").join(path)
}

/// The manifests of the kustomization in `folder`.
///
/// # Errors
/// When they cannot be built or are not valid: every problem.
pub fn kustomize(folder: &Path) -> Result<Vec<Value>, Failed> {
    let mut command = Command::new(tool("KUSTOMIZE", "kustomize")?);
    command.arg("build").arg(folder);
    validated(&folder.display().to_string(), &output(command, "kustomize")?)
}

/// The manifests of the chart in `folder` as a release `name` with these values (`--set`).
///
/// # Errors
/// When they cannot be made or are not valid: every problem.
pub fn helm(folder: &Path, name: &str, values: &[&str]) -> Result<Vec<Value>, Failed> {
    let mut command = Command::new(tool("HELM", "helm")?);
    command.args(["template", name]).arg(folder).args(["--kube-version", KUBERNETES]);
    command.args(values.iter().flat_map(|value| ["--set", value]));
    validated(&format!("{} {values:?}", folder.display()), &output(command, "helm")?)
}

/// Runs Helm as a user would.
///
/// # Errors
/// When it fails: what it says.
pub fn run_helm(arguments: &[&str], folder: &Path) -> Result<String, Failed> {
    let mut command = Command::new(tool("HELM", "helm")?);
    command.args(arguments).current_dir(folder);
    output(command, "helm")
}

/// The manifests of a file.
///
/// # Errors
/// When they are not valid: every problem.
pub fn file(path: &Path) -> Result<Vec<Value>, Failed> {
    validated(&path.display().to_string(), &text(path)?)
}

/// The documents of any YAML file.
///
/// # Errors
/// When it is no YAML.
pub fn yaml(path: &Path) -> Result<Vec<Value>, Failed> {
    parsed(&path.display().to_string(), &text(path)?, &["--yaml"])
}

/// The documents of any YAML text.
///
/// # Errors
/// When it is no YAML.
pub fn yaml_of(text: &str) -> Result<Vec<Value>, Failed> {
    parsed("YAML", text, &["--yaml"])
}

fn text(path: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(path).map_err(|error| Failed::io(path.display().to_string(), &error))
}

fn validated(what: &str, manifests: &str) -> Result<Vec<Value>, Failed> {
    parsed(what, manifests, &[])
}

/// What `validate.py` makes of a text.
fn parsed(what: &str, text: &str, arguments: &[&str]) -> Result<Vec<Value>, Failed> {
    let mut command = python()?;
    command.arg(repository().join("crates/testbed/manifests/validate.py")).args(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failed::io("python3", &error))?;
    // It reads all of it before it writes anything. Where it has ended before, its message says why.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    let done = child.wait_with_output().map_err(|error| Failed::io("python3", &error))?;
    serde_json::from_str(&good(done, what)?).map_err(|error| Failed::new(what, error.to_string()))
}

/// Python with the schemas: in their own environment, or in the folder that they were put into without one.
fn python() -> Result<Command, Failed> {
    let schemas = repository().join(".tools/kubernetes-validate-1.37.0");
    let own = schemas.join("bin/python3");
    if own.is_file() {
        return Ok(Command::new(own));
    }
    if !schemas.join("kubernetes_validate").is_dir() {
        return Err(Failed::new("kubernetes-validate", "not found: run `make tools`"));
    }
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", schemas);
    Ok(command)
}

fn tool(variable: &str, name: &str) -> Result<PathBuf, Failed> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        return first_file([path]).ok_or_else(|| {
            Failed::new(variable, "no such file: name the program, or unset it and run `make tools`")
        });
    }
    first_file([repository().join(".tools/helm-3.21.4-kustomize-5.8.1/bin").join(name)])
        .ok_or_else(|| Failed::new(name, format!("not found: run `make tools`, or set {variable}=/path")))
}

fn output(mut command: Command, name: &str) -> Result<String, Failed> {
    good(command.output().map_err(|error| Failed::io(name, &error))?, name)
}

fn good(done: Output, what: &str) -> Result<String, Failed> {
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(Failed::new(what, String::from_utf8_lossy(&done.stderr).into_owned()))
    }
}
