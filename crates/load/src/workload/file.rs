//! Workload files (TOML). Errors state their place and never repeat values, which may be secret.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::failed::Failed;

use super::variable::{Values, Variable, one};
use super::{Request, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    variables: BTreeMap<String, Values>,
    requests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    #[serde(default = "one")]
    weight: u32,
    method: Option<String>,
    path: String,
    host: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    basic: Option<String>,
    bearer: Option<String>,
    #[serde(default)]
    body: String,
    #[serde(default = "one")]
    repeat: u32,
    #[serde(default)]
    gzip: bool,
    #[serde(default)]
    expect: Vec<u16>,
}

impl Workload {
    /// Reads a workload file.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        let folder = path.parent().unwrap_or(Path::new(""));
        parse(&read(path)?, folder)
            .map_err(|error| Failed::plan(format!("{}{error}", path.display())))
    }
}

/// Reads a file.
#[expect(clippy::disallowed_methods, reason = "this crate does I/O")]
pub(crate) fn read(path: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(path)
        .map_err(|error| Failed::plan(format!("cannot read `{}`: {error}", path.display())))
}

/// Reads a workload. Errors begin with the place in the file.
fn parse(text: &str, folder: &Path) -> Result<Workload, Failed> {
    let file: File = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        // Not the whole error text, which quotes the line.
        Failed::plan(format!(":{}: {}", place(text, offset), error.message().trim_end()))
    })?;
    let variables = file.variables.into_iter().map(|(name, values)| variable(name, values, folder));
    let variables =
        variables.collect::<Result<_, _>>().map_err(|error| Failed::plan(format!(": {error}")))?;
    Ok(Workload { requests: file.requests.into_iter().map(Entry::request).collect(), variables })
}

/// The line and the column of a byte.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{}:{column}", before.matches('\n').count() + 1)
}

/// Checks a variable, and reads the file of its values.
fn variable(name: String, mut values: Values, folder: &Path) -> Result<Variable, Failed> {
    if let Values::File(file) = values {
        values = Values::List(read(&folder.join(file))?.lines().map(str::to_owned).collect());
    }
    let problem = match &mut values {
        Values::Range { min, max } if *min > *max => "is a range that ends before it begins",
        Values::List(lines) => {
            lines.retain(|line| !line.is_empty());
            if lines.is_empty() {
                "has no lines to choose from"
            } else if lines.iter().any(|line| line.chars().any(char::is_control)) {
                "has a line with a control character"
            } else {
                return Ok(Variable { name, values });
            }
        }
        _ => return Ok(Variable { name, values }),
    };
    Err(Failed::plan(format!("`{name}` {problem}")))
}

impl Entry {
    fn request(self) -> Request {
        let default = if self.body.is_empty() { "GET" } else { "POST" };
        let mut request = Request {
            weight: self.weight,
            method: self.method.unwrap_or_else(|| default.to_owned()),
            host: self.host,
            headers: self.headers.into_iter().collect(),
            body: self.body,
            repeat: self.repeat,
            gzip: self.gzip,
            expect: self.expect,
            ..Request::get(&self.path)
        };
        if let Some(credentials) = &self.basic {
            request = request.basic(credentials);
        }
        if let Some(token) = &self.bearer {
            request = request.bearer(token);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, Path::new("")).unwrap_err().to_string()
    }

    #[test]
    fn reads_every_kind_of_variable() {
        let text = r#"
            [variables]
            a = { sequence = { from = 5, step = 2 } }
            b = { range = { min = -1, max = 1 } }
            c = "uuid"
            d = { now = "unix-ms" }
            e = { list = ["x", "y"] }
            [[requests]]
            path = "/${a}"
            basic = "alice:wonderland"
        "#;
        let workload = parse(text, Path::new("")).unwrap();
        assert_eq!(workload.variables.len(), 5);
        assert_eq!(workload.requests[0].headers[0].1, "Basic YWxpY2U6d29uZGVybGFuZA==");
        assert!(!format!("{workload:?}").contains("YWxp"));
    }

    #[test]
    fn says_where_and_what_and_no_secret() {
        let unknown = error("[[requests]]\npath = \"/\"\nbasik = \"alice:wonderland\"\n");
        assert!(unknown.starts_with(":3:1: unknown field `basik`"), "{unknown}");
        assert!(!unknown.contains("wonderland"), "{unknown}");
        let broken = error("[[requests]]\npath = \"/\"\nbasic = \"alice:wonderland\n");
        assert!(broken.starts_with(":3:") && !broken.contains("wonderland"), "{broken}");
        assert!(
            error("[variables]\na = { range = { min = 2, max = 1 } }\n[[requests]]\npath = \"/\"")
                .contains("`a`")
        );
        assert!(
            error("[variables]\na = { list = [] }\n[[requests]]\npath = \"/\"")
                .contains("no lines")
        );
        assert!(error("").contains("requests"));
    }
}
