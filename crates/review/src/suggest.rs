//! A small policy that allows the requests which were allowed, as a starting point for one.
//!
//! Each caller gets rules for its own requests. Segments that look like ids, of which there are several, become `{id}`,
//! unless that allows a request that was denied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use policy::canonical::{self, Buffers, decoded};
use policy::written::{literal, quoted};

/// How many different ids at one place of a path become `{id}`.
const SEVERAL_IDS: usize = 3;

/// Placeholders in the path of a rule. They begin with a character that no canonical path has: a client may send a path
/// with the text `{id}`, which must not become one.
const ID: &str = "\0id";
const USER: &str = "\0user";

/// The requests that callers have made.
#[derive(Debug, Default)]
pub struct Usage {
    callers: BTreeMap<Option<String>, Requests>,
    count: usize,
}

#[derive(Debug, Default)]
struct Requests {
    allowed: BTreeSet<Request>,
    denied: BTreeSet<Request>,
}

/// A request in canonical form, or a rule for such requests: segments may be placeholders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    host: String,
    path: String,
    method: String,
}

impl Usage {
    /// Adds a request of this user; `None` is an anonymous caller. An invalid request is no use of a policy.
    pub fn add(&mut self, user: Option<&str>, allowed: bool, method: &str, host: &str, path: &str) {
        let (mut lowered, mut buffers) = (Vec::new(), Buffers::default());
        let host = canonical::host(host.as_bytes(), &mut lowered);
        let paths = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers);
        let (Ok(host), Ok(paths)) = (host, paths) else { return };
        let requests = self.callers.entry(user.map(str::to_owned)).or_default();
        // All interpretations of a path must be allowed; a request is denied by its canonical one.
        let count = if allowed { usize::MAX } else { 1 };
        for path in paths.all().take(count) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let request = Request { host: text(host), path: text(path), method: method.to_owned() };
            let set = if allowed { &mut requests.allowed } else { &mut requests.denied };
            self.count += usize::from(set.insert(request));
        }
    }

    /// How many different requests there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no request was allowed.
    #[must_use]
    pub fn nothing_allowed(&self) -> bool {
        self.callers.values().all(|requests| requests.allowed.is_empty())
    }

    /// The roles and grants of a policy that allows what was allowed and denies what was denied.
    #[must_use]
    pub fn policy(&self) -> String {
        let anyone = self.callers.get(&None).map(|requests| self.rules(None, requests)).unwrap_or_default();
        // Callers with the same rules have one role.
        let mut roles: BTreeMap<(BTreeSet<Request>, BTreeSet<Request>), Vec<&str>> = BTreeMap::new();
        for (user, requests) in &self.callers {
            let Some(user) = user else { continue };
            let mut allow = self.rules(Some(user), requests);
            allow.retain(|rule| !anyone.contains(rule));
            // What anyone may do and this user may not.
            let denied = requests.denied.difference(&requests.allowed);
            let deny: BTreeSet<Request> = denied
                .filter(|denied| anyone.iter().any(|rule| rule.matches(denied, None)))
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
            // Writing to a `String` never fails.
            let _ = writeln!(grants, "  {name}: {{ users: [{}] }}", users.join(", "));
        }
        if roles.is_empty() { text } else { text + &grants }
    }

    /// The rules for the requests of a caller.
    fn rules(&self, user: Option<&str>, requests: &Requests) -> BTreeSet<Request> {
        let own = |segment: &str| match user {
            Some(user) if decoded(segment.as_bytes()) == user.as_bytes() => USER.to_owned(),
            _ => segment.to_owned(),
        };
        let with_user = |request: &Request| Request {
            path: request.path.split('/').map(own).collect::<Vec<_>>().join("/"),
            ..request.clone()
        };
        let exact: BTreeSet<Request> = requests.allowed.iter().map(with_user).collect();
        let mut general: BTreeMap<Request, BTreeSet<&Request>> = BTreeMap::new();
        for rule in &exact {
            general.entry(rule.with_ids()).or_default().insert(rule);
        }
        let mut rules = BTreeSet::new();
        for (rule, of) in general {
            if of.len() >= SEVERAL_IDS && !self.is_denied(user, requests, &rule) {
                rules.insert(rule);
            } else {
                rules.extend(of.into_iter().cloned());
            }
        }
        rules
    }

    /// Whether a rule matches a request that was denied to this caller, or to any caller if it is for anyone.
    fn is_denied(&self, user: Option<&str>, requests: &Requests, rule: &Request) -> bool {
        let any = |requests: &Requests| requests.denied.iter().any(|denied| rule.matches(denied, user));
        if user.is_some() { any(requests) } else { self.callers.values().any(any) }
    }
}

impl Request {
    /// The same with `{id}` for each segment that looks like an id.
    fn with_ids(&self) -> Self {
        let segments: Vec<&str> =
            self.path.split('/').map(|segment| if is_id(segment) { ID } else { segment }).collect();
        Self { path: segments.join("/"), ..self.clone() }
    }

    /// Whether this, as a rule, matches a request of this user.
    fn matches(&self, request: &Self, user: Option<&str>) -> bool {
        let segment = |(rule, segment): (&str, &str)| match rule {
            ID => !segment.is_empty(),
            USER => user.is_some_and(|user| decoded(segment.as_bytes()) == user.as_bytes()),
            literal => literal == segment,
        };
        (&self.host, &self.method) == (&request.host, &request.method)
            && self.path.split('/').count() == request.path.split('/').count()
            && self.path.split('/').zip(request.path.split('/')).all(segment)
    }
}

/// A number, or a UUID or another long hexadecimal one.
fn is_id(segment: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    !segment.is_empty()
        && (segment.bytes().all(|byte| byte.is_ascii_digit()) || segment.len() >= 16 && hex(segment))
}

fn write_role(text: &mut String, name: &str, allow: &BTreeSet<Request>, deny: &BTreeSet<Request>) {
    let _ = writeln!(text, "  {name}:");
    for (key, rules) in [("allow", allow), ("deny", deny)] {
        if rules.is_empty() {
            continue;
        }
        let _ = writeln!(text, "    {key}:");
        // One rule for all methods of a path.
        let mut methods: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for Request { host, path, method } in rules {
            methods.entry((host, path)).or_default().push(quoted(method));
        }
        for ((host, path), methods) in methods {
            let host = if host.is_empty() { String::new() } else { format!(" hosts: [{}],", quoted(host)) };
            let (methods, path) = (methods.join(", "), quoted(&written(path)));
            let _ = writeln!(text, "      - {{ methods: [{methods}],{host} paths: [{path}] }}");
        }
    }
}

/// A path as a rule: characters that mean something there are encoded.
fn written(path: &str) -> String {
    let segment = |segment: &str| match segment {
        ID => "{id}".to_owned(),
        USER => "{user}".to_owned(),
        _ if path == "*" => segment.to_owned(),
        _ => literal(segment),
    };
    path.split('/').map(segment).collect::<Vec<String>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use policy::MapFiles;

    use super::Usage;

    fn usage(requests: &[(&str, bool, &str)]) -> Usage {
        let mut usage = Usage::default();
        for (user, allowed, request) in requests {
            let (method, path) = request.split_once(' ').unwrap();
            usage.add(
                Some(*user).filter(|user| !user.is_empty()),
                *allowed,
                method,
                "A.example.com:443",
                path,
            );
        }
        let text = usage.policy();
        let loaded = policy::load(&MapFiles::of("policy.yaml", text.as_bytes()), Path::new("policy.yaml"));
        assert!(loaded.is_ok(), "{text}\n{loaded:?}");
        usage
    }

    #[test]
    fn each_caller_has_rules_for_its_requests() {
        let text = usage(&[
            ("", true, "GET /open"),
            ("ann", true, "GET /open"),
            ("ann", true, "GET /users/ann"),
            ("bob", true, "GET /users/bob"),
            ("bob", true, "PUT /users/bob"),
            ("eve", false, "GET /open"),
        ])
        .policy();
        let expected = r#"version: 1
roles:
  anyone:
    allow:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/open"] }
  used-1:
    deny:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/open"] }
  used-2:
    allow:
      - { methods: ["GET"], hosts: ["a.example.com"], paths: ["/users/{user}"] }
  used-3:
    allow:
      - { methods: ["GET", "PUT"], hosts: ["a.example.com"], paths: ["/users/{user}"] }
grants:
  used-1: { users: ["eve"] }
  used-2: { users: ["ann"] }
  used-3: { users: ["bob"] }
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn several_ids_become_a_placeholder_unless_one_of_them_was_denied() {
        let all = [("x", true, "GET /a/1"), ("x", true, "GET /a/22"), ("x", true, "GET /a/333")];
        assert!(usage(&all).policy().contains(r#"paths: ["/a/{id}"]"#));
        assert!(usage(&all[..2]).policy().contains(r#"paths: ["/a/22"]"#));
        let denied = [&all[..], &[("x", false, "GET /a/locked")]].concat();
        assert!(!usage(&denied).policy().contains("{id}"));
    }

    /// A client chooses the path: what it writes there must not become a rule for other paths.
    #[test]
    fn the_text_of_a_placeholder_in_a_request_is_not_one() {
        for path in ["/secrets/{id}", "/secrets/{id%7D", "/secrets/%7Bid}", "/brace/{user}", "/{a}"] {
            for user in ["", "ann"] {
                let text = usage(&[(user, true, &format!("GET {path}"))]).policy();
                assert!(text.contains("%7B") && !text.contains("/{"), "{path}: {text}");
            }
        }
    }

    #[test]
    fn any_path_can_be_written() {
        for path in
            ["/", "/a*b", "/:id", "/a(b)+", "/a%25b", "/a;x=1/b", "/%C3%A9", "/a@b:c", "/~a", "/a,b", "/a/"]
        {
            usage(&[("a", true, &format!("GET {path}"))]);
        }
        usage(&[("a", true, "OPTIONS *"), ("\"b\\", true, "M-SEARCH /a")]);
    }
}
