//! A review as tables for the owners of roles: Markdown, and CSV for spreadsheets.

use review::markdown_cell;

use super::{AccessReport, AccessRow, UnknownRule, UsageCounts};
use crate::holders::Holder;
use crate::one_line::OneLine;

/// The columns of the CSV.
const COLUMNS: [&str; 12] = [
    "kind",
    "role",
    "name",
    "status",
    "uses",
    "estimated",
    "callers",
    "last_used",
    "who_could_use_it",
    "place",
    "from",
    "to",
];

impl AccessReport {
    /// The review as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Access review\n\n");
        for (label, value) in [
            ("period", self.log.period()),
            ("lines", self.log.to_string()),
            ("policy", self.policy.clone()),
        ] {
            text += &format!("* {label}: {}\n", cell(&value));
        }
        for note in &self.notes {
            text += &format!("* {}\n", cell(note));
        }
        if !self.unused.is_empty() {
            text += "\n## Not used\n\n| | what | status | who could use it | place |\n\
                     |---|---|---|---|---|\n";
        }
        for row in &self.unused {
            let status = row.status.text();
            text +=
                &line(&[row.kind_text(), &cell(&row.what()), status, &who(row), &cell(&row.at)]);
        }
        if !self.used.is_empty() {
            text += "\n## Used\n\n| | what | uses | callers | last used | who could use it | place |\n\
                     |---|---|---|---|---|---|---|\n";
        }
        for row in &self.used {
            let [uses, callers, last] = usage(&row.usage);
            let (what, at) = (cell(&row.what()), cell(&row.at));
            text += &line(&[row.kind_text(), &what, &uses, &callers, &last, &who(row), &at]);
        }
        for (heading, rows) in [
            ("Rules that the policy does not have", &self.not_in_policy),
            ("Roles in tokens on the search cluster", &self.cluster_roles),
        ] {
            if !rows.is_empty() {
                text += &format!(
                    "\n## {heading}\n\n| what | uses | callers | last used |\n|---|---|---|---|\n"
                );
            }
            for UnknownRule { name, usage: counts } in rows {
                let [uses, callers, last] = usage(counts);
                text += &line(&[&cell(&format!("`{name}`")), &uses, &callers, &last]);
            }
        }
        text
    }

    /// The review as CSV (RFC 4180), a line for each grant and rule. No cell is a formula.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = record(&COLUMNS.map(str::to_owned));
        for row in self.unused.iter().chain(&self.used) {
            let AccessRow { role, name, usage, at, .. } = row;
            let holders: Vec<String> = row.who.iter().map(Holder::to_string).collect();
            let holders = if holders.is_empty() { "nobody".to_owned() } else { holders.join("; ") };
            let [kind, status] = [row.kind_text(), row.status.text()].map(str::to_owned);
            text += &self.record(
                [kind, role.clone(), name.clone(), status],
                usage,
                [holders, at.clone()],
            );
        }
        for (status, rows) in [
            ("not in this policy", &self.not_in_policy),
            ("on the search cluster", &self.cluster_roles),
        ] {
            let kind = if status == "not in this policy" { "rule" } else { "role in a token" };
            for UnknownRule { name, usage } in rows {
                let (role, name) = name.split_once(": ").unwrap_or((name, ""));
                let columns = [kind, role, name, status].map(str::to_owned);
                text += &self.record(columns, usage, <[String; 2]>::default());
            }
        }
        text
    }

    fn record(
        &self,
        [kind, role, name, status]: [String; 4],
        usage: &UsageCounts,
        [holders, at]: [String; 2],
    ) -> String {
        record(&[
            kind,
            role,
            name,
            status,
            usage.uses.to_string(),
            if usage.is_estimated { "yes" } else { "no" }.to_owned(),
            usage.callers_text(),
            usage.last_used.clone().unwrap_or_default(),
            holders,
            at,
            self.log.from.clone().unwrap_or_default(),
            self.log.to.clone().unwrap_or_default(),
        ])
    }
}

/// A record of CSV. Each field is quoted, so that a separator of another country splits none.
fn record(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
    format!("{}\r\n", fields.join(","))
}

/// A field of CSV. Spreadsheets take a text that begins so for a formula, and a client chooses its
/// method and its name: the apostrophe makes it text.
fn csv_field(text: &str) -> String {
    let text = OneLine(text).to_string();
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\""))
}

fn line(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn cell(text: &str) -> String {
    markdown_cell(&OneLine(text).to_string())
}

fn who(row: &AccessRow) -> String {
    if row.who.is_empty() {
        return "nobody".to_owned();
    }
    row.who.iter().map(|holder| cell(&holder.to_string())).collect::<Vec<_>>().join("<br>")
}

fn usage(counts: &UsageCounts) -> [String; 3] {
    let last = counts.last_used.clone().unwrap_or_default();
    [counts.uses_text(), counts.callers_text(), last]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_of_csv_is_a_formula_or_ends_early() {
        for (text, field) in [
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"\\t=1\""),
            ("\r\n=1", "\"\\r\\n=1\""),
            ("a, \"b\"", "\"a, \"\"b\"\"\""),
            ("", "\"\""),
        ] {
            assert_eq!(csv_field(text), field);
        }
    }

    #[test]
    fn no_cell_of_markdown_ends_early() {
        assert_eq!(cell("a|b `c|d` <b>\n| e"), "a\\|b `c\\|d` &lt;b>\\\\n\\| e");
    }
}
