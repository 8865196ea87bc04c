//! The section `identity`: how callers authenticate.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::load::sources::{Sources, beside};
use crate::load::{htpasswd, jwt, password, rule};
use crate::model::{Basic, BasicUser, Identity, Secret};
use crate::problem::{Place, Problem};
use crate::report::{Fields, Report, Text};
use crate::yaml::{Key, Node, Value};

const BASIC: &[&str] = &["realm", "users", "users_file", "verify", "user_prefix", "group_prefix"];

/// The default realm of the challenge.
const REALM: &str = "rolegate";

/// Reads `identity`.
pub(crate) fn read(
    report: &mut Report,
    sources: &mut Sources<'_>,
    file: &Path,
    node: &Node,
) -> Option<Identity> {
    let fields = report.fields(node, "`identity`", &["basic", "jwt"])?;
    let basic = fields.field("basic").and_then(|field| basic(report, sources, file, field));
    let jwt = fields.value("jwt").map(|node| jwt::read(report, sources, file, node));
    Some(Identity { basic, jwt: jwt.unwrap_or_default() })
}

fn basic(
    report: &mut Report,
    sources: &mut Sources<'_>,
    file: &Path,
    (key, node): (&Key, &Node),
) -> Option<Basic> {
    let fields = report.fields(node, "`basic`", BASIC)?;
    let errors = report.errors();
    let verify =
        fields.value("verify").and_then(|node| report.boolean(node, "`verify`").map(|it| (it, node)));
    if let Some((false, node)) = verify {
        let message = "passwords are not verified: whoever reaches this program may name any user";
        report.warning_help(node.at, message, "make sure that something in front has verified them");
    }
    let verify = verify.is_none_or(|(verify, _)| verify);
    let mut users = Users { known: HashMap::new(), list: Vec::new() };
    if let Some(node) = fields.value("users") {
        inline(report, node, verify, &mut users);
    }
    if let Some(node) = fields.value("users_file") {
        from_file(report, sources, file, node, &mut users);
    }
    if verify && users.list.is_empty() && report.errors() == errors {
        let help = "add `users` or `users_file`, or set `verify: false` where something in front verifies";
        report.error_help(key.at, "`basic` has no users", help);
    }
    Some(Basic {
        realm: realm(report, &fields),
        users: users.list,
        verify,
        user_prefix: prefix(report, &fields, "user_prefix"),
        group_prefix: prefix(report, &fields, "group_prefix"),
        at: report.place(key.at),
    })
}

/// Users, without duplicates.
struct Users {
    known: HashMap<Arc<str>, Place>,
    list: Vec<BasicUser>,
}

impl Users {
    /// Adds a user; `at` is the place of its name.
    fn add(&mut self, report: &mut Report, at: Place, user: BasicUser) {
        if let Some(first) = self.known.get(&user.name) {
            let problem = Problem::error(at, format!("the user `{}` is defined twice", user.name))
                .help("leave one of them out")
                .related(first.clone(), "the first is here");
            report.push(problem);
            return;
        }
        self.known.insert(user.name.clone(), at);
        self.list.push(user);
    }
}

fn inline(report: &mut Report, node: &Node, verify: bool, users: &mut Users) {
    let entries = report.entries(node, "`users`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        if let Some(user) = user(report, key, node, verify) {
            let at = report.place(key.at);
            users.add(report, at, user);
        }
    }
}

fn user(report: &mut Report, key: &Key, node: &Node, verify: bool) -> Option<BasicUser> {
    let named = password::is_user_name(report, key.at, &key.text);
    if node.is_nothing() {
        if verify && named {
            no_password(report, key);
        }
        let at = report.place(key.at);
        return named.then(|| BasicUser { name: key.text.clone(), password: None, groups: Vec::new(), at });
    }
    if matches!(node.value, Value::Scalar(_)) {
        let help = "write `{ password: \"…\" }` with a hash";
        report.error_help(node.at, "a user must be a mapping, not text", help);
        return None;
    }
    let fields = report.secret_fields(node, "a user", &["password", "groups"])?;
    let hash = fields.value("password").and_then(|node| secret(report, node));
    if verify && named && fields.value("password").is_none() {
        no_password(report, key);
    }
    let groups = fields.value("groups").map(|node| names(report, node, "`groups`", "a group"));
    let at = fields.value("password").map_or(key.at, |node| node.at);
    named.then(|| BasicUser {
        name: key.text.clone(),
        password: hash,
        groups: groups.unwrap_or_default(),
        at: report.place(at),
    })
}

fn no_password(report: &mut Report, key: &Key) {
    let help = "add `password` with what `rolegate hash-password` prints";
    report.error_help(key.at, format!("the user `{}` has no password", key.text), help);
}

fn secret(report: &mut Report, node: &Node) -> Option<Secret> {
    if matches!(node.value, Value::Map(_)) {
        report.error_help(node.at, "a password must be text, not a mapping", "put the hash in quotes");
        return None;
    }
    let (text, hash) = report.shared(node, "a password")?;
    password::check(report, text.at, text.text).then(|| Secret(hash.clone()))
}

fn from_file(report: &mut Report, sources: &mut Sources<'_>, file: &Path, node: &Node, users: &mut Users) {
    let Some(name) = report.text(node, "`users_file`") else { return };
    if !names_a_file(report, &name) {
        return;
    }
    let path = beside(file, name.text);
    match sources.read(&path) {
        Ok(bytes) => {
            let (read, problems) = htpasswd::parse(&path, &bytes);
            problems.into_iter().for_each(|problem| report.push(problem));
            for user in read {
                users.add(report, Place { column: 1, ..user.at.clone() }, user);
            }
        }
        Err(error) => unreadable(report, name.at, &path, &error),
    }
}

/// Whether a file name is not a URL by mistake. A URL may contain a secret, so it is never shown.
pub(crate) fn names_a_file(report: &mut Report, name: &Text<'_>) -> bool {
    let is_url = name.text.contains("://");
    if is_url {
        let help = "name a file; keys at a URL are `keys: { url: … }`";
        report.error_help(name.at, "a URL stands where a file is expected", help);
    }
    !is_url
}

/// Reports a file that cannot be read.
pub(crate) fn unreadable(report: &mut Report, at: crate::yaml::Mark, path: &Path, error: &str) {
    let message = format!("cannot read `{}`: {error}", path.display());
    report.error_help(at, message, "paths are relative to the folder of the file that names them");
}

fn realm(report: &mut Report, fields: &Fields<'_>) -> Arc<str> {
    let Some((text, realm)) = fields.value("realm").and_then(|node| report.shared(node, "`realm`")) else {
        return REALM.into();
    };
    if text.text.is_empty() || !text.text.bytes().all(|it| it == b' ' || it.is_ascii_graphic()) {
        report.error(text.at, "a realm has printable ASCII characters, at least one");
    }
    realm.clone()
}

/// The value of `user_prefix` or `group_prefix`.
pub(crate) fn prefix(report: &mut Report, fields: &Fields<'_>, key: &str) -> Arc<str> {
    let text = fields.value(key).and_then(|node| report.shared(node, &format!("`{key}`")));
    let Some((text, prefix)) = text else { return "".into() };
    if text.text.chars().any(char::is_control) {
        report.error(text.at, format!("`{key}` has a control character in it"));
    }
    prefix.clone()
}

/// A list of names, none of them empty.
pub(crate) fn names(report: &mut Report, node: &Node, what: &str, item: &str) -> Vec<Arc<str>> {
    let texts = report.texts(node, what, item);
    report.warn_of_repetition(&texts);
    let valid = texts.into_iter().filter(|(text, _)| rule::is_name(report, text.at, text.text, item));
    valid.map(|(_, name)| name.clone()).collect()
}
