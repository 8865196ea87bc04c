//! The section `authzen`: how subjects, actions and resources of the AuthZEN Authorization API 1.0
//! stand for callers, methods, hosts and paths.

use std::fmt;
use std::sync::Arc;

use document::Place;

use super::{ClaimPath, Entities};

/// How requests of AuthZEN are turned into requests that rules match.
#[derive(Clone, Debug)]
pub struct AuthZen {
    /// The types of subjects, with distinct names. Never empty.
    pub subjects: Vec<SubjectType>,
    /// The methods that names of actions stand for, with distinct names.
    pub actions: Vec<ActionName>,
    /// The types of resources, with distinct names. Never empty.
    pub resources: Vec<ResourceType>,
    /// Whether the `context` of a question (an evaluation request) is trusted: then its `time` and
    /// `ip` are the time and the client's address that conditions read.
    pub trust_context: bool,
    /// Subjects and resources with their properties. A search lists them. In a question, their
    /// properties are used where the question has no such property.
    pub entities: Entities,
    /// Where it is configured.
    pub at: Place,
}

/// A type of subjects.
#[derive(Clone, Debug)]
pub struct SubjectType {
    /// The `type`.
    pub name: Arc<str>,
    /// The issuer whose users these subjects are. Then an `id` is a user name without the issuer's
    /// prefix. If `None`, an `id` is a user name that includes the prefix of its source.
    pub issuer: Option<Arc<str>>,
    /// The path of the groups in `properties`. If `None`, `properties` gives no groups.
    pub groups: Option<ClaimPath>,
    /// The path of the roles in `properties`. If `None`, `properties` gives no roles.
    pub roles: Option<ClaimPath>,
    /// Where it is configured.
    pub at: Place,
}

/// The name of an action, and the method that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionName {
    /// The `name`.
    pub name: Arc<str>,
    /// The method.
    pub method: Arc<str>,
}

/// A type of resources.
#[derive(Clone, Debug)]
pub struct ResourceType {
    /// The `type`.
    pub name: Arc<str>,
    /// The canonical host. Without it, only rules without hosts match.
    pub host: Option<Arc<str>>,
    /// The path.
    pub path: ResourcePath,
    /// Where it is configured.
    pub at: Place,
}

/// A path with one or more segments for the `id` of a resource, or a path that is the `id` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath(pub Vec<ResourceSegment>);

/// A segment of a [`ResourcePath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceSegment {
    /// This text, in canonical form.
    Literal(Box<str>),
    /// `{id}`.
    Id,
    /// `{id}` without a slash before it. It is always the only segment: the `id` is the whole path,
    /// such as the route of an API gateway.
    Path,
}

/// The longest `id` of a resource, in bytes. Percent-encoding makes three bytes of one, and the
/// segment must still be shorter than [`MAX_SEGMENT`](crate::canonical::MAX_SEGMENT).
pub const MAX_ID: usize = 1024;

impl AuthZen {
    /// The type of subjects with this name.
    #[must_use]
    pub fn subject(&self, name: &str) -> Option<&SubjectType> {
        self.subjects.iter().find(|subject| *subject.name == *name)
    }

    /// The type of resources with this name.
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<&ResourceType> {
        self.resources.iter().find(|resource| *resource.name == *name)
    }

    /// The method that the name of an action stands for: the method listed in `actions`, else the
    /// name in upper case. The result need not be a known method.
    #[must_use]
    pub fn method(&self, name: &str) -> String {
        let listed = self.actions.iter().find(|action| *action.name == *name);
        listed.map_or_else(|| name.to_ascii_uppercase(), |action| action.method.to_string())
    }
}

impl ResourcePath {
    /// The path of the resource with this `id`. `None` if a segment cannot hold the `id`, such as
    /// `a/b` or `..`, or if the `id` must be the whole path and is no path. Such an `id` is not
    /// encoded: a server that decodes the path before it splits it would see another resource.
    #[must_use]
    pub fn with_id(&self, id: &str) -> Option<String> {
        let mut path = String::new();
        if self.is_whole() && id == "/" {
            return Some(id.to_owned());
        }
        if self.is_whole() {
            for segment in id.strip_prefix('/')?.split('/') {
                push_id(&mut path, segment)?;
            }
            return (id.len() <= MAX_ID).then_some(path);
        }
        for segment in &self.0 {
            match segment {
                ResourceSegment::Literal(text) => path.extend(["/", text]),
                ResourceSegment::Id | ResourceSegment::Path => push_id(&mut path, id)?,
            }
        }
        Some(path)
    }

    /// Whether the `id` is the whole path.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self.0 == [ResourceSegment::Path]
    }

    /// The `id` of the resource that has this canonical path; `None` if no resource has it.
    #[must_use]
    pub fn id(&self, path: &str) -> Option<String> {
        if self.is_whole() {
            return decode(path).filter(|id| self.with_id(id).as_deref() == Some(path));
        }
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let mut encoded = None;
        if segments.len() != self.0.len() {
            return None;
        }
        for (segment, own) in segments.into_iter().zip(&self.0) {
            let is_same = match own {
                ResourceSegment::Literal(text) => segment == &**text,
                ResourceSegment::Id | ResourceSegment::Path => {
                    *encoded.get_or_insert(segment) == segment
                }
            };
            if !is_same {
                return None;
            }
        }
        let id = decode(encoded?)?;
        self.with_id(&id).is_some().then_some(id)
    }
}

impl fmt::Display for ResourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| match segment {
            ResourceSegment::Literal(text) => write!(f, "/{text}"),
            ResourceSegment::Id => f.write_str("/{id}"),
            ResourceSegment::Path => f.write_str("{id}"),
        })
    }
}

/// Adds the segment of an `id`; `None` if no segment can hold it.
fn push_id(path: &mut String, id: &str) -> Option<()> {
    let is_dots = matches!(id, "" | "." | "..");
    if is_dots || id.len() > MAX_ID || id.contains(['/', '\\']) || id.contains(char::is_control) {
        return None;
    }
    path.push('/');
    push_encoded(path, id);
    Some(())
}

/// Percent-encodes the bytes that a segment may not have (RFC 3986, 3.3), and `;`, which begins
/// parameters.
fn push_encoded(path: &mut String, id: &str) {
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// A segment or path, percent-decoded; `None` if a triplet is malformed or the result is not UTF-8.
fn decode(segment: &str) -> Option<String> {
    let mut parts = segment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, after) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(after.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{MAX_ID, ResourcePath, ResourceSegment};

    fn records() -> ResourcePath {
        ResourcePath(vec![ResourceSegment::Literal("records".into()), ResourceSegment::Id])
    }

    #[test]
    fn an_id_becomes_one_segment() {
        for (id, path) in [
            ("101", "/records/101"),
            ("ann@example.com", "/records/ann@example.com"),
            ("a b", "/records/a%20b"),
            ("ü", "/records/%C3%BC"),
            ("a?b#c;d%2F", "/records/a%3Fb%23c%3Bd%252F"),
            ("...", "/records/..."),
            ("{id}", "/records/%7Bid%7D"),
        ] {
            assert_eq!(records().with_id(id).as_deref(), Some(path), "{id}");
            assert_eq!(records().id(path).as_deref(), Some(id), "{id}");
        }
    }

    #[test]
    fn an_id_may_be_the_whole_path() {
        let routes = ResourcePath(vec![ResourceSegment::Path]);
        for (id, path) in [
            ("/todos", "/todos"),
            ("/todos/{todoId}", "/todos/%7BtodoId%7D"),
            ("/a b/%2F", "/a%20b/%252F"),
            ("/", "/"),
        ] {
            assert_eq!(routes.with_id(id).as_deref(), Some(path), "{id}");
            assert_eq!(routes.id(path).as_deref(), Some(id), "{id}");
        }
        let long = format!("/{}", "a/".repeat(MAX_ID));
        for id in ["", "//", "a", "a/b", "/a/", "/a//b", "/a/..", "/./a", "/a\\b", "/\0", &long] {
            assert_eq!(routes.with_id(id), None, "{id:?}");
        }
    }

    #[test]
    fn the_id_of_a_path_is_where_each_placeholder_is() {
        let literal = |text: &str| ResourceSegment::Literal(text.into());
        let files = ResourcePath(vec![literal("homes"), ResourceSegment::Id, literal("files")]);
        let twice = ResourcePath(vec![ResourceSegment::Id, ResourceSegment::Id]);
        assert_eq!(files.id("/homes/a%20b/files").as_deref(), Some("a b"));
        assert_eq!(twice.id("/a/a").as_deref(), Some("a"));
        for path in
            ["/homes/a", "/homes/a/b", "/homes/%2F/files", "/homes/%FF/files", "/homes//files"]
        {
            assert_eq!(files.id(path), None, "{path}");
        }
        assert_eq!(twice.id("/a/b"), None);
    }

    #[test]
    fn an_id_that_a_segment_cannot_hold_has_no_path() {
        let long = "a".repeat(MAX_ID + 1);
        for id in ["", ".", "..", "/", "a/b", "../admin", "a\\b", "a\0", "a\nb", "\u{85}", &long] {
            assert_eq!(records().with_id(id), None, "{id:?}");
        }
    }
}
