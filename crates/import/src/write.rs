//! The text of the imported policy.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use document::{MapFiles, Problem, Warning};

use crate::Imported;
use crate::lower::{Role, Rule};
use crate::sources::{Issuer, Keys, Kind, Source, Sources, Users};
use crate::spelling;
use crate::term::Caller;
use policy::written;

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) policy: String,
    pub(crate) key_sets: Vec<(String, String)>,
    /// Where the lines of rules begin that are not exactly what the original has.
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
                    let key_set = match &issuer.keys {
                        Keys::Inline(key_set) => {
                            Some((key_set_file(&source.name, &mut files), key_set.clone()))
                        }
                        Keys::Url(_) | Keys::File(_) | Keys::Discovery => None,
                    };
                    let file = key_set.as_ref().map(|(file, _)| file.as_str());
                    write_issuer(&mut issuers, source, issuer, prefix, file);
                    key_sets.extend(key_set);
                }
            }
        }
        if !issuers.is_empty() {
            text += "  jwt:\n";
            text += &issuers;
        }
    }
    let inexact = write_roles(&mut text, &prefixes, roles);
    // The header must never be one that the client has sent.
    if let Some((header, _)) = sources.user_header() {
        let _ = writeln!(
            text,
            "allow_response:\n  set_headers: {{ {}: \"{{user}}\" }}",
            written::quoted(header)
        );
    }
    Written { policy: text, key_sets, inexact }
}

// Writing to a `String` never fails.

fn write_basic(text: &mut String, users: &Users, prefix: &str) {
    text.push_str("  basic:\n");
    match users {
        Users::Inline(users) => {
            text.push_str("    users:\n");
            for (name, hash) in users {
                // Envoy has no others.
                if hash.starts_with("{SHA}") {
                    let (kind, reason) = (Warning::WeakHash, reason(Warning::WeakHash));
                    let _ = writeln!(text, "      # accept: {kind} because imported: {reason}");
                }
                let (name, hash) = (written::quoted(name), written::quoted(hash));
                let _ = writeln!(text, "      {name}: {{ password: {hash} }}");
            }
        }
        Users::File(file) => _ = writeln!(text, "    users_file: {}", written::quoted(file)),
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
    let _ = writeln!(text, "      audiences: [{}]", quoted_list(&issuer.audiences));
    let keys = match &issuer.keys {
        Keys::Url(url) => format!("url: {}", written::quoted(url)),
        Keys::File(file) => format!("file: {}", written::quoted(file)),
        Keys::Discovery => "discovery: true".to_owned(),
        Keys::Inline(_) => format!("file: {}", written::quoted(key_set_file.unwrap_or_default())),
    };
    let _ = writeln!(text, "      keys: {{ {keys} }}");
    let claim = |claim: &RefCell<Option<Vec<String>>>| claim.borrow().as_deref().map(pointer);
    let user = claim(&source.user_claim).unwrap_or_else(|| written::quoted("sub"));
    let groups =
        claim(&source.group_claim).map(|claim| format!(", groups: {claim}")).unwrap_or_default();
    let _ = writeln!(text, "      claims: {{ user: {user}{groups} }}");
    if let Some(skew) = &issuer.clock_skew {
        let _ = writeln!(text, "      clock_skew: {skew}");
    }
    write_prefix(text, prefix, "      ");
}

/// The files that the original names, with a content that is valid in their place: they exist only
/// where Envoy runs.
fn original_files(sources: &Sources) -> impl Iterator<Item = (&str, &'static str)> {
    sources.all.iter().filter_map(|source| match &source.kind {
        Kind::Basic { users: Users::File(file), .. } => {
            Some((file.as_str(), "user:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n"))
        }
        Kind::Jwt(Issuer { keys: Keys::File(file), .. }) => Some((
            file.as_str(),
            r#"{"keys":[{"kty":"oct","alg":"HS256","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#,
        )),
        Kind::Basic { .. } | Kind::Jwt(_) => None,
    })
}

/// The name of the file of a key set, which no other file has, also where the file system ignores
/// case: two issuers with one file could sign each other's tokens.
fn key_set_file(source: &str, files: &mut BTreeSet<String>) -> String {
    let name: String = source
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    let free = spelling::first_free(
        |number| format!("{name}{number}.jwks.json"),
        |file| !files.contains(&file.to_ascii_lowercase()),
    );
    files.insert(free.to_ascii_lowercase());
    free
}

/// A claim, by its name or as a JSON pointer.
fn pointer(claim: &[String]) -> String {
    match claim {
        [name] if !name.starts_with('/') => written::quoted(name),
        names => {
            let escaped =
                names.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
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
            let rules: Vec<&Rule> =
                role.rules.iter().filter(|rule| rule.is_deny == is_deny).collect();
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
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for caller in &role.callers {
        let (names, source, name) = match caller {
            Caller::User(source, name) => (&mut users, source, name),
            Caller::Group(source, name) => (&mut groups, source, name),
            Caller::Anyone | Caller::Authenticated => continue,
        };
        names.push(format!("{}{name}", prefixes.get(*source).map_or("", String::as_str)));
    }
    let lists =
        [("users", users), ("groups", groups)].into_iter().filter(|(_, names)| !names.is_empty());
    lists
        .map(|(key, names)| format!("{key}: [{}]", quoted_list(&names)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `"ann", "bob"`.
fn quoted_list(texts: &[String]) -> String {
    texts.iter().map(|text| written::quoted(text)).collect::<Vec<_>>().join(", ")
}

/// A name that no other role has.
fn unique(name: &str, names: &mut BTreeSet<String>) -> String {
    let is_reserved = [policy::model::ANYONE, policy::model::AUTHENTICATED, ""].contains(&name);
    let name = if is_reserved { format!("role-{name}") } else { name.to_owned() };
    let free =
        spelling::first_free(|number| format!("{name}{number}"), |name| !names.contains(name));
    names.insert(free.clone());
    free
}

fn write_rule(text: &mut String, rule: &Rule, is_named: bool, inexact: &mut BTreeSet<usize>) {
    if is_named {
        let _ = writeln!(text, "      # {}", rule.name.replace(char::is_control, " "));
    }
    let paths: Vec<String> = match &rule.paths {
        None => vec!["/**".to_owned()],
        Some(paths) => {
            paths.iter().filter(|pattern| pattern.absolute).map(written::pattern).collect()
        }
    };
    let methods = rule.methods.as_ref().map(|methods| methods.iter().cloned().collect::<Vec<_>>());
    let options = "OPTIONS".to_owned();
    let has_asterisk =
        rule.paths.as_ref().is_none_or(|paths| paths.iter().any(|path| !path.absolute));
    let has_options = methods.as_ref().is_none_or(|methods| methods.contains(&options));
    let of_server =
        (has_asterisk && has_options).then(|| (Some(vec![options]), vec!["*".to_owned()]));
    for (methods, paths) in [(methods, paths)].into_iter().chain(of_server) {
        if paths.is_empty() {
            continue;
        }
        if !rule.is_exact {
            inexact.insert(text.len());
        }
        let line = match (paths.as_slice(), &rule.hosts) {
            ([path], None) => {
                let methods = methods.map_or_else(|| "*".to_owned(), |methods| methods.join("|"));
                written::quoted(&format!("{methods} {path}"))
            }
            (paths, hosts) => {
                let methods = quoted_list(&methods.unwrap_or_else(|| vec!["*".to_owned()]));
                let hosts: Option<Vec<String>> =
                    hosts.as_ref().map(|hosts| hosts.iter().map(ToString::to_string).collect());
                let hosts = hosts.map(|hosts| format!(" hosts: [{}],", quoted_list(&hosts)));
                let hosts = hosts.unwrap_or_default();
                format!("{{ methods: [{methods}],{hosts} paths: [{}] }}", quoted_list(paths))
            }
        };
        let _ = writeln!(text, "      - {line}");
    }
}

/// Adds comments that accept the warnings of `rolegate check`, because what they are about is as in
/// the original. Loads the policy, so that a mistake of this crate is an error and not a policy
/// with another meaning.
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
            // Whether a hash is weak is not checked here, so a comment about one seems to accept
            // nothing. If nothing could be imported, who imports should be warned.
            .filter(|(_, kind)| ![Warning::Acceptance, Warning::NoRoles].contains(kind))
            // Where that is only nearly so in the original, who imports should see whether it
            // should match something.
            .filter(|(_, kind)| *kind != Warning::UnmatchedDeny || !inexact.contains(&start))
            .collect();
        for (_, kind) in of_line {
            let _ =
                writeln!(text, "{:indent$}# accept: {kind} because imported: {}", "", reason(kind));
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
    for (name, content) in original_files(sources) {
        files = files.and(name, content.as_bytes());
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
