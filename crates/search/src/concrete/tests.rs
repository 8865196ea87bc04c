//! Tests of the names in place of an expression.

use super::*;
use crate::{InventoryBuilder, Options};

fn inventory() -> Inventory {
    let mut builder = InventoryBuilder::default();
    builder
        .index("logs-1", true, false)
        .index("logs-2", true, false)
        .index("logs-old", false, false);
    builder.index("other", true, false).index("secret", true, false).index(".dot", true, true);
    builder.index("logs-hidden", true, true).index(".ds-app-1", true, true);
    builder.alias("logs-all", ["logs-1", "logs-2"]).alias("logs-mix", ["logs-1", "other"]);
    builder.alias("mine", ["other", "secret"]).alias("was", ["logs-1", "logs-old"]);
    builder.alias("lost", ["unlisted"]).data_stream("app", [".ds-app-1"]);
    builder.index(".ds-partly-1", true, true).index(".ds-partly-2", false, true);
    builder.data_stream("partly", [".ds-partly-1", ".ds-partly-2"]);
    builder.build()
}

fn forwarded(text: &str, options: Options) -> Option<String> {
    in_place(&inventory(), &Expression::new(text, options))
}

fn in_place(inventory: &Inventory, expression: &Expression<'_>) -> Option<String> {
    let all = (0..inventory.len()).collect();
    NamesInPlace::new(inventory, expression, &all).map(|names| names.list.into())
}

#[test]
fn patterns_are_replaced_by_the_names_that_they_stand_for() {
    for (text, wanted) in [
        ("logs-1*", Some("logs-1")),
        // An alias is left out if its indices are there by their names, and forwarded by its own
        // name otherwise.
        ("logs-*", Some("logs-1,logs-2,logs-mix")),
        ("*", Some("logs-1,logs-2,other,secret,unlisted,app,partly")),
        ("", Some("logs-1,logs-2,other,secret,unlisted,app,partly")),
        ("_all", Some("logs-1,logs-2,other,secret,unlisted,app,partly")),
        ("m*", Some("mine")),
        ("o*,m*", Some("mine,other")),
        ("app*", Some("app")),
        (".d*", Some(".dot,.ds-app-1,.ds-partly-1")),
        // Exclusions.
        ("logs-*,-logs-1*", None),
        // Whether an alias is hidden, so that it is not meant, is not known.
        ("logs-*,-logs-1,-logs-m*", None),
        // The name of a data stream excludes nothing, and a part of a data stream has no name.
        ("*,-app", None),
        ("app*,-app*", Some("*,-*")),
        ("logs-*,other,-logs-mix", None),
        ("logs-*,-other", Some("logs-1,logs-2")),
        ("m*,-other", None),
        ("logs-*,-logs-*", None),
        ("nothing*", Some("*,-*")),
        // Names beside patterns.
        ("logs-1*,other", Some("logs-1,other")),
        ("logs-1*,mine", Some("logs-1,mine")),
        ("logs-1*,mine,-secret", None),
        // The alias reaches the index again, with a filter, and the own name of the index does not.
        // The cluster resolves an alias beside an exclusion.
        ("oth*,-oth*,mine", None),
        ("oth*,-other,m*", Some("mine")),
        ("oth*,other,-oth*,mine", None),
        ("logs-1*,new", Some("new,logs-1")),
        ("logs-1*,new,-new", Some("logs-1")),
        ("-new,logs-1*", None),
        ("_new,logs-1*", None),
        // Only the open one of its indices is reached.
        ("wa*", None),
        // An index that is not listed is known by its alias.
        ("los*", Some("lost")),
        ("logs-1*,un*,-unl*", None),
        // No pattern.
        ("logs-1", None),
        ("mine", None),
        ("-logs-1", None),
    ] {
        let sorted = |list: &str| {
            let mut names: Vec<String> = list.split(',').map(ToOwned::to_owned).collect();
            names.sort();
            names
        };
        let found = forwarded(text, Options::OPEN);
        assert_eq!(found.as_deref().map(sorted), wanted.map(sorted), "{text}");
    }
}

#[test]
fn the_options_of_the_request_count() {
    let open = Options::OPEN;
    for (text, options, wanted) in [
        ("logs-o*", open, Some("*,-*")),
        ("logs-o*", Options { closed: true, ..open }, Some("logs-old")),
        ("logs-1*,logs-o*", Options { open: false, closed: true, ..open }, Some("logs-old")),
        ("logs-h*", open, Some("*,-*")),
        ("logs-h*", Options { hidden: true, ..open }, Some("logs-hidden")),
        ("wa*", Options { closed: true, ..open }, Some("was")),
        ("logs-1*", Options { open: false, ..open }, None),
        // A pattern reaches the open indices of a data stream or the closed ones. Its name reaches
        // all of them.
        ("app*", Options { closed: true, ..open }, Some("app")),
        ("app*", Options { open: false, closed: true, ..open }, None),
        ("logs-o*,app*", Options { open: false, closed: true, ..open }, None),
        ("part*", open, Some("partly")),
        ("part*,other", open, None),
        ("part*", Options { closed: true, ..open }, Some("partly")),
        ("part*", Options { open: false, closed: true, ..open }, None),
    ] {
        assert_eq!(forwarded(text, options).as_deref(), wanted, "{text}");
    }
}

#[test]
fn a_name_that_would_be_read_as_something_else_is_not_forwarded() {
    for name in ["a,secret", "-a", "_all", "a*", "<a>", "b:a", "a/b"] {
        let mut builder = InventoryBuilder::default();
        builder.index(name, true, false).index("z", true, false);
        let (inventory, expression) = (builder.build(), Expression::new("*", Options::OPEN));
        assert_eq!(in_place(&inventory, &expression), None, "{name}");
    }
    let mut builder = InventoryBuilder::default();
    let inventory = builder.index("ü&=%+", true, false).build();
    let expression = Expression::new("*", Options::OPEN);
    assert_eq!(in_place(&inventory, &expression).as_deref(), Some("%C3%BC%26%3D%25%2B"));
}
