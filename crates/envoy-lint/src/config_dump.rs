//! What `/config_dump` has twice, on two of its pages: it is linted once.

use document::View;

/// The static listeners on the page `ListenersConfigDump`. The page of the bootstrap has them, too.
pub(crate) fn static_listeners<'n>(root: &View<'n>) -> Vec<View<'n>> {
    on_page(root, "static_listeners", "listener")
}

/// The static routes on the page `RoutesConfigDump`. The connection managers have them, too.
pub(crate) fn static_routes<'n>(root: &View<'n>) -> Vec<View<'n>> {
    on_page(root, "static_route_configs", "route_config")
}

fn on_page<'n>(root: &View<'n>, list: &str, key: &str) -> Vec<View<'n>> {
    let pages = root.list("configs");
    pages.iter().flat_map(|page| page.list(list)).filter_map(|item| item.get(key)).collect()
}

/// Whether two values are the same but for their own `@type`, which only a value that stands alone has.
pub(crate) fn is_same(one: &View<'_>, other: &View<'_>) -> bool {
    is_same_without(one, other, Some("@type"))
}

fn is_same_without(one: &View<'_>, other: &View<'_>, left_out: Option<&str>) -> bool {
    if one.text() != other.text() {
        return false;
    }
    let [items, of_other] = [one, other].map(View::items);
    let [entries, entries_of_other] = [one, other].map(|view| {
        let mut entries = view.named_entries();
        entries.retain(|(key, _)| Some(&**key) != left_out);
        entries
    });
    let is_same = |(one, other): (&View<'_>, &View<'_>)| is_same_without(one, other, None);
    items.len() == of_other.len()
        && items.iter().zip(&of_other).all(is_same)
        && entries.len() == entries_of_other.len()
        && entries
            .iter()
            .zip(&entries_of_other)
            .all(|((key, one), (name, other))| key == name && is_same((one, other)))
}
