//! Suggests a small policy that allows the requests that were allowed, as a starting point.
//!
//! Each caller gets rules for its own requests. If several requests differ only in an id at the
//! same place of the path, the rule has `{id}` there, unless that allows a request that was denied.

use std::collections::{BTreeMap, BTreeSet};

use policy::canonical::{self, Buffers, decoded};
use policy::written::{MAX_METHODS, is_method, literal, quoted};

/// The minimum number of different ids at the same place of a path that are replaced with `{id}`.
const MIN_IDS: usize = 3;

/// Placeholders in the path of a rule. They begin with a character that no canonical path has: a
/// client may send a path with the text `{id}`, which must not become a placeholder.
const ID: &str = "\0id";
const USER: &str = "\0user";
const USER_ID: &str = "\0user.id";

/// The requests that callers have made.
#[derive(Debug, Default)]
pub struct Usage {
    callers: BTreeMap<Option<String>, Requests>,
    count: usize,
    /// The number of requests whose method a rule cannot name.
    unnameable_methods: u64,
}

/// The name of a user without the prefix of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserId<'a> {
    /// The name.
    pub id: &'a str,
    /// `basic`, or the issuer.
    pub source: &'a str,
}

#[derive(Debug, Default)]
struct Requests {
    /// The caller's name without the prefix of its source, and the source. `None` without a prefix,
    /// or if two sources have a user with this name.
    user_id: Option<(String, String)>,
    allowed: BTreeSet<Request>,
    denied: BTreeSet<Request>,
}

/// A request in canonical form, or a rule for such requests: segments may be placeholders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    host: String,
    path: String,
    method: String,
    /// The source of `{user.id}`; empty if the path has none.
    user_id_from: String,
}

/// The caller whose names `{user}` and `{user.id}` stand for.
#[derive(Clone, Copy, Debug, Default)]
struct Caller<'a> {
    user: Option<&'a str>,
    user_id: Option<&'a str>,
}

impl Usage {
    /// Adds a request of this user; `None` is an anonymous caller. A `user_id` is needed if the
    /// source of the user has a prefix. Invalid requests are ignored.
    pub fn add(
        &mut self,
        (user, user_id): (Option<&str>, Option<UserId<'_>>),
        allowed: bool,
        (method, host, path): (&str, &str, &str),
    ) {
        let (mut lowered, mut buffers) = (Vec::new(), Buffers::default());
        let host = canonical::host(host.as_bytes(), &mut lowered);
        let paths = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers);
        let (Ok(host), Ok(paths)) = (host, paths) else { return };
        if !is_method(method) {
            self.unnameable_methods += 1;
            return;
        }
        let user_id = user_id.map(|UserId { id, source }| (id.to_owned(), source.to_owned()));
        let requests = self
            .callers
            .entry(user.map(str::to_owned))
            .or_insert_with(|| Requests { user_id: user_id.clone(), ..Requests::default() });
        // Two sources have a user with this name: a rule with `{user.id}` would match only one
        // user.
        if requests.user_id != user_id {
            requests.user_id = None;
        }
        // All interpretations of an allowed path must be allowed. Of a denied path, only the first
        // interpretation is kept: the canonical path.
        let count = if allowed { usize::MAX } else { 1 };
        for path in paths.all().take(count) {
            let [host, path] = [host, path].map(|text| String::from_utf8_lossy(text).into_owned());
            let request =
                Request { host, path, method: method.to_owned(), user_id_from: String::new() };
            let set = if allowed { &mut requests.allowed } else { &mut requests.denied };
            self.count += usize::from(set.insert(request));
        }
    }

    /// How many requests are left out because a rule cannot name their method.
    #[must_use]
    pub const fn unnameable_methods(&self) -> u64 {
        self.unnameable_methods
    }

    /// How many different requests are kept, for each user. An allowed path counts once for each of
    /// its interpretations. A request that was both allowed and denied counts twice.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no requests.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no request was allowed.
    #[must_use]
    pub fn nothing_allowed(&self) -> bool {
        self.callers.values().all(|requests| requests.allowed.is_empty())
    }

    /// The roles and grants of a policy that gives these requests the same answers.
    #[must_use]
    pub fn policy(&self) -> String {
        let anyone =
            self.callers.get(&None).map(|requests| self.rules(None, requests)).unwrap_or_default();
        // Callers with the same rules share a role.
        let mut roles: BTreeMap<(BTreeSet<Request>, BTreeSet<Request>), Vec<&str>> =
            BTreeMap::new();
        for (user, requests) in &self.callers {
            let Some(user) = user else { continue };
            let mut allow = self.rules(Some(user), requests);
            allow.retain(|rule| !anyone.contains(rule));
            // Requests that `anyone` may make and this user may not.
            let denied = requests.denied.difference(&requests.allowed);
            let deny: BTreeSet<Request> = denied
                .filter(|denied| anyone.iter().any(|rule| rule.matches(denied, Caller::default())))
                .cloned()
                .collect();
            if !allow.is_empty() || !deny.is_empty() {
                roles.entry((allow, deny)).or_default().push(user);
            }
        }
        let mut text = String::from("version: 1\nroles:\n");
        if !anyone.is_empty() {
            write_role(&mut text, "anyone", &anyone, &BTreeSet::new());
        }
        let mut grants = String::from("grants:\n");
        for (number, ((allow, deny), users)) in (1..).zip(&roles) {
            let name = format!("used-{number}");
            write_role(&mut text, &name, allow, deny);
            let users: Vec<String> = users.iter().map(|user| quoted(user)).collect();
            grants += &format!("  {name}: {{ users: [{}] }}\n", users.join(", "));
        }
        if roles.is_empty() { text } else { text + &grants }
    }

    /// The rules for the requests of a caller.
    fn rules(&self, user: Option<&str>, requests: &Requests) -> BTreeSet<Request> {
        let caller = requests.caller(user);
        let source = requests.user_id.as_ref().map_or("", |(_, source)| source);
        let exact: BTreeSet<Request> =
            requests.allowed.iter().map(|request| request.with_user(caller, source)).collect();
        let mut general: BTreeMap<Request, BTreeSet<&Request>> = BTreeMap::new();
        for rule in &exact {
            general.entry(rule.with_ids()).or_default().insert(rule);
        }
        let mut rules = BTreeSet::new();
        for (rule, group) in general.into_values().flat_map(group_by_ids) {
            if group.len() > 1 && !self.is_denied(user, requests, &rule) {
                rules.insert(rule);
            } else {
                rules.extend(group.into_iter().cloned());
            }
        }
        rules
    }

    /// Whether a rule matches a request that was denied to this caller. Without `user`, to any
    /// caller.
    fn is_denied(&self, user: Option<&str>, requests: &Requests, rule: &Request) -> bool {
        match user {
            Some(_) => requests.includes_denied(user, rule),
            None => self.callers.values().any(|requests| requests.includes_denied(user, rule)),
        }
    }
}

impl Requests {
    /// The caller of these requests.
    fn caller<'a>(&'a self, user: Option<&'a str>) -> Caller<'a> {
        Caller { user, user_id: self.user_id.as_ref().map(|(id, _)| &**id) }
    }

    fn includes_denied(&self, user: Option<&str>, rule: &Request) -> bool {
        self.denied.iter().any(|denied| rule.matches(denied, self.caller(user)))
    }
}

impl Request {
    /// This request, with `{user}` or `{user.id}` for each segment that is the name of the caller.
    fn with_user(&self, caller: Caller<'_>, source: &str) -> Self {
        let mut user_id_from = String::new();
        let segments = self.path.split('/').map(|segment| {
            if is_name(segment, caller.user) {
                USER
            } else if is_name(segment, caller.user_id) {
                source.clone_into(&mut user_id_from);
                USER_ID
            } else {
                segment
            }
        });
        let path = segments.collect::<Vec<_>>().join("/");
        Self { path, user_id_from, ..self.clone() }
    }

    /// This request, with `{id}` for each segment that looks like an id.
    fn with_ids(&self) -> Self {
        self.with_ids_at(|_| true)
    }

    /// This request, with `{id}` for each segment that looks like an id, at these places of the
    /// path.
    fn with_ids_at(&self, is_general: impl Fn(usize) -> bool) -> Self {
        let segments = self.path.split('/').enumerate();
        let segments = segments
            .map(|(place, segment)| if is_id(segment) && is_general(place) { ID } else { segment });
        Self { path: segments.collect::<Vec<_>>().join("/"), ..self.clone() }
    }

    /// Whether this, as a rule, matches a request of this caller.
    fn matches(&self, request: &Self, caller: Caller<'_>) -> bool {
        (&self.host, &self.method) == (&request.host, &request.method)
            && self.path.split('/').count() == request.path.split('/').count()
            && self.path.split('/').zip(request.path.split('/')).all(|(rule, segment)| match rule {
                ID => !segment.is_empty(),
                USER => is_name(segment, caller.user),
                USER_ID => is_name(segment, caller.user_id),
                literal => literal == segment,
            })
    }
}

/// Splits requests that differ only in ids into groups, each with its rule. The rule has `{id}`
/// where the group has several different ids. Where the group has few, such as the only tenant of a
/// caller, the rule has the id itself.
fn group_by_ids(requests: BTreeSet<&Request>) -> Vec<(Request, BTreeSet<&Request>)> {
    let mut ids: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for request in &requests {
        for (place, segment) in request.path.split('/').enumerate() {
            if is_id(segment) {
                ids.entry(place).or_default().insert(segment);
            }
        }
    }
    let mut groups: BTreeMap<Request, BTreeSet<&Request>> = BTreeMap::new();
    for request in requests {
        let rule =
            request.with_ids_at(|place| ids.get(&place).is_some_and(|ids| ids.len() >= MIN_IDS));
        groups.entry(rule).or_default().insert(request);
    }
    match groups.len() {
        0 | 1 => groups.into_iter().collect(),
        // The groups differ in ids that their rules keep. Other places may have fewer than
        // `MIN_IDS` ids within a group, so each group is split again.
        _ => groups.into_values().flat_map(group_by_ids).collect(),
    }
}

/// Whether a segment of a path is this name.
fn is_name(segment: &str, name: Option<&str>) -> bool {
    name.is_some_and(|name| decoded(segment.as_bytes()) == name.as_bytes())
}

/// Whether a segment is a number, a UUID, or a long hexadecimal number.
fn is_id(segment: &str) -> bool {
    let mut bytes = segment.bytes();
    match segment.len() {
        0 => false,
        1..16 => bytes.all(|byte| byte.is_ascii_digit()),
        _ => bytes.all(|byte| byte.is_ascii_hexdigit() || byte == b'-'),
    }
}

fn write_role(text: &mut String, name: &str, allow: &BTreeSet<Request>, deny: &BTreeSet<Request>) {
    *text += &format!("  {name}:\n");
    for (key, rules) in [("allow", allow), ("deny", deny)] {
        if rules.is_empty() {
            continue;
        }
        *text += &format!("    {key}:\n");
        // The methods of a path share a rule. `/a?b` and `/a%3Fb` are written alike.
        let mut methods: BTreeMap<(&str, String, &str), BTreeSet<String>> = BTreeMap::new();
        for Request { host, path, method, user_id_from } in rules {
            let rule = (host.as_str(), written(path), user_id_from.as_str());
            methods.entry(rule).or_default().insert(quoted(method));
        }
        for ((host, path, source), methods) in methods {
            let source = match source {
                "" => String::new(),
                source => format!(", user_id_from: [{}]", quoted(source)),
            };
            let host = match host {
                "" => String::new(),
                host => format!(" hosts: [{}],", quoted(host)),
            };
            let path = quoted(&path);
            let methods: Vec<String> = methods.into_iter().collect();
            for methods in methods.chunks(MAX_METHODS) {
                let methods = methods.join(", ");
                *text +=
                    &format!("      - {{ methods: [{methods}],{host} paths: [{path}]{source} }}\n");
            }
        }
    }
}

/// A path in the form of a rule: characters with a meaning in rules are encoded.
fn written(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment {
        ID => "{id}".to_owned(),
        USER => "{user}".to_owned(),
        USER_ID => "{user.id}".to_owned(),
        _ if path == "*" => segment.to_owned(),
        _ => literal(segment),
    });
    segments.collect::<Vec<String>>().join("/")
}

#[cfg(test)]
mod tests;
