//! Checks the names of variables, and members and items of values.

use crate::ConditionError;
use crate::check::{Checked, Checker, Type};
use crate::expression::{Attribute, Expression, QuestionPart};
use crate::syntax::{Syntax, SyntaxKind};

/// The first parts of variables such as `path.id`. They are no values themselves, so `path['id']`
/// means `path.id`.
const ROOTS: [&str; 6] = ["path", "host", "request", "source", "resource", "action"];

/// A map of a request. A condition must name an entry of it, not compute the name.
#[derive(Clone, Copy)]
pub(crate) enum RequestMap {
    /// `request.headers`
    Headers,
    /// `request.query`
    Query,
}

impl RequestMap {
    pub(crate) fn from_syntax(value: &Syntax) -> Option<Self> {
        let SyntaxKind::Select(root, map) = &value.kind else { return None };
        match (&root.kind, &**map) {
            (SyntaxKind::Name(root), "headers") if root == "request" => Some(Self::Headers),
            (SyntaxKind::Name(root), "query") if root == "request" => Some(Self::Query),
            _ => None,
        }
    }

    /// The header or parameter with this name.
    pub(crate) fn entry(self, at: usize, name: &str) -> Result<Attribute, ConditionError> {
        match self {
            Self::Query => Ok(Attribute::Query(name.into())),
            Self::Headers => header(at, name),
        }
    }
}

fn header(at: usize, name: &str) -> Result<Attribute, ConditionError> {
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    let lower = name.to_ascii_lowercase();
    let (message, help) = if !is_name {
        let help = "the name of a header has letters, digits and `-`".to_owned();
        (format!("`{name}` is not the name of a header"), help)
    } else if name != lower {
        let message = format!("the names of headers are in lower case, not `{name}`");
        (message, format!("write `{lower}`"))
    } else if name == "authorization" {
        let message = "the credentials of a request are not for conditions".to_owned();
        (message, "use `user`, `scheme` or `claims`".to_owned())
    } else {
        return Ok(Attribute::Header(name.into()));
    };
    Err(ConditionError::new(at, message, help))
}

/// The variable `ROOT.NAME`, where `value` is the root. `None` if there is no such variable.
pub(crate) fn attribute(value: &Syntax, name: &str) -> Option<(Attribute, Type)> {
    let SyntaxKind::Name(root) = &value.kind else { return None };
    let found = match (&**root, name) {
        ("request", "method") => (Attribute::Method, Type::Text),
        ("request", "host") => (Attribute::Host, Type::Text),
        ("request", "path") => (Attribute::Path, Type::Text),
        ("request", "time") => (Attribute::Time, Type::Time),
        ("source", "ip") => (Attribute::SourceIp, Type::Ip),
        ("source", "certificate") => (Attribute::Certificate, Type::Names),
        ("path", name) => (Attribute::PathPlaceholder(name.into()), Type::Text),
        ("host", name) => (Attribute::HostPlaceholder(name.into()), Type::Text),
        ("resource", "properties") => {
            (Attribute::Question(QuestionPart::ResourceProperties), Type::Dynamic)
        }
        ("action", "properties") => {
            (Attribute::Question(QuestionPart::ActionProperties), Type::Dynamic)
        }
        _ => return None,
    };
    Some(found)
}

impl Checker<'_> {
    pub(crate) fn check_name(
        &self,
        at: usize,
        name: &str,
    ) -> Result<(Expression, Type), ConditionError> {
        if let Some(index) = self.items.iter().rposition(|(item, _)| item == name) {
            let kind = self.items.get(index).map_or(Type::Dynamic, |(_, kind)| *kind);
            return Ok((Expression::Item(self.items.len() - 1 - index), kind));
        }
        let (attribute, kind) = match name {
            "user" => (Attribute::User, Type::Text),
            "roles" => (Attribute::Roles, Type::Names),
            "groups" => (Attribute::Groups, Type::Names),
            "issuer" => (Attribute::Issuer, Type::Text),
            "scheme" => (Attribute::Scheme, Type::Text),
            "claims" => (Attribute::Claims, Type::Dynamic),
            "context" => (Attribute::Question(QuestionPart::Context), Type::Dynamic),
            _ => {
                if let Some(expression) = self.named.get(name) {
                    return Ok((expression.clone(), Type::Bool));
                }
                return Err(self.unknown(at, name));
            }
        };
        Ok((Expression::Attribute(attribute), kind))
    }

    fn unknown(&self, at: usize, name: &str) -> ConditionError {
        let is_root = ROOTS.contains(&name);
        let message = if is_root {
            format!("`{name}` alone is not a value")
        } else {
            format!("unknown name `{name}`")
        };
        let help = match name {
            "request" => {
                "write `request.method`, `host`, `path`, `time`, `headers[…]` or `query[…]`"
            }
            "source" => "write `source.ip` or `source.certificate`",
            "resource" => "write `resource.properties.…`",
            "action" => "write `action.properties.…`",
            "path" | "host" => "write the name of a placeholder after it, such as `path.id`",
            "method" | "headers" | "query" | "time" => "it is a member of `request`",
            "ip" | "client" | "remote_address" => "write `source.ip`",
            "certificate" => "write `source.certificate`",
            _ => {
                "define it under `conditions`, write text in quotes, or use `request.…`, \
                 `source.ip`, `user`, `roles`, `groups`, `issuer`, `scheme`, `claims.…`, \
                 `path.NAME`, `host.NAME`, `resource.properties.…`, `action.properties.…`, \
                 `context.…`"
            }
        };
        let unknown = (!is_root).then(|| name.to_owned());
        ConditionError { unknown, ..ConditionError::new(at, message, help) }
    }

    pub(crate) fn check_member(
        &mut self,
        at: usize,
        value: &Syntax,
        name: &str,
    ) -> Result<Checked, ConditionError> {
        if let Some((attribute, kind)) = attribute(value, name) {
            return Ok(Checked { expression: Expression::Attribute(attribute), kind, at });
        }
        if let Some(map) = RequestMap::from_syntax(value) {
            let expression = Expression::Attribute(map.entry(at, name)?);
            return Ok(Checked { expression, kind: Type::Text, at });
        }
        let object = self.check_object(at, value, name)?;
        let expression = Expression::Member(object, name.into());
        Ok(Checked { expression, kind: Type::Dynamic, at })
    }

    /// Checks the object of `OBJECT.NAME`, if `OBJECT.NAME` is not a variable.
    pub(crate) fn check_object(
        &mut self,
        at: usize,
        object: &Syntax,
        name: &str,
    ) -> Result<Box<Expression>, ConditionError> {
        if let SyntaxKind::Name(root) = &object.kind
            && matches!(&**root, "request" | "source" | "resource" | "action")
        {
            let message = format!("unknown variable `{root}.{name}`");
            let unknown = self.unknown(at, root);
            let help = match name {
                "headers" | "query" => "write a name after it, such as `request.headers['x-name']`",
                "address" | "remote_address" | "client" => "write `source.ip`",
                "body" => "conditions do not see the body",
                "id" if root == "resource" => "write `path.NAME`, of a placeholder of the rule",
                "name" if root == "action" => "write `request.method`",
                _ => &unknown.help,
            };
            return Err(ConditionError::new(at, message, help));
        }
        let object = self.check(object)?;
        if object.kind != Type::Dynamic {
            let message = format!("{} has no member `{name}`", object.kind.name());
            let help = "only `claims`, `resource.properties`, `action.properties` and `context` \
                        have members";
            return Err(ConditionError::new(at, message, help));
        }
        Ok(object.boxed())
    }

    pub(crate) fn check_index(
        &mut self,
        at: usize,
        value: &Syntax,
        index: &Syntax,
    ) -> Result<Checked, ConditionError> {
        let is_request_map = RequestMap::from_syntax(value).is_some();
        let index_checked = self.check(index)?;
        index_checked.expect_value()?;
        if let Some(name) = index_checked.constant_text() {
            let is_root = matches!(&value.kind, SyntaxKind::Name(root)
                if ROOTS.contains(&&**root));
            if is_root || is_request_map {
                return self.check_member(index.at, value, name);
            }
        } else if is_request_map {
            let help = "the names of headers and parameters are known when the policy is loaded";
            let message = "the name is not a text in quotes";
            return Err(ConditionError::new(index.at, message, help));
        }
        let value = self.check(value)?;
        let kind = match value.kind {
            Type::Names => Type::Text,
            Type::Dynamic | Type::List => Type::Dynamic,
            _ => {
                let message = format!("{} has no items", value.kind.name());
                return Err(ConditionError::new(at, message, "only a list has items"));
            }
        };
        if let (Type::Dynamic, Some(name)) = (value.kind, index_checked.constant_text()) {
            let expression = Expression::Member(value.boxed(), name.into());
            return Ok(Checked { expression, kind, at });
        }
        if value.kind != Type::Dynamic {
            index_checked.expect(Type::Number, "an index")?;
        }
        let expression = Expression::Index(value.boxed(), index_checked.boxed());
        Ok(Checked { expression, kind, at })
    }
}
