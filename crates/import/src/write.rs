//! The text of the imported policy.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use document::{MapFiles, Problem, Warning};

use crate::Imported;
use crate::lower::{Role, Rule};
use crate::sources::{Issuer, Keys, Kind, Source, Sources};
use crate::term::Caller;
use policy::pattern::{Pattern, Scope};
use policy::written;

/// A policy as it is written.
#[derive(Debug)]
pub(crate) struct Written {
    /// The text of `policy.yaml`.
    pub(crate) policy: String,
    /// The key sets beside it.
    pub(crate) key_sets: Vec<(String, String)>,
    /// Where the lines of rules begin that are not exactly what the original has.
    pub(crate) inexact: BTreeSet<usize>,
}

/// The policy, without the comments of [`accept_warnings`].
pub(crate) fn policy(sources: &Sources, roles: &[Role]) -> Written {
    let prefixes = sources.prefixes();
    let prefix = |source: usize| prefixes.get(source).map_or("", String::as_str);
    let mut key_sets = Vec::new();
    let mut files = named_files(sources);
    let mut text = String::from("version: 1\n");
    if !sources.all.is_empty() {
        text += "identity:\n";
        let (jwt, basic): (Vec<_>, Vec<_>) =
            (0..).zip(&sources.all).partition(|(_, source)| matches!(source.kind, Kind::Jwt(_)));
        for (number, source) in basic {
            write_basic(&mut text, source, prefix(number));
        }
        if !jwt.is_empty() {
            text += "  jwt:\n";
        }
        for (number, source) in jwt {
            if let Kind::Jwt(issuer) = &source.kind {
                let key_set = match &issuer.keys {
                    Keys::Inline(key_set) => Some((key_set_file(&source.name, &mut files), key_set.clone())),
                    Keys::Url(_) | Keys::File(_) | Keys::Discovery => None,
                };
                let file = key_set.as_ref().map(|(file, _)| file.as_str());
                write_issuer(&mut text, source, issuer, prefix(number), file);
                key_sets.extend(key_set);
            }
        }
    }
    let inexact = write_roles(&mut text, &prefixes, roles);
    // The header must never be one that the client has sent.
    if let Some((header, _)) = sources.user_header() {
        let _ =
            writeln!(text, "allow_response:\n  set_headers: {{ {}: \"{{user}}\" }}", written::quoted(header));
    }
    Written { policy: text, key_sets, inexact }
}

// Writing to a `String` never fails.

fn write_basic(text: &mut String, source: &Source, prefix: &str) {
    text.push_str("  basic:\n");
    match &source.kind {
        Kind::Users { users, .. } => {
            text.push_str("    users:\n");
            for (name, hash) in users {
                // Envoy has no others.
                if hash.starts_with("{SHA}") {
                    let (kind, reason) = (Warning::WeakHash, reason(Warning::WeakHash));
                    let _ = writeln!(text, "      # accept: {kind} because imported: {reason}");
                }
                let _ = writeln!(
                    text,
                    "      {}: {{ password: {} }}",
                    written::quoted(name),
                    written::quoted(hash)
                );
            }
        }
        Kind::UsersFile { file, .. } => _ = writeln!(text, "    users_file: {}", written::quoted(file)),
        Kind::Jwt(_) => {}
    }
    write_prefix(text, prefix, "    ");
}

fn write_prefix(text: &mut String, prefix: &str, indent: &str) {
    if !prefix.is_empty() {
        for key in ["user_prefix", "group_prefix"] {
            let _ = writeln!(text, "{indent}{key}: {}", written::quoted(prefix));
        }
    }
}

fn write_issuer(
    text: &mut String,
    source: &Source,
    issuer: &Issuer,
    prefix: &str,
    key_set_file: Option<&str>,
) {
    let _ = writeln!(text, "    - issuer: {}", written::quoted(&issuer.issuer));
    let audiences: Vec<String> = issuer.audiences.iter().map(|audience| written::quoted(audience)).collect();
    let _ = writeln!(text, "      audiences: [{}]", audiences.join(", "));
    let keys = match &issuer.keys {
        Keys::Url(url) => format!("url: {}", written::quoted(url)),
        Keys::File(file) => format!("file: {}", written::quoted(file)),
        Keys::Discovery => "discovery: true".to_owned(),
        Keys::Inline(_) => format!("file: {}", written::quoted(key_set_file.unwrap_or_default())),
    };
    let _ = writeln!(text, "      keys: {{ {keys} }}");
    let user =
        source.user_claim.borrow().as_ref().map_or_else(|| written::quoted("sub"), |claim| pointer(claim));
    let groups = source
        .group_claim
        .borrow()
        .as_ref()
        .map_or_else(String::new, |claim| format!(", groups: {}", pointer(claim)));
    let _ = writeln!(text, "      claims: {{ user: {user}{groups} }}");
    if let Some(skew) = &issuer.clock_skew {
        let _ = writeln!(text, "      clock_skew: {skew}");
    }
    write_prefix(text, prefix, "      ");
}

/// The names of the files that the original names, in lower case.
fn named_files(sources: &Sources) -> BTreeSet<String> {
    let file = |source: &Source| match &source.kind {
        Kind::UsersFile { file, .. } | Kind::Jwt(Issuer { keys: Keys::File(file), .. }) => {
            file.rsplit('/').next().map(str::to_ascii_lowercase)
        }
        Kind::Users { .. } | Kind::Jwt(_) => None,
    };
    sources.all.iter().filter_map(file).collect()
}

/// The name of the file of a key set, which no other file has, also where the file system ignores case: two issuers with one file
/// could sign each other's tokens.
fn key_set_file(source: &str, files: &mut BTreeSet<String>) -> String {
    let name: String = source
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    let first = format!("{name}.jwks.json");
    let numbered = (2..).map(|number| format!("{name}-{number}.jwks.json"));
    let mut all = std::iter::once(first.clone()).chain(numbered);
    let free = all.find(|file| !files.contains(&file.to_ascii_lowercase())).unwrap_or(first);
    files.insert(free.to_ascii_lowercase());
    free
}

/// A claim, by its name or as a JSON pointer.
fn pointer(claim: &[String]) -> String {
    match claim {
        [name] if !name.starts_with('/') => written::quoted(name),
        names => {
            let escaped = names.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
            written::quoted(&escaped.collect::<String>())
        }
    }
}

/// Writes the roles and their grants. Returns where the lines of rules begin that are not exact.
fn write_roles(text: &mut String, prefixes: &[String], roles: &[Role]) -> BTreeSet<usize> {
    let (mut names, mut inexact) = (BTreeSet::new(), BTreeSet::new());
    let mut grants = String::new();
    if !roles.is_empty() {
        text.push_str("roles:\n");
    }
    for role in roles {
        let name = match role.callers.first() {
            Some(Caller::Anyone) => policy::model::ANYONE.to_owned(),
            Some(Caller::Authenticated) => policy::model::AUTHENTICATED.to_owned(),
            _ => unique(role.rules.first().map_or("role", |rule| &rule.name), &mut names),
        };
        let name = written::quoted(&name);
        let _ = writeln!(text, "  {name}:");
        for (key, is_deny) in [("allow", false), ("deny", true)] {
            let rules: Vec<&Rule> = role.rules.iter().filter(|rule| rule.is_deny == is_deny).collect();
            if !rules.is_empty() {
                let _ = writeln!(text, "    {key}:");
            }
            for rule in rules {
                write_rule(text, rule, role.is_reserved(), &mut inexact);
            }
        }
        if !role.is_reserved() {
            let _ = writeln!(grants, "  {name}: {{ {} }}", holders(prefixes, role));
        }
    }
    if !grants.is_empty() {
        *text += "grants:\n";
        *text += &grants;
    }
    inexact
}

/// `users: ["ann"], groups: ["staff"]`.
fn holders(prefixes: &[String], role: &Role) -> String {
    let prefix = |source: usize| prefixes.get(source).map_or("", String::as_str);
    let of = |is_group: bool| {
        let names = role.callers.iter().filter_map(|caller| match caller {
            Caller::User(source, name) if !is_group => Some((source, name)),
            Caller::Group(source, name) if is_group => Some((source, name)),
            Caller::Anyone | Caller::Authenticated | Caller::User(_, _) | Caller::Group(_, _) => None,
        });
        let names = names.map(|(source, name)| written::quoted(&format!("{}{name}", prefix(*source))));
        names.collect::<Vec<String>>().join(", ")
    };
    let lists = [("users", of(false)), ("groups", of(true))];
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    lists.map(|(key, names)| format!("{key}: [{names}]")).collect::<Vec<_>>().join(", ")
}

/// A name that no other role has.
fn unique(name: &str, names: &mut BTreeSet<String>) -> String {
    let reserved = [policy::model::ANYONE, policy::model::AUTHENTICATED, ""].contains(&name);
    let name = if reserved { format!("role-{name}") } else { name.to_owned() };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free =
        std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name)).unwrap_or(name);
    names.insert(free.clone());
    free
}

fn write_rule(text: &mut String, rule: &Rule, named: bool, inexact: &mut BTreeSet<usize>) {
    if named {
        let name: String =
            rule.name.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        let _ = writeln!(text, "      # {name}");
    }
    let is_any = rule.paths.is_none();
    let asterisk = |pattern: &Pattern| !pattern.absolute;
    let options = rule.methods.as_ref().is_none_or(|methods| methods.contains("OPTIONS"));
    let of_server = is_any || rule.paths.iter().flatten().any(asterisk);
    let paths: Vec<String> = match &rule.paths {
        None => vec!["/**".to_owned()],
        Some(paths) => paths.iter().filter(|pattern| !asterisk(pattern)).map(written::pattern).collect(),
    };
    let mut note_start = |text: &str| {
        if !rule.is_exact {
            inexact.insert(text.len());
        }
    };
    if !paths.is_empty() {
        note_start(text);
        write_one(text, rule.methods.as_ref(), rule.hosts.as_deref(), &paths);
    }
    if of_server && options {
        note_start(text);
        write_one(
            text,
            Some(&BTreeSet::from(["OPTIONS".to_owned()])),
            rule.hosts.as_deref(),
            &["*".to_owned()],
        );
    }
}

fn write_one(
    text: &mut String,
    methods: Option<&BTreeSet<String>>,
    hosts: Option<&[Scope]>,
    paths: &[String],
) {
    if let ([path], None) = (paths, hosts) {
        let methods =
            methods.map_or_else(|| "*".to_owned(), |all| all.iter().cloned().collect::<Vec<_>>().join("|"));
        let _ = writeln!(text, "      - {}", written::quoted(&format!("{methods} {path}")));
        return;
    }
    let list = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| written::quoted(&text)).collect::<Vec<_>>().join(", ")
    };
    let methods = methods.map_or_else(|| "\"*\"".to_owned(), |all| list(&mut all.iter().cloned()));
    let hosts = hosts.map_or_else(String::new, |hosts| {
        format!(" hosts: [{}],", list(&mut hosts.iter().map(ToString::to_string)))
    });
    let paths = list(&mut paths.iter().cloned());
    let _ = writeln!(text, "      - {{ methods: [{methods}],{hosts} paths: [{paths}] }}");
}

/// Adds comments that accept the warnings of `rolegate check`, because what they are about is as in the original. Loads the policy,
/// so that a mistake of this crate is an error and not a policy with another meaning.
pub(crate) fn accept_warnings(
    imported: &mut Imported,
    sources: &Sources,
    inexact: &BTreeSet<usize>,
) -> Result<(), Problem> {
    let warnings = loaded(imported, sources)?;
    let (mut text, mut start) = (String::new(), 0);
    for (number, line) in (1_u32..).zip(imported.policy.lines()) {
        let indent = line.len() - line.trim_start().len();
        let of_line: BTreeSet<(u32, Warning)> = warnings
            .iter()
            .filter(|warning| warning.at.line == number)
            .filter_map(|warning| Some((warning.at.column, warning.kind()?)))
            // Whether a hash is weak is not checked here, so a comment about one seems to accept nothing.
            // If nothing could be imported, who imports should be warned.
            .filter(|(_, kind)| ![Warning::Acceptance, Warning::NoRoles].contains(kind))
            // Where that is only nearly so in the original, who imports should see whether it should match something.
            .filter(|(_, kind)| *kind != Warning::UnmatchedDeny || !inexact.contains(&start))
            .collect();
        for (_, kind) in of_line {
            let _ = writeln!(text, "{:indent$}# accept: {kind} because imported: {}", "", reason(kind));
        }
        text.push_str(line);
        text.push('\n');
        start += line.len() + 1;
    }
    imported.policy = text;
    loaded(imported, sources).map(drop)
}

/// Why an imported policy may have what a warning is about.
fn reason(kind: Warning) -> &'static str {
    match kind {
        Warning::UnmatchedDeny => "the original denies it too, and allows it nowhere",
        Warning::TrailingSlash => "the original has this prefix",
        Warning::WeakHash => "the original has this hash; hash the password anew",
        _ => "it is so in the original",
    }
}

/// The warnings about the policy that no comment accepts.
fn loaded(imported: &Imported, sources: &Sources) -> Result<Vec<Problem>, Problem> {
    let mut files = MapFiles::of("policy.yaml", imported.policy.as_bytes());
    for (name, key_set) in &imported.key_sets {
        files = files.and(name, key_set.as_bytes());
    }
    for source in &sources.all {
        match &source.kind {
            // The files that exist only where Envoy runs.
            Kind::UsersFile { file, .. } => {
                files = files.and(file, "user:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
            }
            Kind::Jwt(Issuer { keys: Keys::File(file), .. }) => {
                files = files.and(file, r#"{"keys":[{"kty":"oct","alg":"HS256","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#);
            }
            Kind::Users { .. } | Kind::Jwt(_) => {}
        }
    }
    match lint::load(&files, Path::new("policy.yaml")) {
        Ok(loaded) => {
            let mut warnings = document::unaccepted(&loaded.files, loaded.warnings);
            warnings.retain(|warning| *warning.at.file == *Path::new("policy.yaml"));
            Ok(warnings)
        }
        Err(problems) => {
            problems.into_iter().find(|problem| !problem.is_warning()).map_or(Ok(Vec::new()), Err)
        }
    }
}
