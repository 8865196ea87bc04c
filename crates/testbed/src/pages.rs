//! The tables of a page in Markdown, so that tests can compare them with the code.

/// The rows of the table whose first line begins with `header`, such as `| reason | status |`: the
/// trimmed text of each cell. Empty if there is no such table.
pub fn table<'a>(page: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let from_header = page.lines().skip_while(|line| !line.starts_with(header));
    let rows = from_header.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &'a str| {
        row.strip_prefix('|')?.strip_suffix('|').map(|row| row.split('|').map(str::trim))
    };
    rows.filter_map(cells).map(Iterator::collect).collect()
}

/// The names in backticks in a cell.
pub fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::{names, table};

    #[test]
    fn a_table_is_found_by_its_header() {
        let page = "| a | b | c |\n|---|---|---|\n| `x`, `y` | 1 | 2 |\n| `z` | | 3 |\n\n| c |\n|---|\n| 2 |\n";
        assert_eq!(table(page, "| a |"), [["`x`, `y`", "1", "2"], ["`z`", "", "3"]]);
        assert_eq!(table(page, "| c |"), [["2"]]);
        assert!(table(page, "| d |").is_empty());
        assert_eq!(names("`x`, `y` or z").collect::<Vec<_>>(), ["x", "y"]);
    }
}
