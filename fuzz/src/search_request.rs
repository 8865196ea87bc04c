//! Requests to a search cluster.

use std::collections::BTreeMap;

use search::{Need, PermittedPart, Request, RequestBody, Target, narrowed, read};
use serde_json::Value;

/// The first line is a method and a target, the rest a body. What a request needs is the same each
/// time. No need is empty, and an index that a plain reader of JSON finds in the lines of a bulk is
/// among them.
pub fn search_request(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let head = parts.next().unwrap_or_default();
    let Ok(head) = std::str::from_utf8(head) else { return };
    let (method, target) = head.split_once(' ').unwrap_or((head, "/"));
    let request = Request {
        method,
        target,
        content_type: Some("application/json"),
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(parts.next().unwrap_or_default()),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let (mut needs, mut again) = (Vec::new(), Vec::new());
    let operation = read(&request, &mut needs);
    assert_eq!(read(&request, &mut again), operation, "reading it again gives another operation");
    assert_eq!(needs, again, "reading it again gives other needs");
    let Ok(operation) = operation else { return };
    assert!(needs.iter().all(|need| !need.actions.is_empty()), "a need has no action");
    let is_open = matches!(operation, "cat.help" | "list.help");
    assert!(
        is_open || !needs.is_empty() || operation == "indices.update_aliases",
        "{operation} needs nothing"
    );
    for name in names_of(&needs) {
        assert!(!name.is_empty() && !name.contains(':'), "a name is empty, or of another cluster");
    }
    reducing(&request, operation, &needs);
    if let (RequestBody::Whole(body), "bulk") = (request.body, operation) {
        bulk(body, &needs);
    }
}

/// Reduces all lists in the path and the query to two names: the new request is the same operation
/// on these.
fn reducing(request: &Request<'_>, operation: &str, needs: &[Need<'_>]) {
    let names = ["a-1", "b%&=+;/?\u{fc}"].map(str::to_owned).to_vec();
    let is_list = |need: &Need<'_>| matches!(need.target, Target::Indices(_));
    let lists: Vec<usize> =
        (0..).zip(needs).filter(|(_, need)| is_list(need)).map(|(number, _)| number).collect();
    let parts: Vec<PermittedPart> =
        lists.iter().map(|need| PermittedPart { need: *need, names: names.clone() }).collect();
    let Some(target) = narrowed(request, &parts) else { return };
    let (mut again, new) = (Vec::new(), Request { target: &target, ..*request });
    assert_eq!(read(&new, &mut again), Ok(operation), "{target} is another operation");
    for number in lists {
        let Some(need) = again.get(number) else { unread(&target) };
        assert!(is_list(need) && need.target.text() == names.join(","), "{target} needs {need:?}");
    }
}

#[expect(clippy::panic, reason = "it is a bug of what is fuzzed")]
fn unread(target: &str) -> ! {
    panic!("{target} needs less")
}

fn names_of<'n>(needs: &'n [Need<'_>]) -> impl Iterator<Item = &'n str> {
    needs.iter().filter_map(|need| match &need.target {
        Target::Name(name) | Target::CreatedIfMissing(name) => Some(&**name),
        Target::Cluster | Target::AliasOrNewIndex(_) | Target::Indices(_) | Target::Fixed(_) => {
            None
        }
    })
}

/// Reads the lines of a bulk in another way.
fn bulk(body: &[u8], needs: &[Need<'_>]) {
    let mut lines = body.split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        // It is stricter about escapes in strings that no privilege depends on.
        let Ok(line) = serde_json::from_slice::<BTreeMap<String, BTreeMap<String, Value>>>(line)
        else {
            return;
        };
        for (action, item) in &line {
            if let Some(index) = item.get("_index").and_then(Value::as_str) {
                let is_math = index.starts_with('<') && index.ends_with('>');
                assert!(
                    is_math || names_of(needs).any(|name| name == index),
                    "an index of a bulk is missed"
                );
            }
            if action != "delete" {
                lines.next();
            }
        }
    }
}
