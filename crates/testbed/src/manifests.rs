//! Renders and validates the Kubernetes manifests of `deploy/` with the tools of a user: kustomize,
//! Helm, and the schemas of Kubernetes.
//!
//! `make tools` installs the tools; `HELM` and `KUSTOMIZE` name other programs. A missing tool is a
//! failure.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use document::{Node, Reader, Severity, Value as Yaml};
use serde_json::{Value, json};

use crate::process::{Failed, find_program, repository};

/// The Kubernetes version for which charts are rendered.
const KUBERNETES: &str = "1.36";

/// A file or folder of `deploy/`.
pub fn deploy(path: &str) -> PathBuf {
    repository().join("deploy").join(path)
}

/// The manifests of the kustomization in `folder`.
pub fn kustomize(folder: &Path) -> Result<Vec<Value>, Failed> {
    let mut command = Command::new(tool("KUSTOMIZE", "kustomize")?);
    command.arg("build").arg(folder);
    validated(&folder.display().to_string(), &output(command, "kustomize")?)
}

/// The manifests of the chart in `folder`, as a release `name` with these values (`--set`).
pub fn helm(folder: &Path, name: &str, values: &[&str]) -> Result<Vec<Value>, Failed> {
    let mut command = Command::new(tool("HELM", "helm")?);
    command.args(["template", name]).arg(folder).args(["--kube-version", KUBERNETES]);
    command.args(values.iter().flat_map(|value| ["--set", value]));
    validated(&format!("{} {values:?}", folder.display()), &output(command, "helm")?)
}

/// Runs Helm like a user.
pub fn run_helm(arguments: &[&str], folder: &Path) -> Result<String, Failed> {
    let mut command = Command::new(tool("HELM", "helm")?);
    command.args(arguments).current_dir(folder);
    output(command, "helm")
}

/// The manifests of a file.
pub fn file(path: &Path) -> Result<Vec<Value>, Failed> {
    validated(&path.display().to_string(), &text(path)?)
}

/// The manifests in a text, if they are valid.
fn validated(what: &str, manifests: &str) -> Result<Vec<Value>, Failed> {
    let manifests = run_script("validate.py", what, manifests)?;
    serde_json::from_str(&manifests).map_err(|error| Failed::new(what, error.to_string()))
}

/// The errors of each document by this JSON Schema.
pub fn schema_errors(schema: &Value, documents: &[Value]) -> Result<Vec<Vec<String>>, Failed> {
    let errors = run_script("json_schema.py", "schema", &json!([schema, documents]).to_string())?;
    serde_json::from_str(&errors).map_err(|error| Failed::new("schema", error.to_string()))
}

/// The documents of any YAML file. Empty documents are left out.
pub fn yaml(path: &Path) -> Result<Vec<Value>, Failed> {
    yaml_of(&text(path)?)
}

/// The documents of any YAML text. Empty documents are left out.
pub fn yaml_of(text: &str) -> Result<Vec<Value>, Failed> {
    let mut reader = Reader::new(Path::new("yaml").into());
    let documents = reader.parse_foreign(text.as_bytes()).unwrap_or_default();
    let problems = reader.finish();
    match problems.iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(Failed::new("YAML", problem.to_string())),
        None => Ok(documents.iter().map(to_json).filter(|document| !document.is_null()).collect()),
    }
}

fn to_json(node: &Node) -> Value {
    match &node.value {
        Yaml::Scalar(scalar) if scalar.is_nothing() => Value::Null,
        // Numbers and booleans of JSON are those of YAML.
        Yaml::Scalar(scalar) if scalar.plain => {
            serde_json::from_str(&scalar.text).unwrap_or_else(|_| (*scalar.text).into())
        }
        Yaml::Scalar(scalar) => (*scalar.text).into(),
        Yaml::List(items) => items.iter().map(to_json).collect(),
        Yaml::Map(fields) => {
            fields.iter().map(|(key, value)| ((*key.text).to_owned(), to_json(value))).collect()
        }
    }
}

fn text(path: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(path).map_err(|error| Failed::io(path.display().to_string(), &error))
}

/// The output of a script for this input.
fn run_script(script: &str, what: &str, text: &str) -> Result<String, Failed> {
    let mut command = python()?;
    command.arg(repository().join("crates/testbed/manifests").join(script));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failed::io("python3", &error))?;
    // A script reads all input before it writes. If it has ended before that, its message gives the
    // reason.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    let done = child.wait_with_output().map_err(|error| Failed::io("python3", &error))?;
    good(done, what)
}

/// Python with the schemas: from their virtual environment; without such an environment, from the
/// folder that they were installed into.
fn python() -> Result<Command, Failed> {
    let schemas = repository().join(".tools/kubernetes-validate-1.37.0");
    let python = schemas.join("bin/python3");
    if python.is_file() {
        return Ok(Command::new(python));
    }
    if !schemas.join("kubernetes_validate").is_dir() {
        return Err(Failed::new("kubernetes-validate", "not found: run `make tools`"));
    }
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", schemas);
    Ok(command)
}

fn tool(variable: &str, name: &str) -> Result<PathBuf, Failed> {
    let folder = repository().join(".tools/helm-3.21.4-kustomize-5.8.1/bin");
    find_program(variable, "run `make tools`", [folder.join(name)])
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
