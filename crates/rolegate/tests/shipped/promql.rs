//! Parses the part of PromQL that the alerts and the dashboard use. Panics where an expression is
//! wrong, or uses more.

use std::collections::BTreeSet;

/// What an expression selects: metrics, and labels by which it selects, groups or joins.
#[derive(Default)]
pub(crate) struct Selected {
    pub(crate) metrics: BTreeSet<String>,
    pub(crate) labels: BTreeSet<String>,
    /// Labels with the values that are selected or left out.
    pub(crate) values: BTreeSet<(String, String)>,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operand {
    Range,
    /// A vector of one value for each series, or a number.
    Instant,
}

const AGGREGATIONS: [&str; 5] = ["avg", "count", "max", "min", "sum"];
/// Each function with its parameters.
const FUNCTIONS: [(&str, &[Operand]); 6] = [
    ("absent", &[Operand::Instant]),
    ("changes", &[Operand::Range]),
    ("histogram_quantile", &[Operand::Instant, Operand::Instant]),
    ("increase", &[Operand::Range]),
    ("rate", &[Operand::Range]),
    ("time", &[]),
];
const OPERATORS: [&str; 13] =
    ["+", "-", "*", "/", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless"];
const MATCHERS: [&str; 4] = ["=", "!=", "=~", "!~"];

struct Parser<'a> {
    expression: &'a str,
    /// In reverse order.
    tokens: Vec<&'a str>,
    selected: Selected,
}

/// Parses an expression.
pub(crate) fn parse(expression: &str) -> Selected {
    let mut tokens = tokens(expression);
    tokens.reverse();
    let mut parser = Parser { expression, tokens, selected: Selected::default() };
    parser.instant();
    assert!(parser.tokens.is_empty(), "`{}` does not end before {:?}", expression, parser.next());
    parser.selected
}

fn tokens(mut text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    loop {
        text = text.trim_start();
        let Some(first) = text.chars().next() else { return tokens };
        let is_word =
            |character: char| character.is_ascii_alphanumeric() || "_:.".contains(character);
        let length = match first {
            '"' => text.match_indices('"').nth(1).unwrap().0 + 1,
            _ if is_word(first) => text.find(|character| !is_word(character)).unwrap_or(text.len()),
            '=' | '!' | '<' | '>' => {
                1 + usize::from(text.chars().nth(1).is_some_and(|next| "=~".contains(next)))
            }
            _ => first.len_utf8(),
        };
        let (token, rest) = text.split_at(length);
        tokens.push(token);
        text = rest;
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.last().copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        self.tokens.pop().unwrap_or_default()
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, token: &str) {
        let found = self.next();
        assert_eq!(found, token, "`{}`", self.expression);
    }

    fn instant(&mut self) {
        assert_eq!(
            self.operand(),
            Operand::Instant,
            "`{}` has a range that no function reads",
            self.expression
        );
        while OPERATORS.contains(&self.peek()) {
            self.next();
            self.take("bool");
            if ["on", "ignoring"].contains(&self.peek()) {
                self.next();
                self.labels();
            }
            assert_eq!(self.operand(), Operand::Instant, "`{}`", self.expression);
        }
    }

    fn operand(&mut self) -> Operand {
        let token = self.next();
        let parameters =
            FUNCTIONS.iter().find(|(name, _)| *name == token).map(|(_, parameters)| *parameters);
        if token == "(" {
            self.instant();
            self.expect(")");
        } else if AGGREGATIONS.contains(&token) {
            if ["by", "without"].contains(&self.peek()) {
                self.next();
                self.labels();
            }
            self.arguments(&[Operand::Instant]);
        } else if let Some(parameters) = parameters {
            self.arguments(parameters);
        } else if token.parse::<f64>().is_err() {
            return self.selector(token);
        }
        Operand::Instant
    }

    fn arguments(&mut self, parameters: &[Operand]) {
        self.expect("(");
        for (number, parameter) in parameters.iter().enumerate() {
            if number > 0 {
                self.expect(",");
            }
            match parameter {
                Operand::Instant => self.instant(),
                Operand::Range => {
                    assert_eq!(self.operand(), Operand::Range, "`{}`", self.expression)
                }
            }
        }
        self.expect(")");
    }

    fn selector(&mut self, metric: &str) -> Operand {
        let is_name = metric.starts_with(|first: char| first.is_ascii_alphabetic());
        assert!(
            is_name && self.peek() != "(",
            "`{}`: `{metric}` is no metric and no function",
            self.expression
        );
        self.selected.metrics.insert(metric.to_owned());
        if self.take("{") {
            while !self.take("}") {
                let (label, matcher, value) = (self.next(), self.next(), self.next());
                assert!(MATCHERS.contains(&matcher), "`{}`: `{label}{matcher}`", self.expression);
                let values =
                    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap();
                self.selected.labels.insert(label.to_owned());
                let values = values.split('|').map(|value| (label.to_owned(), value.to_owned()));
                self.selected.values.extend(values);
                assert!(
                    self.take(",") || self.peek() == "}",
                    "`{}` after `{label}`",
                    self.expression
                );
            }
        }
        let mut operand = Operand::Instant;
        if self.take("[") {
            self.duration();
            self.expect("]");
            operand = Operand::Range;
        }
        if self.take("offset") {
            self.duration();
        }
        operand
    }

    fn duration(&mut self) {
        let duration = self.next();
        let number = duration
            .strip_suffix(['s', 'm', 'h', 'd'])
            .and_then(|number| number.parse::<u32>().ok());
        assert!(number.is_some(), "`{}`: `{duration}` is no duration", self.expression);
    }

    /// Labels in parentheses.
    fn labels(&mut self) {
        self.expect("(");
        while !self.take(")") {
            let label = self.next().to_owned();
            self.selected.labels.insert(label);
            assert!(self.take(",") || self.peek() == ")", "`{}`", self.expression);
        }
    }
}

#[test]
fn a_wrong_expression_is_noticed() {
    let selected =
        parse("sum by (job) (rate(a{kind=~\"x|y\"}[5m] offset 1h)) > 0.5 * (b or time())");
    assert_eq!(selected.metrics, ["a", "b"].map(str::to_owned).into());
    assert_eq!(selected.labels, ["job", "kind"].map(str::to_owned).into());
    for wrong in
        ["", "rate(a)", "a[5m]", "sum(a", "a b", "rat(a[5m])", "a{b=c}", "a + ", "rate(a[5])"]
    {
        assert!(std::panic::catch_unwind(|| parse(wrong)).is_err(), "{wrong}");
    }
}
