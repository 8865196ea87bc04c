//! What clients and proxies can write into the header.

use super::*;

fn last<'a>(lines: &[&'a str]) -> Result<Option<&'a str>, MalformedXfcc> {
    let mut element = LastElement::default();
    for line in lines {
        element.add(line.as_bytes())?;
    }
    Ok(element.get().map(|element| std::str::from_utf8(element).unwrap()))
}

fn values(element: &str, key: &str) -> Vec<String> {
    pairs(element.as_bytes())
        .filter(|pair| pair.key == key.as_bytes())
        .map(|pair| String::from_utf8(pair.value().into_owned()).unwrap())
        .collect()
}

#[test]
fn only_the_last_element_counts() {
    for (lines, wanted) in [
        (&["By=spiffe://a;Hash=1;URI=spiffe://b"][..], "By=spiffe://a;Hash=1;URI=spiffe://b"),
        (&["URI=spiffe://a,URI=spiffe://b"], "URI=spiffe://b"),
        (&["URI=spiffe://a, \tURI=spiffe://b "], "URI=spiffe://b "),
        (&["URI=a", "URI=b,URI=c"], "URI=c"),
        (&["URI=c", "By=only"], "By=only"),
        (&["Subject=\"CN=a,URI=spiffe://b\";URI=c"], "Subject=\"CN=a,URI=spiffe://b\";URI=c"),
        (&["Subject=\"a\\\",URI=b,X=\\\"\""], "Subject=\"a\\\",URI=b,X=\\\"\""),
        (&["Subject=\"a\\\\\",URI=b"], "URI=b"),
        (&["Subject=\"\",URI="], "URI="),
    ] {
        assert_eq!(last(lines), Ok(Some(wanted)), "{lines:?}");
    }
    assert_eq!(last(&[]), Ok(None));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for line in [
        "",
        " ",
        ",",
        ";",
        "URI",
        "=a",
        "URI=a,",
        ",URI=a",
        "URI=a,,URI=b",
        "URI=a;",
        "URI=a;;DNS=b",
        "URI=\"a",
        "URI=\"a\\\"",
        "URI=\"a\"b",
        "URI=\"a\"\"b\"",
        "URI=a\"b\"",
        "URI=a\\,b",
        "URI =a",
        "URI= \"a\"b",
        "U RI=a",
        "U-RI=a",
        "URI=a\u{0}",
        "URI=\"a\nb\"",
        "URI=a\u{7f}",
    ] {
        assert_eq!(last(&[line]), Err(MalformedXfcc), "{line:?}");
        assert_eq!(last(&["URI=a", line]), Err(MalformedXfcc), "{line:?}");
        assert_eq!(last(&[line, "URI=a"]), Err(MalformedXfcc), "{line:?}");
    }
}

/// A client's own header, to which Envoy appends: nothing in it changes how the rest is read.
#[test]
fn an_open_quote_does_not_swallow_what_a_proxy_appends() {
    let real = "By=spiffe://p;Hash=1;Subject=\"CN=evil,URI=spiffe://admin,X=\\\"\";URI=spiffe://me";
    for client in ["URI=\"", "Subject=\"x", "a=\"\\", "a=b\"", "\"", "a=\"b\\\"", "a=\\"] {
        for lines in [vec![format!("{client},{real}")], vec![client.to_owned(), real.to_owned()]] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(last(&lines), Err(MalformedXfcc), "{client}");
        }
    }
    let joined = format!("URI=spiffe://admin,{real}");
    let element = last(&[&joined]).unwrap().unwrap();
    assert_eq!(element, real);
    assert_eq!(values(element, "URI"), ["spiffe://me"]);
}

#[test]
fn values_are_unescaped() {
    let element =
        "URI=spiffe://a/b?c=d;URI=\"x;y\";DNS=a.example;Subject=\"CN=\\\"a\\\\\\\"\";uri=z";
    assert_eq!(values(element, "URI"), ["spiffe://a/b?c=d", "x;y"]);
    assert_eq!(values(element, "DNS"), ["a.example"]);
    assert_eq!(values(element, "Subject"), ["CN=\"a\\\""]);
    assert_eq!(values("By=a", "URI"), [""; 0]);
}

#[test]
fn a_long_header_is_refused() {
    let long = format!("URI={}", "a".repeat(MAX_BYTES - 4));
    assert_eq!(last(&[&long]), Ok(Some(&*long)));
    assert_eq!(last(&[&long, "By=a"]), Err(MalformedXfcc));
    assert_eq!(last(&[&format!("{long}a")]), Err(MalformedXfcc));
    let many = "A=,".repeat(MAX_BYTES / 3 - 2) + "URI=b";
    assert_eq!(last(&[&many]), Ok(Some("URI=b")));
}
