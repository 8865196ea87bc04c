//! Tests of bulk requests of which only some items are permitted.

use super::*;
use crate::reading::RequestBody;
use crate::request::read;

fn request<'a>(target: &'a str, body: &'a str) -> Request<'a> {
    Request {
        method: "POST",
        target,
        content_type: Some("application/x-ndjson"),
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(body.as_bytes()),
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// The items on indices whose names do not begin with `no`.
fn separated<'a>(target: &'a str, body: &'a str) -> Option<PermittedItems<'a>> {
    let (request, mut needs) = (request(target, body), Vec::new());
    read(&request, &mut needs).unwrap();
    permitted_items(&request, &needs, |name, needs| {
        assert!(needs.iter().all(|need| need.target.text() == name));
        !name.starts_with("no")
    })
}

/// The items that are not permitted: position, operation, index, id.
fn denied<'i>(
    items: &'i PermittedItems<'_>,
) -> Vec<(usize, &'static str, &'i str, Option<&'i str>)> {
    items
        .denied
        .iter()
        .map(|item| (item.position, item.operation, &*item.index, item.id.as_deref()))
        .collect()
}

#[test]
fn permitted_items_are_left_as_they_are() {
    let body = "{\"index\": {\"_index\": \"a\"}}\n {\"x\": 1}\r\n\
        {\"delete\":{\"_index\":\"no-1\",\"_id\":\"7\"}}\n\n\
        {\"create\":{\"_index\":\"no-2\",\"_id\":8}}\n{\"y\": \"_index\"}\n\
        {\"update\":{\"_index\":\"a\",\"_id\":\"9\"}}\n{\"doc\": {}}\n\
        {\"index\":{\"_index\":\"\\u006eo-1\"}}\n{}\n";
    let items = separated("/_bulk", body).unwrap();
    let wanted = "{\"index\": {\"_index\": \"a\"}}\n {\"x\": 1}\r\n{\"update\":{\"_index\":\"a\",\"_id\":\"9\"}}\n{\"doc\": {}}\n";
    assert_eq!((std::str::from_utf8(&items.body).unwrap(), items.count), (wanted, 2));
    assert_eq!(
        denied(&items),
        [
            (1, "delete", "no-1", Some("7")),
            (2, "create", "no-2", Some("8")),
            (4, "index", "no-1", None)
        ]
    );
}

#[test]
fn an_item_without_an_index_is_on_that_of_the_path() {
    let body = "{\"index\":{}}\n{}\n{\"index\":{\"_index\":\"a\"}}\n{}\n";
    let items = separated("/no-1/_bulk?refresh=true", body).unwrap();
    assert_eq!(items.body, b"{\"index\":{\"_index\":\"a\"}}\n{}\n");
    assert_eq!(denied(&items), [(0, "index", "no-1", None)]);
    let body = "{\"index\":{}}\n{}\n{\"index\":{\"_index\":\"no-1\"}}\n{}\n";
    assert_eq!(denied(&separated("/b/_bulk", body).unwrap()), [(1, "index", "no-1", None)]);
}

/// An error has the id as the cluster reads it, never as the client wrote it.
#[test]
fn an_id_is_text() {
    let with_id = |id: &str| {
        format!(
            "{{\"delete\":{{\"_index\":\"a\"}}}}\n{{\"delete\":{{\"_index\":\"no\",\"_id\":{id}}}}}\n"
        )
    };
    for (id, text) in [
        (r#""a\"b\u00e4\/""#, Some("a\"b\u{e4}/")),
        ("-1.5e3", Some("-1.5e3")),
        ("true", Some("true")),
        ("null", None),
        (r#""""#, Some("")),
    ] {
        let body = with_id(id);
        assert_eq!(
            denied(&separated("/_bulk", &body).unwrap()),
            [(1, "delete", "no", text)],
            "{id}"
        );
    }
    for id in [r#""\x""#, r#""\ud83d""#, "{}", "[1]"] {
        assert!(separated("/_bulk", &with_id(id)).is_none(), "{id}");
    }
}

/// All items on an index are decided together.
#[test]
fn each_index_is_asked_about_once_with_all_its_needs() {
    let body = "{\"index\":{\"_index\":\"a\"}}\n{}\n{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"delete\":{\"_index\":\"b\",\"_id\":\"1\"}}\n";
    let (request, mut needs) = (request("/_bulk", body), Vec::new());
    read(&request, &mut needs).unwrap();
    let mut asked = Vec::new();
    let none = permitted_items(&request, &needs, |name, needs| {
        let actions = needs.iter().flat_map(|need| need.actions).map(|action| action.name());
        asked.push((name.to_owned(), actions.collect::<Vec<_>>().join(" ")));
        false
    });
    assert!(none.is_none(), "no item is permitted");
    let of_a = "indices:admin/create indices:data/write/bulk[s] indices:data/write/index indices:data/write/delete indices:admin/mapping/put";
    let of_b = "indices:data/write/bulk[s] indices:data/write/delete";
    assert_eq!(asked, [("a".to_owned(), of_a.to_owned()), ("b".to_owned(), of_b.to_owned())]);
}

#[test]
fn nothing_is_separated_where_errors_cannot_be_added() {
    let body = "{\"index\":{\"_index\":\"a\"}}\n{}\n{\"index\":{\"_index\":\"no\"}}\n{}\n";
    assert!(separated("/_bulk?pretty&refresh", body).is_some());
    for query in ["filter_path=took", "format=yaml", "pretty&%66ormat=json", "a=1;filter_path"] {
        assert!(separated(&format!("/_bulk?{query}"), body).is_none(), "{query}");
    }
    let many: String = (0..=MAX_INDICES)
        .map(|n| format!("{{\"index\":{{\"_index\":\"a{n}\"}}}}\n{{}}\n"))
        .collect();
    assert!(separated("/_bulk", &many).is_none());
    for (name, most) in [("no", MAX_DENIED), ("a", MAX_FORWARDED)] {
        let more = format!("{{\"delete\":{{\"_index\":\"{name}\",\"_id\":\"1\"}}}}\n");
        let many = body.to_owned() + &more.repeat(most - 1);
        assert!(separated("/_bulk", &many).is_some(), "{name}");
        assert!(separated("/_bulk", &(many + &more)).is_none(), "{name}");
    }
}

#[test]
fn another_operation_is_not_separated() {
    let mut needs = Vec::new();
    let search = request("/a,no/_search", "");
    read(&search, &mut needs).unwrap();
    assert!(permitted_items(&search, &needs, |_, _| true).is_none());
}

fn completed(response: &str, count: usize, denied: &[(usize, &str)]) -> Option<String> {
    let text = with_denied(response.as_bytes(), count, denied.iter().copied(), 0)?;
    Some(String::from_utf8(text).unwrap())
}

#[test]
fn errors_stand_at_the_positions_of_their_items() {
    let response =
        "{\"took\": 3, \"errors\":false,\"items\":[ {\"a\":[1]} , {\"b\":2}], \"ingest_took\":4}\n";
    for (denied, wanted) in [
        (&[(0, "X")][..], "X,{\"a\":[1]},{\"b\":2}"),
        (&[(1, "X")], "{\"a\":[1]},X,{\"b\":2}"),
        (&[(2, "X"), (3, "Y")], "{\"a\":[1]},{\"b\":2},X,Y"),
        (&[(0, "X"), (2, "Y"), (4, "Z")], "X,{\"a\":[1]},Y,{\"b\":2},Z"),
        (&[], "{\"a\":[1]},{\"b\":2}"),
    ] {
        let wanted =
            format!("{{\"took\":3,\"ingest_took\":4,\"errors\":true,\"items\":[{wanted}]}}");
        assert_eq!(completed(response, 2, denied), Some(wanted), "{denied:?}");
    }
}

#[test]
fn another_response_is_not_completed() {
    for (response, count) in [
        ("{\"items\":[{}]}", 2),
        ("{\"items\":[{},{}]}", 1),
        ("{\"took\":1}", 1),
        ("{\"items\":[{}],\"items\":[]}", 1),
        ("{\"items\":[{}]} x", 1),
        ("{\"a\\\"b\":1,\"items\":[{}]}", 1),
        ("", 1),
        ("[]", 1),
        ("items: 1", 1),
    ] {
        assert_eq!(completed(response, count, &[(0, "X")]), None, "{response}");
    }
    assert_eq!(completed("{\"items\":[{}]}", 1, &[(2, "X")]), None, "there is no item 1");
}
