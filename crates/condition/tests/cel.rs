//! The conformance tests of CEL (repository `google/cel-spec`, `tests/simple/testdata`): each of
//! their expressions either has exactly the expected value here, or is an error at load.
//!
//! They are not part of this repository:
//! `CEL_SPEC=folder cargo test --package condition -- --ignored`.

use std::fs;

use condition::{Inputs, Value, evaluate, parse_value};

/// A field of a text of Protocol Buffers.
#[derive(Debug)]
struct Field {
    name: String,
    text: String,
    fields: Vec<Field>,
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t', ',', ';']);
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return,
            }
        }
    }

    fn fields(&mut self) -> Vec<Field> {
        let mut fields = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() || self.rest.starts_with(['}', '>']) {
                self.rest = self.rest.get(1..).unwrap_or("");
                return fields;
            }
            let name = if self.rest.starts_with('[') {
                let (name, rest) = self.rest[1..].split_once(']').unwrap();
                self.rest = rest;
                name.to_owned()
            } else {
                self.word()
            };
            self.skip();
            self.rest = self.rest.strip_prefix(':').unwrap_or(self.rest);
            self.skip();
            if let Some(rest) = self.rest.strip_prefix(['{', '<']) {
                self.rest = rest;
                let inner = self.fields();
                fields.push(Field { name, text: String::new(), fields: inner });
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix('[') {
                self.rest = rest;
                loop {
                    self.skip();
                    if let Some(rest) = self.rest.strip_prefix(']') {
                        self.rest = rest;
                        break;
                    }
                    let (text, inner) = match self.rest.strip_prefix('{') {
                        Some(rest) => {
                            self.rest = rest;
                            (String::new(), self.fields())
                        }
                        None => (self.scalar(), Vec::new()),
                    };
                    fields.push(Field { name: name.clone(), text, fields: inner });
                }
                continue;
            }
            let text = self.scalar();
            fields.push(Field { name, text, fields: Vec::new() });
        }
    }

    fn word(&mut self) -> String {
        let end = self
            .rest
            .find(|letter: char| !letter.is_alphanumeric() && !"_.-+".contains(letter))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        assert!(!word.is_empty(), "{:?}", self.rest.get(..40));
        self.rest = rest;
        word.to_owned()
    }

    fn scalar(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut is_text = false;
        loop {
            self.skip();
            let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
                break;
            };
            is_text = true;
            let mut letters = self.rest[1..].char_indices();
            while let Some((at, letter)) = letters.next() {
                if letter == quote {
                    self.rest = &self.rest[at + 2..];
                    break;
                }
                if letter != '\\' {
                    bytes.extend(letter.to_string().bytes());
                    continue;
                }
                let (_, escaped) = letters.next().unwrap();
                let number = |digits: usize, base: u32, letters: &mut std::str::CharIndices<'_>| {
                    let text: String = letters.by_ref().take(digits).map(|(_, c)| c).collect();
                    u32::from_str_radix(&text, base).unwrap()
                };
                match escaped {
                    'n' => bytes.push(b'\n'),
                    't' => bytes.push(b'\t'),
                    'r' => bytes.push(b'\r'),
                    'a' => bytes.push(7),
                    'b' => bytes.push(8),
                    'v' => bytes.push(11),
                    'f' => bytes.push(12),
                    'x' => bytes.push(number(2, 16, &mut letters).try_into().unwrap()),
                    'u' | 'U' => {
                        let digits = if escaped == 'u' { 4 } else { 8 };
                        let letter = char::from_u32(number(digits, 16, &mut letters)).unwrap();
                        bytes.extend(letter.to_string().bytes());
                    }
                    '0'..='7' => {
                        let rest = number(2, 8, &mut letters);
                        bytes.push((escaped.to_digit(8).unwrap() * 64 + rest).try_into().unwrap());
                    }
                    other => bytes.extend(other.to_string().bytes()),
                }
            }
        }
        if is_text { String::from_utf8_lossy(&bytes).into_owned() } else { self.word() }
    }
}

fn number(fields: &[Field], name: &str) -> i64 {
    let field = fields.iter().find(|field| field.name == name);
    field.map_or(0, |field| field.text.parse().unwrap())
}

fn is_expected(value: &Value<'_>, expected: &Field) -> bool {
    match (value, &*expected.name) {
        (Value::Int(value), "int64_value") => expected.text.parse() == Ok(*value),
        (Value::Double(value), "double_value") => {
            let wanted: f64 = expected.text.parse().unwrap();
            *value == wanted || value.is_nan() && wanted.is_nan()
        }
        (Value::Bool(value), "bool_value") => expected.text.parse() == Ok(*value),
        (Value::Text(value), "string_value") => expected.text == **value,
        (Value::Constants(items), "list_value") => {
            let values = expected.fields.iter().filter(|field| field.name == "values");
            values.clone().count() == items.len()
                && values
                    .zip(*items)
                    .all(|(field, item)| is_expected(&item.borrowed(), &field.fields[0]))
        }
        (Value::List(items), "list_value") => {
            let values = expected.fields.iter().filter(|field| field.name == "values");
            values.clone().count() == items.len()
                && values.zip(items).all(|(field, item)| is_expected(item, &field.fields[0]))
        }
        (Value::Time(time), "object_value") => {
            let object = &expected.fields[0];
            object.name.ends_with("Timestamp")
                && time.as_second() == number(&object.fields, "seconds")
                && i64::from(time.subsec_nanosecond()) == number(&object.fields, "nanos")
        }
        (Value::Duration(duration), "object_value") => {
            let object = &expected.fields[0];
            object.name.ends_with("Duration")
                && duration.as_secs() == number(&object.fields, "seconds")
                && i64::from(duration.subsec_nanos()) == number(&object.fields, "nanos")
        }
        _ => false,
    }
}

#[test]
#[ignore = "needs the files of google/cel-spec: CEL_SPEC=folder"]
fn an_expression_has_the_value_that_cel_gives_it_or_is_an_error_at_load() {
    let folder = std::env::var("CEL_SPEC").expect("CEL_SPEC names tests/simple/testdata");
    let (mut exact, mut rejected, mut wrong) = (0, 0, Vec::new());
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "textproto")) {
        let text = fs::read_to_string(file).unwrap();
        let file_fields = Parser { rest: &text }.fields();
        let (before, rejected_before) = (exact, rejected);
        for section in file_fields.iter().filter(|field| field.name == "section") {
            for test in section.fields.iter().filter(|field| field.name == "test") {
                let field = |name: &str| test.fields.iter().find(|field| field.name == name);
                let expression = &field("expr").unwrap().text;
                let Ok(parsed) = parse_value(expression) else {
                    rejected += 1;
                    continue;
                };
                let value = evaluate(&parsed, &Inputs::default());
                let typed = field("typed_result")
                    .and_then(|typed| typed.fields.iter().find(|field| field.name == "result"));
                let is_right = match (&value, field("value").or(typed), field("eval_error")) {
                    (Ok(_), ..) if field("check_only").is_some() => true,
                    (Ok(value), Some(expected), _) => is_expected(value, &expected.fields[0]),
                    (Ok(Value::Bool(value)), None, None) => *value,
                    (Err(_), None, Some(_)) => true,
                    _ => false,
                };
                if is_right {
                    exact += 1;
                } else {
                    wrong.push(format!("{}: {expression}: {value:?}", field("name").unwrap().text));
                }
            }
        }
        let name = file.file_stem().unwrap().to_string_lossy();
        println!("{name}: {} exact, {} errors at load", exact - before, rejected - rejected_before);
    }
    println!("{exact} exact, {rejected} errors at load");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(exact > 300, "{exact}");
}
