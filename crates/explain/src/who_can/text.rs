//! Who may make a request, as text for people.

use std::fmt::{Display, Formatter, Result};

use review::{CallerSource, quote_names};

use super::{Attribute, Callers, MatchingRule, WhoCan};
use crate::explanation::write_request;
use crate::one_line::{OneLine, write_condition, write_lines};

/// The maximum number of names that are shown for a pattern that matches them.
const MAX_NAMES: usize = 3;

impl Display for WhoCan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let (Some(name), Some(because)) = (self.reason, &self.because) {
            // The texts of these reasons already say that the request is invalid or unsupported.
            let prefix = match name {
                "unknown_operation" | "unsupported_operation" | "body_needed" => "",
                "invalid_operation" => "the request is ",
                _ => "the request is invalid: ",
            };
            write!(f, "nobody: {prefix}{} ({name})", OneLine(because))?;
        } else if self.callers.is_empty() {
            f.write_str(if self.left_out {
                "not known: finding the callers who may takes too many steps"
            } else if self.cluster.is_some() {
                "nobody: no caller can have the roles of the search cluster that permit it"
            } else if self.rules.iter().all(|rule| rule.rule.denies) {
                "nobody: no rule allows it"
            } else {
                "nobody: no caller can have a role that allows it without one that denies it"
            })?;
        }
        let callers: Vec<String> = self.callers.iter().map(ToString::to_string).collect();
        f.write_str(&callers.join("\n"))?;
        let host = self.host.as_deref().unwrap_or_default();
        write_request(f, (&self.method, host, &self.paths), self.cluster.as_deref())?;
        let needs = self.cluster.iter().flat_map(|cluster| &cluster.needs);
        write_lines(f, "needs:   ", needs)?;
        write_lines(f, "rule:    ", &self.rules)?;
        write_lines(f, "nearly:  ", &self.nearly)?;
        write_lines(f, "note:    ", &self.notes)
    }
}

impl Display for Callers {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.source.describe_callers(self.users.as_deref(), usize::MAX))?;
        let needs: Vec<Alternatives> =
            self.condition.needs.iter().map(|list| Alternatives::new(list, true)).collect();
        let (conditions, unless) = self.unless();
        let unless = Alternatives::new(&unless, false);
        let mut limits = String::new();
        if let Some(until) = &self.until {
            limits += &format!(", until {until}");
        }
        if !self.except_users.is_empty() {
            let users = quote_names("user", &self.except_users, "and", usize::MAX);
            limits += &format!(", except for {users}");
        }
        // A sentence never mixes "or" and "and". Such needs are written as a list.
        let fit_in_a_sentence = match needs.as_slice() {
            [] => true,
            [list] => list.fit_in_a_sentence(),
            lists => {
                lists.iter().all(|list| list.texts.len() == 1 && !list.sentence().contains(" or `"))
            }
        };
        let separator = if fit_in_a_sentence {
            let has_tokens_of_users =
                matches!(self.source, CallerSource::Token { .. }) && self.users.is_some();
            let mut separator = if has_tokens_of_users { ", " } else { " " };
            for list in &needs {
                write!(f, "{separator}with {}", list.sentence())?;
                separator = " and ";
            }
            f.write_str(&limits)?;
            ", "
        } else {
            match needs.as_slice() {
                [list] => write_list(f, &format!("{limits} with one of these:"), &list.texts)?,
                lists => {
                    let items: Vec<String> = lists.iter().map(Alternatives::item).collect();
                    write_list(f, &format!("{limits} with all of these:"), &items)?;
                }
            }
            "\n  "
        };
        if let Some(when) = &self.when {
            write!(f, "{separator}where {}", OneLine(when))?;
        }
        if !conditions.is_empty() {
            write!(f, "{separator}unless {}", OneLine(conditions.join(" || ")))?;
        }
        if unless.texts.is_empty() {
            Ok(())
        } else if unless.fit_in_a_sentence() {
            write!(f, "{separator}unless with {}", unless.sentence())
        } else {
            write_list(f, &format!("{separator}unless with one of these:"), &unless.texts)
        }
    }
}

impl Callers {
    /// What excludes some of these callers: conditions under which none of them may make the
    /// request, and attributes with which a caller may not.
    fn unless(&self) -> (Vec<&str>, Vec<Attribute>) {
        let (mut conditions, mut attributes) = (Vec::new(), Vec::new());
        for attribute in &self.condition.unless {
            match attribute.under_condition() {
                (Attribute::Anyone, Some(condition)) => conditions.push(condition),
                _ => attributes.push(attribute.clone()),
            }
        }
        (conditions, attributes)
    }
}

fn write_list(f: &mut Formatter<'_>, heading: &str, items: &[String]) -> Result {
    f.write_str(heading)?;
    items.iter().try_for_each(|item| write!(f, "\n  - {item}"))
}

/// Attributes as alternatives, in words.
struct Alternatives {
    texts: Vec<String>,
    /// Whether all texts are names of roles and groups.
    are_names: bool,
}

impl Alternatives {
    /// `is_needed`: a caller needs one of the attributes. Otherwise it must have none of them.
    fn new(attributes: &[Attribute], is_needed: bool) -> Self {
        let (mut roles, mut groups, mut described) = (vec![], vec![], vec![]);
        let (mut backend_roles, mut names, mut addresses) = (vec![], vec![], vec![]);
        for attribute in attributes {
            match attribute {
                Attribute::Role(name) => roles.push(name.clone()),
                Attribute::Group(name) => groups.push(name.clone()),
                Attribute::BackendRole(pattern) => backend_roles.push(format!("`{pattern}`")),
                Attribute::Name(pattern) => names.push(format!("`{pattern}`")),
                Attribute::Address(pattern) => addresses.push(format!("`{pattern}`")),
                Attribute::Anyone
                | Attribute::BackendRoles(_)
                | Attribute::Where { .. }
                | Attribute::When { .. } => {
                    described.push(describe(attribute, is_needed));
                }
            }
        }
        let mut texts = Vec::new();
        for (kind, names) in [("role", roles), ("group", groups)] {
            if !names.is_empty() {
                texts.push(quote_names(kind, &names, "or", usize::MAX));
            }
        }
        let name_texts = texts.len();
        for (kind, patterns) in
            [("a role or group", backend_roles), ("a name", names), ("an address", addresses)]
        {
            if !patterns.is_empty() {
                texts.push(format!("{kind} that matches {}", patterns.join(" or ")));
            }
        }
        texts.extend(described);
        Self { are_names: name_texts == texts.len(), texts }
    }

    fn fit_in_a_sentence(&self) -> bool {
        self.are_names || self.texts.len() <= 1
    }

    /// The texts, joined with "or". Examples: "the role `a`"; "the roles `a` or `b` or the group
    /// `c`"; "a role or group that matches `d*`".
    fn sentence(&self) -> String {
        self.texts.join(" or ")
    }

    /// As an item of a list of conditions that must all be met.
    fn item(&self) -> String {
        match self.texts.as_slice() {
            [text] => text.clone(),
            texts => format!("one of: {}", texts.join("; ")),
        }
    }
}

impl Display for MatchingRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let roles = quote_names("role", &self.roles, "and", usize::MAX);
        write!(f, "{} on {}, a rule of {roles}", self.rule, self.path)?;
        if self.more_roles > 0 {
            write!(f, " (and {} more)", self.more_roles)?;
        }
        if let Some(user) = &self.user {
            write!(f, ", only for the user `{user}`")?;
        }
        write_condition(f, self.when.as_deref())
    }
}

/// An attribute in words. It may have a pattern and names. If a caller needs the attribute, the
/// pattern must match all the names. If the attribute excludes callers (`is_needed` is false), a
/// match with one of the names is enough.
fn describe(attribute: &Attribute, is_needed: bool) -> String {
    match attribute {
        Attribute::Role(name) => format!("the role `{name}`"),
        Attribute::Group(name) => format!("the group `{name}`"),
        Attribute::Anyone => "any name".to_owned(),
        Attribute::When { attribute, condition } => {
            format!("{} where {}", describe(attribute, is_needed), OneLine(condition))
        }
        Attribute::BackendRole(pattern) => format!("a role or group that matches `{pattern}`"),
        Attribute::BackendRoles(patterns) => {
            format!("roles or groups that match each of `{}`", patterns.join("`, `"))
        }
        Attribute::Name(pattern) => format!("a name that matches `{pattern}`"),
        Attribute::Address(pattern) => format!("an address that matches `{pattern}`"),
        Attribute::Where { attribute, user: Some(user), .. }
            if **attribute == Attribute::Anyone =>
        {
            format!("the name `{user}`")
        }
        Attribute::Where { attribute, user: Some(user), .. } => {
            format!("the name `{user}`, together with {}", describe(attribute, is_needed))
        }
        Attribute::Where { attribute, pattern, names, user: None } => {
            let quantifier = match (names.len(), is_needed) {
                (0 | 1, _) => "",
                (_, true) => "each of ",
                (_, false) => "one of ",
            };
            let more = match names.len().saturating_sub(MAX_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
            format!(
                "{}, where `{pattern}` with the caller's values matches {quantifier}{}{more}",
                describe(attribute, is_needed),
                names.join(", ")
            )
        }
    }
}
