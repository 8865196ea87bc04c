//! The section `identity.basic`: users, with their passwords and groups.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::model::{Basic, BasicUser};
use crate::parse::cached_files::CachedFiles;
use crate::parse::htpasswd;
use crate::parse::values::{self, names, prefix};
use document::{
    Fields, Key, Mark, Node, Place, PolicyFile, Problem, Reader, Secret, Value, Warning,
};

const REALM: &str = "rolegate";

pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (key, node): (&Key, &Node),
) -> Option<Basic> {
    let errors = reader.errors();
    let field_names = ["realm", "users", "users_file", "verify", "user_prefix", "group_prefix"];
    let fields = reader.filled_fields(node, "`basic`", &field_names)?;
    let verify = reader.field_boolean(&fields, "verify").unwrap_or(true);
    if !verify && let Some(node) = fields.value("verify") {
        let message = "passwords are not verified: whoever reaches this program may name any user";
        let help = "make sure that something in front has verified them";
        reader.warning_help(node.at, Warning::UnverifiedPasswords, message, help);
    }
    let mut users = Users { verify, ..Users::default() };
    if let Some(node) = fields.value("users") {
        read_users(reader, node, &mut users);
    }
    // Users without a password may have one in the `users_file`. They are not reported if this file
    // could not be read completely, or if the key `users_file` has no value.
    let has_file = fields.field("users_file").is_some();
    if !has_file || read_file(reader, files, &fields, &mut users) {
        users.report_without_password(reader, has_file);
    }
    if verify && users.list.is_empty() && reader.errors() == errors {
        match &users.empty_file {
            Some((at, path)) => {
                let message = format!("`{}` has no users: the file is empty", path.display());
                reader.error_help(*at, message, "add users with `rolegate passwd FILE USER`");
            }
            None => {
                let help = "add `users` or `users_file`, or set `verify: false` where something \
                            in front verifies";
                reader.error_help(key.at, "`basic` has no users", help);
            }
        }
    }
    Some(Basic {
        realm: read_realm(reader, &fields),
        users: users.list,
        verify,
        user_prefix: prefix(reader, &fields, "user_prefix"),
        group_prefix: prefix(reader, &fields, "group_prefix"),
        at: reader.place(key.at),
    })
}

/// Users, without duplicates.
#[derive(Default)]
struct Users {
    /// The places of the names of all users.
    places: HashMap<Arc<str>, Place>,
    list: Vec<BasicUser>,
    /// Users under `users` without a password. Their passwords may be in the `users_file`.
    without_password: HashMap<Arc<str>, (Mark, BasicUser)>,
    verify: bool,
    /// The place that names the `users_file`, and its path, if no line of the file is a user.
    empty_file: Option<(Mark, PathBuf)>,
}

impl Users {
    /// Adds a user of the `users_file`; `at` is the place of its name. Its groups may be under
    /// `users`.
    fn add_from_file(&mut self, reader: &mut Reader, at: Place, user: BasicUser) {
        match self.without_password.remove(&user.name) {
            Some((_, BasicUser { groups, .. })) => {
                // The place of the name is now this line. If the file has the user twice, the
                // problem then names the two lines, not the entry under `users`.
                self.places.insert(user.name.clone(), at);
                self.list.push(BasicUser { groups, ..user });
            }
            None => self.add(reader, at, user),
        }
    }

    /// Reports each user without a password. With a `users_file` this is only a warning, and the
    /// user is left out. An error would keep the old policy active: a user whose line was deleted
    /// from the file would keep its access. If passwords are not verified, adds these users
    /// instead.
    fn report_without_password(&mut self, reader: &mut Reader, has_file: bool) {
        let mut users: Vec<_> = self.without_password.drain().collect();
        users.sort_by_key(|(_, (at, _))| *at);
        for (name, (at, user)) in users {
            if !self.verify {
                self.list.push(user);
            } else if has_file {
                let message = format!("the user `{name}` has no password, and so no access");
                let help = "remove the user here too, or add its line to the `users_file`";
                reader.warning_help(at, Warning::NoPassword, message, help);
            } else {
                let help = "add `password` with what `rolegate hash-password` prints";
                reader.error_help(at, format!("the user `{name}` has no password"), help);
            }
        }
    }

    /// Adds a user; `at` is the place of its name.
    fn add(&mut self, reader: &mut Reader, at: Place, user: BasicUser) {
        if let Some(first) = self.places.get(&user.name) {
            let name = format!("the user `{}`", user.name);
            let help = "leave one of them out";
            reader.push(Problem::defined_twice(at, &name, help, first.clone()));
            return;
        }
        self.places.insert(user.name.clone(), at);
        // If passwords are verified, a user without one is left out: its password was unusable, and
        // that was reported already.
        if user.password.is_some() || !self.verify {
            self.list.push(user);
        }
    }
}

fn read_users(reader: &mut Reader, node: &Node, users: &mut Users) {
    let entries = reader.entries(node, "`users`");
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let Some((user, has_password)) = read_user(reader, key, node) else { continue };
        let at = reader.place(key.at);
        if has_password {
            users.add(reader, at, user);
        } else {
            users.places.insert(user.name.clone(), at);
            users.without_password.insert(user.name.clone(), (key.at, user));
        }
    }
}

/// A user, and whether it has a password, even one that is invalid or under a misspelled key.
fn read_user(reader: &mut Reader, key: &Key, node: &Node) -> Option<(BasicUser, bool)> {
    let has_valid_name = values::is_user_name(reader, key.at, &key.text);
    let mut user = BasicUser {
        name: key.text.clone(),
        password: None,
        groups: Vec::new(),
        at: reader.place(key.at),
    };
    let mut has_password = false;
    if !node.is_nothing() {
        let fields = reader.secret_fields(node, "a user", &["password", "groups"])?;
        has_password = fields.has_misspelled("password");
        if let Some(node) = fields.value("password") {
            has_password = true;
            user.at = reader.place(node.at);
            user.password = read_hash(reader, node);
        }
        let groups = names(reader, &fields, "groups", "a group");
        user.groups = groups.iter().map(|text| text.shared.clone()).collect();
    }
    has_valid_name.then_some((user, has_password))
}

fn read_hash(reader: &mut Reader, node: &Node) -> Option<Secret> {
    if matches!(node.value, Value::Map(_)) {
        let message = "a password must be text, not a mapping";
        return reader.reject(node.at, message, "put the hash in quotes");
    }
    let text = reader.text(node, "a password")?;
    values::is_hash(reader, text.at, text.text).then(|| Secret(text.shared.clone()))
}

/// Adds the users of the `users_file`. False if the file or a line of it cannot be read.
fn read_file(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
    users: &mut Users,
) -> bool {
    let Some(name) = reader.field_text(fields, "users_file") else { return false };
    let help = "paths are relative to the folder of the file that names them; `rolegate passwd FILE \
                USER` creates this file";
    let Some(PolicyFile { path, bytes }) = files.read_named_or_help(reader, &name, help) else {
        return false;
    };
    let (file_users, problems) = htpasswd::parse(&path, &bytes);
    let is_faulty = problems.iter().any(|problem| !problem.is_warning());
    problems.into_iter().for_each(|problem| reader.push(problem));
    if file_users.is_empty() {
        users.empty_file = Some((name.at, path));
    }
    for user in file_users {
        users.add_from_file(reader, Place { column: 1, ..user.at.clone() }, user);
    }
    !is_faulty
}

fn read_realm(reader: &mut Reader, fields: &Fields<'_>) -> Arc<str> {
    let Some(text) = reader.field_text(fields, "realm") else { return REALM.into() };
    if text.text.is_empty()
        || !text.text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    {
        reader.error(text.at, "a realm has printable ASCII characters, at least one");
    }
    text.shared.clone()
}
