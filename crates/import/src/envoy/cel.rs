//! The condition of an RBAC policy: a parsed expression of CEL (`google.api.expr.v1alpha1.Expr`),
//! written as text again.
//!
//! An expression is imported only if its variables and functions mean the same in Envoy and in
//! rolegate. If Envoy cannot compute a condition, the condition is false, even in a policy that
//! denies.

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::note::Effect;
use crate::sources::Sources;
use crate::when::{Doubt, When, quoted};

/// The maximum depth of an expression in a policy.
const MAX_DEPTH: usize = 32;

const COMPARISONS: [(&str, &str); 8] = [
    ("_==_", "=="),
    ("_!=_", "!="),
    ("_<_", "<"),
    ("_<=_", "<="),
    ("_>_", ">"),
    ("_>=_", ">="),
    ("@in", "in"),
    ("_in_", "in"),
];
const METHODS: [&str; 15] = [
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "size",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];
const FUNCTIONS: [&str; 4] = ["size", "matches", "timestamp", "duration"];

/// The condition of an expression.
pub(crate) fn condition(expr: &View<'_>, sources: &Sources) -> Expr {
    let mut headers = Vec::new();
    let when = match translate(expr, false, 0, &mut headers) {
        Ok(when) => when,
        Err(Unsupported { at, part }) => {
            return at.inexpressible(format!("{part} cannot be expressed in a condition"));
        }
    };
    if headers.iter().any(|name| sources.sets_header(name)) {
        return expr.inexpressible("a filter that is not imported sets a header of this condition");
    }
    let names: Vec<String> = headers.iter().map(|name| format!("`{name}`")).collect();
    let lines = match names.as_slice() {
        [] => String::new(),
        names => format!(", or with several lines of {},", names.join(", ")),
    };
    let message = format!(
        "a request for which the condition in CEL cannot be computed{lines} is denied where the \
         condition decides"
    );
    let doubt = Doubt { note: expr.note(Effect::Unusual, message), only_negated: names.is_empty() };
    expr.when(when, Some(doubt))
}

/// A part that conditions do not have, or that means something else in them.
struct Unsupported<'n> {
    at: View<'n>,
    part: String,
}

/// The condition of an expression, or of its negation. It is false if Envoy has an error because a
/// header is absent. The names of the headers that it reads are added to `headers`.
///
/// Negations are moved inward to the comparisons, so that an error in a comparison can count as
/// false: `&&` and `||` are true with an error only if they are also true with false in its place.
fn translate<'n>(
    expr: &View<'n>,
    negated: bool,
    depth: usize,
    headers: &mut Vec<String>,
) -> Result<When, Unsupported<'n>> {
    if depth == MAX_DEPTH {
        return Err(unsupported(expr, "an expression that is nested so deep"));
    }
    let call = expr.get("call_expr").filter(|call| {
        expr.values_except("id call_expr").is_empty()
            && call.values_except("function args").is_empty()
    });
    let arguments = call.as_ref().map(|call| call.list("args")).unwrap_or_default();
    let function = call.as_ref().and_then(|call| call.text_of("function")).unwrap_or_default();
    match (function, arguments.as_slice()) {
        ("!_", [operand]) => translate(operand, !negated, depth + 1, headers),
        ("_&&_" | "_||_", [left, right]) => {
            let operands = [
                translate(left, negated, depth + 1, headers)?,
                translate(right, negated, depth + 1, headers)?,
            ];
            let is_and = (function == "_&&_") != negated;
            Ok(if is_and { When::all(operands) } else { When::any(operands) })
        }
        ("_?_:_", [condition, then, otherwise]) => {
            let mut branches = Vec::new();
            for (part, is_otherwise) in [(then, false), (otherwise, true)] {
                branches.push(When::all([
                    translate(condition, is_otherwise, depth + 1, headers)?,
                    translate(part, negated, depth + 1, headers)?,
                ]));
            }
            Ok(When::any(branches))
        }
        _ => {
            let mut writer = Writer { text: String::new(), read: Vec::new() };
            writer.write(expr, depth)?;
            let is_there =
                |name: &String| When::Test(format!("{} in request.headers", quoted(name)));
            let guards: Vec<When> = writer.read.iter().map(is_there).collect();
            headers.extend(writer.read);
            headers.sort();
            headers.dedup();
            let test = When::Test(writer.text);
            let test = if negated { test.negated() } else { test };
            Ok(When::all(guards.into_iter().chain([test])))
        }
    }
}

/// Writes a comparison or a part of it.
struct Writer {
    text: String,
    /// The headers whose values are read.
    read: Vec<String>,
}

impl Writer {
    fn write<'n>(&mut self, expr: &View<'n>, depth: usize) -> Result<(), Unsupported<'n>> {
        let entries = expr.entries();
        let mut kinds = entries.iter().filter(|(key, _)| key != "id");
        let (Some((kind, value)), None, true) = (kinds.next(), kinds.next(), depth < MAX_DEPTH)
        else {
            return Err(unsupported(expr, "this expression"));
        };
        match kind.as_str() {
            "const_expr" => self.write_constant(value),
            "select_expr" => self.write_select(value),
            "call_expr" => self.write_call(value, depth),
            "list_expr" if value.values_except("elements").is_empty() => {
                self.write_all("[", &value.list("elements"), "]", depth)
            }
            "ident_expr" => {
                let name = value.text_of("name").unwrap_or_default();
                Err(unsupported(value, &format!("the variable `{name}`")))
            }
            _ => Err(unsupported(value, &format!("`{kind}`"))),
        }
    }

    fn write_all<'n>(
        &mut self,
        open: &str,
        items: &[View<'n>],
        close: &str,
        depth: usize,
    ) -> Result<(), Unsupported<'n>> {
        self.text += open;
        for (index, item) in items.iter().enumerate() {
            self.text += if index > 0 { ", " } else { "" };
            self.write(item, depth + 1)?;
        }
        self.text += close;
        Ok(())
    }

    fn write_constant<'n>(&mut self, constant: &View<'n>) -> Result<(), Unsupported<'n>> {
        let entries = constant.entries();
        let wrong = || unsupported(constant, "this constant");
        let [(kind, value)] = entries.as_slice() else { return Err(wrong()) };
        match kind.as_str() {
            "bool_value" => self.text += &value.boolean().ok_or_else(wrong)?.to_string(),
            "string_value" => self.text += &quoted(value.text().unwrap_or_default()),
            "int64_value" => {
                let number: i64 =
                    value.text().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
                self.text += &number.to_string();
            }
            "double_value" => {
                let number: f64 =
                    value.text().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
                if !number.is_finite() {
                    return Err(wrong());
                }
                self.text += &format!("{number:?}");
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// A member of `request`, or whether there is a header.
    fn write_select<'n>(&mut self, select: &View<'n>) -> Result<(), Unsupported<'n>> {
        let field = select.text_of("field").unwrap_or_default();
        let operand = select.get("operand");
        let root = operand.as_ref().and_then(|operand| operand.text_of("ident_expr/name"));
        let is_test = select.is_true("test_only");
        let is_known = select.values_except("operand field test_only").is_empty();
        match (root, field) {
            // In rolegate, the path has no query and the host has no port, unlike in Envoy. Only
            // `method` and `time` mean the same.
            (Some("request"), "method" | "time") if !is_test && is_known => {
                self.text += &format!("request.{field}");
                Ok(())
            }
            (None, field) if is_known && operand.as_ref().is_some_and(is_headers) => {
                let name = header(field, select)?;
                if is_test {
                    self.text += &format!("{} in request.headers", quoted(&name));
                } else {
                    self.write_header(name);
                }
                Ok(())
            }
            (Some(root), field) => {
                Err(unsupported(select, &format!("the variable `{root}.{field}`")))
            }
            (None, field) => Err(unsupported(select, &format!("the member `{field}`"))),
        }
    }

    fn write_call<'n>(&mut self, call: &View<'n>, depth: usize) -> Result<(), Unsupported<'n>> {
        let function = call.text_of("function").unwrap_or_default();
        let arguments = call.list("args");
        let target = call.get("target");
        if let Some(unknown) = call.values_except("function args target").into_iter().next() {
            return Err(unsupported(&unknown, "this field"));
        }
        let comparison = COMPARISONS.iter().find(|(name, _)| *name == function);
        match (target, arguments.as_slice(), comparison) {
            (None, [map, key], _) if function == "_[_]" && is_headers(map) => {
                self.write_header(header_of(key)?);
                Ok(())
            }
            (None, [key, map], Some((_, "in"))) if is_headers(map) => {
                self.text += &format!("{} in request.headers", quoted(&header_of(key)?));
                Ok(())
            }
            // Some text is already written: the left side of a comparison, or a call around this
            // one.
            (None, _, Some(_)) if !self.text.is_empty() => {
                Err(unsupported(call, "a comparison in another one"))
            }
            (None, [left, right], Some((_, operator))) => {
                self.write(left, depth + 1)?;
                self.text += &format!(" {operator} ");
                self.write(right, depth + 1)?;
                Ok(())
            }
            (Some(target), arguments, _) if METHODS.contains(&function) => {
                self.write(&target, depth + 1)?;
                self.text += &format!(".{function}");
                self.write_all("(", arguments, ")", depth)
            }
            (None, arguments, _) if FUNCTIONS.contains(&function) => {
                self.text += function;
                self.write_all("(", arguments, ")", depth)
            }
            _ => Err(unsupported(call, &format!("the function `{function}`"))),
        }
    }

    fn write_header(&mut self, name: String) {
        self.text += &format!("request.headers[{}]", quoted(&name));
        if !self.read.contains(&name) {
            self.read.push(name);
        }
    }
}

/// The header that a constant names.
fn header_of<'n>(key: &View<'n>) -> Result<String, Unsupported<'n>> {
    match key.text_of("const_expr/string_value") {
        Some(name) => header(name, key),
        None => Err(unsupported(key, "a header whose name is no constant")),
    }
}

/// The name of a header in lower case.
fn header<'n>(name: &str, at: &View<'n>) -> Result<String, Unsupported<'n>> {
    match name.to_ascii_lowercase() {
        // In Envoy, this header may have a port and upper case. rolegate's host is canonical.
        name if name == "host" => Err(unsupported(at, "the header `host`")),
        name => Ok(name),
    }
}

fn unsupported<'n>(at: &View<'n>, part: &str) -> Unsupported<'n> {
    Unsupported { at: at.clone(), part: part.to_owned() }
}

/// Whether an expression is `request.headers`.
fn is_headers(expr: &View<'_>) -> bool {
    expr.text_of("select_expr/field") == Some("headers")
        && expr.text_of("select_expr/operand/ident_expr/name") == Some("request")
        && !expr.is_true("select_expr/test_only")
}
