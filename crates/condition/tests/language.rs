//! What conditions mean, and how wrong ones are reported.

use std::sync::Arc;

use condition::{
    CallerClaims, CallerInputs, Condition, ConditionError, Constant, FUNCTIONS, Fault, Headers,
    Inputs, NamedConditions, Placeholders, Question, RequestInputs, holds, parse_value,
};

struct Lines(&'static [(&'static str, &'static str)]);

impl Headers for Lines {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        let mut lines = self.0.iter().filter(|(line, _)| *line == name);
        match (lines.next(), lines.next()) {
            (Some((_, value)), None) => Ok(value.as_bytes()),
            (Some(_), Some(_)) => Err(Fault::Repeated),
            (None, _) => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

fn parse(text: &str) -> Result<Condition, ConditionError> {
    let mut named = NamedConditions::default();
    let office = Condition::parse(&Arc::from("cidr('10.0.0.0/8').containsIP(source.ip)"), &named)?;
    named.add("office".into(), &office);
    Condition::parse(&Arc::from(text), &named)
}

/// The value for a request of alice: `None` is "cannot be computed".
fn value(text: &str) -> Option<bool> {
    let parts = [
        r#"{"owner": "alice", "status": "active", "tags": ["x"]}"#,
        r#"{"soft": true}"#,
        r#"{"time": "2026-01-01T00:00:00Z", "ip": "192.0.2.9", "device": {"managed": true}}"#,
    ];
    let [resource_properties, action_properties, context] =
        parts.map(|part| serde_json::from_str(part).unwrap());
    let question = Question::Asked {
        resource_properties: &resource_properties,
        action_properties: &action_properties,
        context: &context,
    };
    value_for(text, &question)
}

fn value_for(text: &str, question: &Question<'_>) -> Option<bool> {
    let lines =
        Lines(&[("x-level", "2"), ("x-twice", "1"), ("x-twice", "1"), ("x-latin", "\u{e9}")]);
    let claims = r#"{"tenant": "acme", "level": 3, "ratio": 0.5, "tags": ["a", "b"], "none": null,
        "org": {"id": "7", "odd/name": true}, "big": 9007199254740993, "since": 1767225600}"#;
    let claims: serde_json::Value = serde_json::from_str(claims).unwrap();
    let caller = CallerInputs {
        user: Some("alice"),
        roles: vec!["editor"],
        groups: vec!["staff", "leads"],
        issuer: Some("https://id.test"),
        scheme: Some("bearer"),
        claims: CallerClaims::Known(claims.as_object().unwrap()),
    };
    let placeholders = [("id".into(), 1), ("twice".into(), 0), ("twice".into(), 1)];
    let labels = [("tenant".into(), 0)];
    let names = ["spiffe://example.org/ns/ops/sa/bot", "dns:bot.example.org"];
    let names = names.map(|name| Constant::Text(name.into()));
    let inputs = Inputs {
        request: RequestInputs {
            method: b"POST",
            host: b"acme.example.com",
            path: b"/orders/a%20b/x",
            query: Some(b"page=2&q=%41&twice=1&twice=1"),
            headers: Some(&lines),
            time: "2026-06-01T06:30:15.250Z".parse().ok(),
            client: "::ffff:10.1.2.3".parse().ok(),
            certificate: Some(Ok(&names)),
            question: Some(question),
        },
        caller: Some(&caller),
        placeholders: Placeholders { path: &placeholders, host: &labels },
        ..Inputs::default()
    };
    let condition = parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.message));
    let shown = condition.expression.to_string();
    let again = parse(&shown).map(|again| again.expression);
    assert_eq!(again.as_ref(), Ok(&condition.expression), "{text} is shown as {shown}");
    holds(&condition.expression, &inputs)
}

#[test]
fn a_condition_has_the_value_that_cel_gives_it() {
    for text in [
        "user == 'alice'",
        "request.method == 'POST' && request.host == \"acme.example.com\"",
        "request.path == '/orders/a%20b/x'",
        "request.headers['x-level'] == '2'",
        "request.headers.missing == '2' || true",
        "'x-level' in request.headers && !('x-none' in request.headers)",
        "'x-twice' in request.headers",
        "request.query.q == 'A' && request.query['page'] == '2'",
        "'page' in request.query && !has(request.query.none)",
        "source.ip == '10.1.2.3'",
        "source.ip in ['10.1.2.3', '2001:db8::1'] && source.ip != '10.1.2.4'",
        "ip('10.1.2.3') == source.ip",
        "office && !cidr('10.1.2.4/32').containsIP(source.ip)",
        "cidr('10.1.2.3/0').containsIP('192.0.2.1')",
        "!cidr('2001:db8::/32').containsIP(source.ip)",
        "'dns:bot.example.org' in source.certificate && has(source.certificate)",
        "source.certificate.exists(n, n.startsWith('spiffe://example.org/ns/ops/'))",
        "!source.certificate.all(n, n.startsWith('dns:')) && size(source.certificate) == 2",
        "request.time.getHours('Europe/Berlin') == 8 && request.time.getHours() == 6",
        "request.time.getHours('+05:30') == 12 && request.time.getMinutes('+05:30') == 0",
        "request.time.getDayOfWeek() == 1 && request.time.getDate() == 1",
        "request.time.getMonth() == 5 && request.time.getFullYear() == 2026",
        "request.time.getSeconds() == 15 && request.time.getMilliseconds() == 250",
        "request.time > timestamp('2026-06-01T08:30:15+02:00')",
        "duration('1h30m') == duration('90m') && duration('1.5s') < duration('2s')",
        "duration('90m').getHours() == 1",
        "duration('9000000000.000000001s') > duration('9000000000s')",
        "duration('-0.5s') < duration('0s') && duration('-1m') < duration('-59.999999999s')",
        "claims.tenant == host.tenant && host.tenant == 'acme'",
        "path.id == 'a b'",
        "claims.level >= 3 && claims.level < 3.5 && claims.ratio == 0.5",
        "claims.level == 3.0 && claims.level in [1, 2, 3]",
        "claims.big > 9007199254740992 && claims.big == 9007199254740993",
        "claims.tenant != 3",
        "claims.org.id == '7' && claims['org']['id'] == '7'",
        "claims.org['odd/name']",
        "has(claims.tenant) && !has(claims.missing) && has(claims.none)",
        "'tenant' in claims && !('missing' in claims)",
        "!('true' in claims) && !('for' in claims) && (claims['in'] || true)",
        "claims.tags[0] == 'a' && size(claims.tags) == 2 && claims.tags.size() == 2",
        "'a' in claims.tags && !('c' in claims.tags)",
        "claims.tags.exists(t, t == 'b') && claims.tags.all(t, t != 'c')",
        "claims.tags.exists(t, groups.exists(g, g.contains(t)))",
        "groups.exists(g, g.startsWith('lea')) && 'staff' in groups && 'editor' in roles",
        "roles == ['editor'] && size(groups) == 2",
        "(user == 'alice' ? groups : ['x']).exists(g, g == 'staff')",
        "request.time > timestamp('2026-06-01t06:30:15.2z')",
        "request.time == timestamp('2026-06-01T08:30:15.250+02:00')",
        "timestamp(claims.since) == timestamp('2026-01-01T00:00:00Z')",
        "issuer.endsWith('.test') && scheme == 'bearer'",
        "'ABC'.lowerAscii() == 'abc' && size('\u{e9}') == 1",
        "user.matches('^a[a-z]+$') && !user.matches('^b') && matches(user, 'lic')",
        "user == 'bob' ? false : true",
        "resource.properties.owner == user && action.properties.soft",
        "has(resource.properties.status) && !('odd/name' in resource.properties)",
        "'x' in resource.properties.tags && !has(action.properties.other)",
        "context.device.managed && 'time' in context && size(context) == 3",
        "timestamp(context.time) < request.time && ip(context.ip) != source.ip",
        "claims.missing == 1 || user == 'alice'",
        "!(claims.missing == 1 && user == 'bob')",
        "claims.tags.exists(t, t.startsWith('b') || claims.missing)",
        "user == r'alice' && 'a\\'b' == \"a'b\" && '\\u00e9' == '\u{e9}'",
        "// a comment\n user == 'alice'",
        "(true)",
    ] {
        assert_eq!(value(text), Some(true), "{text}");
        assert_eq!(value(&format!("!({text}\n)")), Some(false), "{text}");
    }
}

#[test]
fn what_cannot_be_computed_is_neither_true_nor_false() {
    for text in [
        "claims.missing == 1",
        "has(claims.missing.more)",
        "claims.tenant < 3",
        "claims.tenant",
        "claims.level.startsWith('3')",
        "claims.tags[2] == 'a'",
        "claims.tags.id == 'a'",
        "claims.tenant.exists(x, x == 'a')",
        "claims.tags.all(t, t == 'a' || claims.missing)",
        "request.headers['x-none'] == '2'",
        "request.headers['x-twice'] == '1'",
        "request.query.none == '1'",
        "request.query.twice == '1'",
        "path.missing == 'a'",
        "path.twice == 'orders'",
        "path['in'] == host['x-y']",
        "host.other == 'a'",
        "claims.missing == 1 || user == 'bob'",
        "claims.missing == 1 && user == 'alice'",
        "claims.missing ? true : true",
        "ip(claims.tenant) == source.ip",
        "timestamp(claims.tenant) < request.time",
    ] {
        assert_eq!(value(text), None, "{text}");
        assert_eq!(value(&format!("!({text})")), None, "{text}");
    }
}

#[test]
fn an_error_names_the_part_and_says_what_to_write() {
    for (text, offset, message) in [
        ("", 0, "the end in place of a value"),
        ("user ==", 7, "the end in place of a value"),
        ("user = 'a'", 5, "`=` has no meaning in a condition"),
        ("user == 'a", 8, "a text without its closing quote"),
        ("user == 'a' user == 'b'", 12, "`user` is not expected here"),
        ("user == alice", 8, "unknown name `alice`"),
        ("user", 0, "a condition must be true or false, not text"),
        ("user == 1", 5, "`==` compares text with a number"),
        ("user < groups", 5, "`<` compares text with a list"),
        ("groups < groups", 0, "`<` does not apply to a list"),
        ("1 + 1 == 2", 2, "arithmetic (`+`) is not supported"),
        ("user == null", 8, "`null` is not supported"),
        ("size(user) == 1u", 14, "an unsigned number is not supported"),
        ("{'a': 1} == {}", 0, "a map (`{…}`) is not supported"),
        ("b'a' == b'a'", 0, "bytes (`b\"…\"`) is not supported"),
        ("groups.map(g, g) == []", 7, "the function `.map()` with 2 arguments is not supported"),
        ("int('1') == 1", 0, "the function `int()` with 1 argument is not supported"),
        ("user.startsWith() ", 5, "`.startsWith()` is not called like this"),
        ("request.headers['X-A'] == ''", 16, "the names of headers are in lower case, not `X-A`"),
        (
            "request.headers['authorization'] == ''",
            16,
            "the credentials of a request are not for conditions",
        ),
        ("request.headers[user] == ''", 16, "the name is not a text in quotes"),
        ("request.body == ''", 8, "unknown variable `request.body`"),
        ("request == ''", 0, "`request` alone is not a value"),
        ("resource == ''", 0, "`resource` alone is not a value"),
        ("resource.id == ''", 9, "unknown variable `resource.id`"),
        ("action.name == ''", 7, "unknown variable `action.name`"),
        ("has(resource.properties)", 13, "`has(resource.properties)` does not say which property"),
        ("groups.exists(context, true)", 14, "`context` is a variable, and cannot name an item"),
        ("source.ip == '10.0.0'", 13, "`10.0.0` is not an address"),
        ("source.ip == '2001:DB8::1'", 13, "`2001:DB8::1` is never equal to an address"),
        ("source.ip == '::ffff:192.0.2.7'", 13, "`::ffff:192.0.2.7` is never equal to an address"),
        ("source.ip != claims.ip", 20, "an address compared with a claim"),
        ("cidr('10.0.0.0/8') in claims.nets", 0, "only `containsIP` takes a network"),
        ("groups.exists(user, user == 'a')", 14, "`user` is a variable, and cannot name an item"),
        ("request.time > timestamp('20260131T080000Z')", 15, "this is not a time"),
        ("duration('1h0') == duration('1h')", 0, "this is not a duration"),
        ("source.ip in groups", 13, "the list of addresses is not written here"),
        ("source.ip.startsWith('10.')", 7, "`startsWith` does not apply to an address"),
        ("cidr('10.0.0.0/33').containsIP(source.ip)", 5, "`cidr()` is not a network in quotes"),
        ("cidr('10.0.0.0/8') == source.ip", 0, "only `containsIP` takes a network"),
        ("request.time.getHours('Berlin') == 8", 22, "unknown time zone `Berlin`"),
        ("request.time > timestamp('2026-01-01')", 15, "this is not a time"),
        ("request.time > timestamp('2026-01-01T00:00:00,5Z')", 15, "this is not a time"),
        ("request.time > timestamp('2026-01-01T00:00:00.Z')", 15, "this is not a time"),
        ("duration('1 h') == duration('1h')", 0, "this is not a duration"),
        ("user in 'alice'", 8, "`in` looks into text, which is no list"),
        ("1 in ['a']", 2, "`in` looks for a number in a list of text"),
        ("['a', 1] == []", 6, "a list of text and a number"),
        ("groups.exists(g, g)", 17, "the condition of `exists` must be true or false, not text"),
        ("user.matches(user)", 13, "the regular expression is not a text in quotes"),
        ("user && true", 0, "an operand of `&&` must be true or false, not text"),
        ("true ? 1 : 'a'", 5, "`?:` chooses between a number and text"),
        ("for == 'a'", 0, "`for` is a word that CEL reserves"),
        ("'\\q' == ''", 1, "an escape that CEL does not have"),
        ("user == '\\ud800'", 9, "an escape that CEL does not have"),
        ("99999999999999999999 == 1", 0, "`99999999999999999999` is not a number of 64 bits"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.offset, &*error.message), (offset, message), "{text}");
        assert!(!error.help.is_empty(), "{text}");
    }
}

#[test]
fn the_example_of_each_function_is_a_call_of_it() {
    for (name, call) in FUNCTIONS {
        assert!(parse_value(call).is_ok() && call.contains(&format!("{name}(")), "{name}");
        let error = parse(&format!("{name}()")).expect_err(name);
        assert_eq!(error.message, format!("`{name}()` is not called like this"));
    }
}

/// For requests of proxies, nothing that reads a question is true or false.
#[test]
fn without_a_question_its_parts_cannot_be_computed() {
    for text in [
        "resource.properties.owner == user",
        "has(resource.properties.owner)",
        "!has(action.properties.soft)",
        "!('time' in context)",
        "size(context) == 0",
        "context.list.all(x, x == 1)",
        "context.a == 1 ? true : true",
        "user == 'bob' || !has(context.a)",
    ] {
        assert_eq!(value_for(text, &Question::None), None, "{text}");
    }
    for text in ["has(context.a) || user == 'alice'", "!(has(context.a) && user == 'bob')"] {
        assert_eq!(value_for(text, &Question::None), Some(true), "{text}");
    }
}
