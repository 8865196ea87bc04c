//! Items of a bulk request with the same first line as the one before are not read again: they must count all the same.

#[path = "shared/needs.rs"]
mod needs;
#[path = "shared/requests.rs"]
mod requests;

use needs::needs;
use search::Problem;

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

/// The body of these items: as they are, and with an id of its own for each, so that no line is repeated.
fn bodies(items: &[usize]) -> [String; 2] {
    let with = |id: &dyn Fn(usize) -> String| -> String {
        let all = items.iter().enumerate();
        all.map(|(place, item)| ITEMS[*item].replace('#', &id(place))).collect()
    };
    [with(&|_| String::new()), with(&|place| format!(",\"_id\":\"{place}\""))]
}

#[test]
fn a_repeated_line_counts_like_another() {
    let mut valid = 0;
    for number in 0..ITEMS.len().pow(4) {
        let items: Vec<usize> = (0..4).map(|place| number / ITEMS.len().pow(place) % ITEMS.len()).collect();
        for length in 1..=items.len() {
            let bodies = bodies(&items[..length]);
            let [repeated, other] = bodies.each_ref().map(|body| needs("POST", "/_bulk", body));
            assert_eq!(repeated, other, "{}", bodies[0]);
            valid += usize::from(repeated.is_ok());
        }
    }
    assert!(valid > 500, "most bodies are not valid: {valid}");
}

#[test]
fn the_document_of_a_repeated_line_is_awaited() {
    let item = "{\"index\":{\"_index\":\"a\"}}\n";
    assert!(needs("POST", "/_bulk", &format!("{item}{{}}\n{item}{{}}\n")).is_ok());
    let cut = needs("POST", "/_bulk", &format!("{item}{{}}\n{item}"));
    assert!(matches!(cut, Err(Problem::Invalid(_))), "{cut:?}");
}
