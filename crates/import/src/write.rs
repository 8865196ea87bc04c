//! The text of the imported policy.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use document::{MapFiles, Problem, Warning};
use policy::model::{ANYONE, AUTHENTICATED};
use policy::written::{self, quoted};

use crate::Imported;
use crate::lower::{Role, Rule};
use crate::sources::{Issuer, Keys, Kind, Source, Sources, Users};
use crate::term::Caller;
use crate::when::When;

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) policy: String,
    pub(crate) key_sets: Vec<(String, String)>,
    /// Offsets of the lines whose rules only approximate the original.
    pub(crate) inexact: BTreeSet<usize>,
}

/// The policy, without the comments of [`accept_warnings`].
pub(crate) fn policy(sources: &Sources, roles: &[Role]) -> Written {
    let prefixes = sources.prefixes();
    let mut key_sets = Vec::new();
    let names = original_files(sources).filter_map(|(file, _)| file.rsplit('/').next());
    let mut files: BTreeSet<String> = names.map(str::to_ascii_lowercase).collect();
    let mut text = String::from("version: 1\n");
    if !sources.all.is_empty() {
        text += "identity:\n";
        let mut issuers = String::new();
        for (source, prefix) in sources.all.iter().zip(&prefixes) {
            match &source.kind {
                Kind::Basic { users, .. } => write_basic(&mut text, users, prefix),
                Kind::Jwt(issuer) => {
                    let mut file = None;
                    if let Keys::Inline(key_set) = &issuer.keys {
                        let name = key_set_file(&source.name, &mut files);
                        key_sets.push((name.clone(), key_set.clone()));
                        file = Some(name);
                    }
                    write_issuer(&mut issuers, source, issuer, prefix, file.as_deref());
                }
            }
        }
        if !issuers.is_empty() {
            text += "  jwt:\n";
            text += &issuers;
        }
    }
    let inexact = write_roles(&mut text, &prefixes, roles);
    // The header is set even if no rule uses it, so that a client cannot choose its value.
    if let Some((header, _)) = sources.user_header() {
        text += "allow_response:\n";
        let _ = writeln!(text, "  set_headers: {{ {}: \"{{user}}\" }}", quoted(header));
    }
    Written { policy: text, key_sets, inexact }
}

// Writing to a `String` never fails.

fn write_basic(text: &mut String, users: &Users, prefix: &str) {
    // Envoy supports only `{SHA}` hashes, so a file has them, too.
    let has_sha = match users {
        Users::Inline(users) => users.iter().any(|(_, hash)| hash.starts_with("{SHA}")),
        Users::File(_) => true,
    };
    if has_sha {
        write_accept(text, 2, Warning::WeakHash);
    }
    *text += "  basic:\n";
    match users {
        Users::Inline(users) => {
            *text += "    users:\n";
            for (name, hash) in users {
                let _ = writeln!(text, "      {}: {{ password: {} }}", quoted(name), quoted(hash));
            }
        }
        Users::File(file) => _ = writeln!(text, "    users_file: {}", quoted(file)),
    }
    write_prefix(text, prefix, "    ");
}

fn write_prefix(text: &mut String, prefix: &str, indent: &str) {
    if !prefix.is_empty() {
        for key in ["user_prefix", "group_prefix"] {
            let _ = writeln!(text, "{indent}{key}: {}", quoted(prefix));
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
    let _ = writeln!(text, "    - issuer: {}", quoted(&issuer.issuer));
    let _ = writeln!(text, "      audiences: [{}]", quoted_list(&issuer.audiences));
    let keys = match &issuer.keys {
        Keys::Url(url) => format!("url: {}", quoted(url)),
        Keys::File(file) => format!("file: {}", quoted(file)),
        Keys::Discovery => "discovery: true".to_owned(),
        Keys::Inline(_) => format!("file: {}", quoted(key_set_file.unwrap_or_default())),
    };
    let _ = writeln!(text, "      keys: {{ {keys} }}");
    let groups = pointer(source.group_claim.borrow().as_deref());
    let groups = groups.map(|claim| format!(", groups: {claim}")).unwrap_or_default();
    let _ = writeln!(text, "      claims: {{ user: \"sub\"{groups} }}");
    if let Some(skew) = &issuer.clock_skew {
        let _ = writeln!(text, "      clock_skew: {skew}");
    }
    write_prefix(text, prefix, "      ");
}

/// The files that the original names, with placeholder content: they exist only where Envoy runs.
fn original_files(sources: &Sources) -> impl Iterator<Item = (&str, &'static str)> {
    const USERS: &str = "user:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    const KEYS: &str = r#"{"keys":[{"kty":"oct","alg":"HS256",
        "k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;
    sources.all.iter().filter_map(|source| match &source.kind {
        Kind::Basic { users: Users::File(file), .. } => Some((file.as_str(), USERS)),
        Kind::Jwt(Issuer { keys: Keys::File(file), .. }) => Some((file.as_str(), KEYS)),
        Kind::Basic { .. } | Kind::Jwt(_) => None,
    })
}

/// A file name for a key set, unique even on a case-insensitive file system: two issuers with the
/// same file could sign each other's tokens.
fn key_set_file(source: &str, files: &mut BTreeSet<String>) -> String {
    let name = source.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
    let free = first_free(
        |suffix| format!("{name}{suffix}.jwks.json"),
        |file| !files.contains(&file.to_ascii_lowercase()),
    );
    files.insert(free.to_ascii_lowercase());
    free
}

/// A claim, written as its name or as a JSON pointer.
fn pointer(claim: Option<&[String]>) -> Option<String> {
    Some(match claim? {
        [name] if !name.starts_with('/') => quoted(name),
        names => {
            let names = names.iter().map(|name| name.replace('~', "~0").replace('/', "~1"));
            quoted(&names.map(|name| format!("/{name}")).collect::<String>())
        }
    })
}

/// Writes the roles and their grants. Returns [`Written::inexact`].
fn write_roles(text: &mut String, prefixes: &[String], roles: &[Role]) -> BTreeSet<usize> {
    let (mut names, mut inexact) = (BTreeSet::new(), BTreeSet::new());
    let mut grants = String::new();
    if !roles.is_empty() {
        *text += "roles:\n";
    }
    for role in roles {
        let name = match role.callers.first() {
            Some(Caller::Anyone) => ANYONE.to_owned(),
            Some(Caller::Authenticated) => AUTHENTICATED.to_owned(),
            _ => role_name(role.rules.first().map_or("role", |rule| &rule.name), &mut names),
        };
        let name = quoted(&name);
        let _ = writeln!(text, "  {name}:");
        for (key, is_deny) in [("allow", false), ("deny", true)] {
            let mut rules = role.rules.iter().filter(|rule| rule.is_deny == is_deny).peekable();
            if rules.peek().is_some() {
                let _ = writeln!(text, "    {key}:");
            }
            for rule in rules {
                if role.is_reserved() {
                    let _ = writeln!(text, "      # {}", rule.name.replace(char::is_control, " "));
                }
                write_rule(text, rule, &mut inexact);
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

/// The users and groups of a grant: `users: ["ann"], groups: ["staff"]`.
fn holders(prefixes: &[String], role: &Role) -> String {
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for caller in &role.callers {
        let (names, source, name) = match caller {
            Caller::User(source, name) => (&mut users, source, name),
            Caller::Group(source, name) => (&mut groups, source, name),
            Caller::Anyone | Caller::Authenticated => continue,
        };
        names.push(format!("{}{name}", prefixes.get(*source).map_or("", String::as_str)));
    }
    let mut lists = Vec::new();
    for (key, names) in [("users", users), ("groups", groups)] {
        if !names.is_empty() {
            lists.push(format!("{key}: [{}]", quoted_list(&names)));
        }
    }
    lists.join(", ")
}

/// `"ann", "bob"`.
fn quoted_list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
}

/// A unique name for a role.
fn role_name(name: &str, names: &mut BTreeSet<String>) -> String {
    let is_reserved = [ANYONE, AUTHENTICATED, ""].contains(&name);
    let name = if is_reserved { format!("role-{name}") } else { name.to_owned() };
    let free = first_free(|suffix| format!("{name}{suffix}"), |name| !names.contains(name));
    names.insert(free.clone());
    free
}

/// The first free name of `name("")`, `name("-2")`, `name("-3")`, and so on.
pub(crate) fn first_free(
    name: impl Fn(&str) -> String,
    is_free: impl Fn(&String) -> bool,
) -> String {
    let suffixes = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    suffixes.map(|suffix| name(&suffix)).find(is_free).unwrap_or_default()
}

fn write_rule(text: &mut String, rule: &Rule, inexact: &mut BTreeSet<usize>) {
    const OPTIONS: &str = "OPTIONS";
    let (paths, has_asterisk) = match &rule.paths {
        None => (vec!["/**".to_owned()], true),
        // The only pattern that is not absolute is `*`.
        Some(paths) => {
            let absolute = paths.iter().filter(|pattern| pattern.absolute);
            (absolute.map(written::pattern).collect(), paths.iter().any(|path| !path.absolute))
        }
    };
    let methods: Option<Vec<String>> =
        rule.methods.as_ref().map(|methods| methods.iter().cloned().collect());
    let has_options = rule.methods.as_ref().is_none_or(|methods| methods.contains(OPTIONS));
    let asterisk = (has_asterisk && has_options)
        .then(|| (Some(vec![OPTIONS.to_owned()]), vec!["*".to_owned()]));
    for (methods, paths) in [(methods, paths)].into_iter().chain(asterisk) {
        if paths.is_empty() {
            continue;
        }
        if !rule.is_exact {
            inexact.insert(text.len());
        }
        let methods = methods.unwrap_or_else(|| vec!["*".to_owned()]);
        let when = When::all(rule.when.iter().cloned());
        let when =
            (!rule.when.is_empty()).then(|| format!(", when: {}", quoted(&when.to_string())));
        let line = match (paths.as_slice(), &rule.hosts) {
            ([path], None) => {
                let rule = quoted(&format!("{} {path}", methods.join("|")));
                when.map_or_else(|| rule.clone(), |when| format!("{{ rule: {rule}{when} }}"))
            }
            (paths, hosts) => {
                let hosts = hosts.as_ref().map(|hosts| {
                    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                    format!(" hosts: [{}],", quoted_list(&hosts))
                });
                format!(
                    "{{ methods: [{}],{} paths: [{}]{} }}",
                    quoted_list(&methods),
                    hosts.unwrap_or_default(),
                    quoted_list(paths),
                    when.unwrap_or_default()
                )
            }
        };
        let _ = writeln!(text, "      - {line}");
    }
}

/// Adds comments that accept the warnings of `rolegate check`, because the original behaves the
/// same way. Also loads the policy: if a bug of this crate made it invalid, that is an error.
pub(crate) fn accept_warnings(
    imported: &mut Imported,
    sources: &Sources,
    inexact: &BTreeSet<usize>,
) -> Result<(), Problem> {
    let warnings = load(imported, sources)?;
    let (mut text, mut start) = (String::new(), 0);
    for (number, line) in (1_u32..).zip(imported.policy.lines()) {
        let kinds: BTreeSet<(u32, Warning)> = warnings
            .iter()
            .filter(|warning| warning.at.line == number)
            .filter_map(|warning| Some((warning.at.column, warning.kind()?)))
            // `lint::load` checks no hashes, so it reports `accept: weak-hash` as unused.
            .filter(|(_, kind)| *kind != Warning::Acceptance)
            // Nothing was imported: the person should see this warning.
            .filter(|(_, kind)| *kind != Warning::NoRoles)
            // An approximated rule that matches nothing may be a mistake of the import.
            .filter(|(_, kind)| *kind != Warning::UnmatchedDeny || !inexact.contains(&start))
            .collect();
        for (_, kind) in kinds {
            write_accept(&mut text, line.len() - line.trim_start().len(), kind);
        }
        text += line;
        text.push('\n');
        start += line.len() + 1;
    }
    imported.policy = text;
    load(imported, sources).map(drop)
}

/// Writes a comment that accepts a warning.
fn write_accept(text: &mut String, indent: usize, kind: Warning) {
    let reason = match kind {
        Warning::UnmatchedDeny => "the original denies it too, and allows it nowhere",
        Warning::TrailingSlash => "the original has this prefix",
        Warning::WeakHash => "the original has these hashes; hash the passwords anew",
        _ => "the original does the same",
    };
    let _ = writeln!(text, "{:indent$}# accept: {kind} because imported: {reason}", "");
}

/// Loads the policy. Returns the warnings that no comment accepts.
fn load(imported: &Imported, sources: &Sources) -> Result<Vec<Problem>, Problem> {
    let mut files = MapFiles::new("policy.yaml", imported.policy.as_bytes());
    for (name, key_set) in &imported.key_sets {
        files = files.and(name, key_set.as_bytes());
    }
    for (name, content) in original_files(sources) {
        files = files.and(name, content.as_bytes());
    }
    let policy = Path::new("policy.yaml");
    match lint::load(&files, policy) {
        Ok(loaded) => {
            let mut warnings = document::unaccepted(&loaded.files, loaded.warnings);
            warnings.retain(|warning| *warning.at.file == *policy);
            Ok(warnings)
        }
        Err(problems) => {
            problems.into_iter().find(|problem| !problem.is_warning()).map_or(Ok(Vec::new()), Err)
        }
    }
}
