//! The table of reasons in `docs/operations.md` against the program. The tables of metrics and of
//! gRPC errors are compared beside their code.

use std::collections::BTreeMap;

use authorizer::Reason;
use testbed::pages::table;

const PAGE: &str = include_str!("../../../../docs/operations.md");

#[test]
fn the_table_of_reasons_is_what_a_denial_can_have() {
    let reasons: BTreeMap<&str, String> =
        Reason::all().map(|reason| (reason.name(), reason.status().to_string())).collect();
    let rows = table(PAGE, "| reason | status |");
    let documented: BTreeMap<&str, String> =
        rows.iter().map(|row| (row[0].trim_matches('`'), row[1].to_owned())).collect();
    assert_eq!(documented, reasons);
    // And each status is in the table of responses.
    let rows = table(PAGE, "| status | when |");
    for (reason, status) in &reasons {
        assert!(rows.iter().any(|row| row[0] == status), "{status} of {reason}");
    }
}
