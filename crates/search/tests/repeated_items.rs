//! Items of a bulk request with the same first line as the one before are not read again: they must
//! count all the same.

use crate::needs::{assert_denied, assert_needs, needs};

/// An item, with `#` where an id may be, which nothing that it needs depends on.
const ITEMS: [&str; 8] = [
    "{\"index\":{\"_index\":\"a\"#}}\n{}\n",
    "{\"create\":{\"_index\":\"b\"#}}\n{\"index\":{\"_index\":\"c\"}}\n",
    "{\"delete\":{\"_index\":\"a\"#}}\n",
    "{\"update\":{\"_index\":\"a\"#}}\n{}\n",
    "{\"index\":{\"_index\":\"a\",\"pipeline\":\"p\"#}}\n{}\n",
    "{\"index\":{\"_index\":\"\"#}}\n{}\n",
    " \n",
    // The first line of another, so that a document may be one, too.
    "{\"index\":{\"_index\":\"d\"#}}\n",
];

/// The body of these items: as they are, and with an id of its own for each, so that no line is
/// repeated.
fn bodies(items: &[&str]) -> [String; 2] {
    let with = |id: &dyn Fn(usize) -> String| -> String {
        items.iter().enumerate().map(|(place, item)| item.replace('#', &id(place))).collect()
    };
    [with(&|_| String::new()), with(&|place| format!(",\"_id\":\"{place}\""))]
}

#[test]
fn a_repeated_line_counts_like_another() {
    let mut valid = 0;
    for length in 1..=4 {
        for number in 0..ITEMS.len().pow(length) {
            let kinds = (0..length).map(|place| number / ITEMS.len().pow(place) % ITEMS.len());
            let items: Vec<&str> = kinds.filter_map(|kind| ITEMS.get(kind).copied()).collect();
            let [repeated, other] = bodies(&items);
            let found = needs("POST", "/_bulk", &repeated);
            assert_eq!(found, needs("POST", "/_bulk", &other), "{repeated}");
            valid += usize::from(found.is_ok());
        }
    }
    assert!(valid > 500, "most bodies are not valid: {valid}");
}

#[test]
fn the_document_of_a_repeated_line_is_awaited() {
    let item = "{\"index\":{\"_index\":\"a\"}}\n";
    assert_needs(
        "POST",
        "/_bulk",
        &format!("{item}{{}}\n{item}{{}}\n"),
        "indices:data/write/index on a",
    );
    assert_denied("POST", "/_bulk", &format!("{item}{{}}\n{item}"));
}
