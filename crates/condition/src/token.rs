//! Splits the text of a condition into tokens, as CEL does (language definition, *Syntax*).

use crate::ConditionError;
use crate::value::Constant;

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    /// The offset of its first byte.
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A literal.
    Constant(Constant),
    /// The name of a variable, a function or a member.
    Name(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// Longer symbols come before their prefixes, as the first one that fits is taken.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "?", ":", "(", ")", "[", "]", "{", "}", ",",
    ".", "+", "-", "*", "/", "%",
];

/// The words that CEL reserves.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Splits a text.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ConditionError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = scanner.next()?;
        let is_end = token.kind == TokenKind::End;
        tokens.push(token);
        if is_end {
            return Ok(tokens);
        }
    }
}

/// Whether this text is a name, which may follow a dot. Words such as `in` and `true` are not.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let first = Scanner { text, at: 0 }.next();
    matches!(first, Ok(Token { kind: TokenKind::Name(name), .. }) if name == text)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let end = rest.find(|letter| !accept(letter)).unwrap_or(rest.len());
        let taken = rest.get(..end).unwrap_or_default().to_owned();
        self.at += end;
        taken
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let skips = self.rest().starts_with(prefix);
        self.at += if skips { prefix.len() } else { 0 };
        skips
    }

    fn next(&mut self) -> Result<Token, ConditionError> {
        self.take_while(char::is_whitespace);
        while self.skip("//") {
            self.take_while(|letter| letter != '\n');
            self.take_while(char::is_whitespace);
        }
        let at = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(Token { at, kind: TokenKind::End });
        };
        let is_fraction =
            first == '.' && self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let kind = if first.is_ascii_digit() || is_fraction {
            self.number()?
        } else if first.is_ascii_alphabetic() || first == '_' {
            self.word()?
        } else if matches!(first, '"' | '\'') {
            TokenKind::Constant(Constant::Text(self.text(false)?.into()))
        } else if let Some(symbol) =
            SYMBOLS.into_iter().find(|symbol| self.rest().starts_with(symbol))
        {
            self.at += symbol.len();
            TokenKind::Symbol(symbol)
        } else {
            let message = format!("`{first}` has no meaning in a condition");
            let help = match first {
                '=' if self.rest().starts_with("=>") => "write `>=`",
                '=' if self.rest().starts_with("=<") => "write `<=`",
                '=' => "write `==`",
                '&' => "write `&&`",
                '|' => "write `||`",
                _ => "write text in quotes",
            };
            return Err(ConditionError::new(at, message, help));
        };
        Ok(Token { at, kind })
    }

    fn word(&mut self) -> Result<TokenKind, ConditionError> {
        let at = self.at;
        let name = self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if self.rest().starts_with(['"', '\'']) {
            return match &*name {
                "r" | "R" => Ok(TokenKind::Constant(Constant::Text(self.text(true)?.into()))),
                "b" | "B" | "br" | "Br" | "bR" | "BR" | "rb" | "Rb" | "rB" | "RB" => {
                    Err(ConditionError::unsupported(at, "bytes (`b\"…\"`)"))
                }
                _ => {
                    Err(ConditionError::new(at, format!("`{name}` before a text"), "leave it out"))
                }
            };
        }
        match &*name {
            "true" => Ok(TokenKind::Constant(Constant::Bool(true))),
            "false" => Ok(TokenKind::Constant(Constant::Bool(false))),
            "null" => Err(ConditionError::unsupported(at, "`null`").help("use `has()`")),
            "in" => Ok(TokenKind::Symbol("in")),
            _ if RESERVED.contains(&&*name) => {
                let message = format!("`{name}` is a word that CEL reserves");
                Err(ConditionError::new(at, message, "write text in quotes"))
            }
            _ => Ok(TokenKind::Name(name)),
        }
    }

    fn number(&mut self) -> Result<TokenKind, ConditionError> {
        let at = self.at;
        if self.skip("0x") || self.skip("0X") {
            let digits = self.take_while(|letter| letter.is_ascii_alphanumeric());
            return self.integer(at, &digits, 16);
        }
        let mut digits = self.take_while(|letter| letter.is_ascii_digit());
        let mut is_integer = true;
        let digit_follows = self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if self.rest().starts_with('.') && digit_follows {
            self.at += 1;
            is_integer = false;
            digits = format!("{digits}.{}", self.take_while(|letter| letter.is_ascii_digit()));
        }
        if self.skip("e") || self.skip("E") {
            is_integer = false;
            let sign = if self.skip("-") { "-" } else { "" };
            self.skip("+");
            digits =
                format!("{digits}e{sign}{}", self.take_while(|letter| letter.is_ascii_digit()));
        }
        digits += &self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if is_integer {
            return self.integer(at, &digits, 10);
        }
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(TokenKind::Constant(Constant::Double(number))),
            _ => Err(ConditionError::new(at, format!("`{digits}` is not a number"), "write `1.5`")),
        }
    }

    /// A `-` right before the digits counts as the sign of the number: the digits of -2⁶³ alone are
    /// too large a number. The `-` is also a token of its own, which the parser then skips.
    fn integer(&self, at: usize, digits: &str, base: u32) -> Result<TokenKind, ConditionError> {
        if digits.ends_with(['u', 'U']) {
            let help = "write the number without `u`";
            return Err(ConditionError::unsupported(at, "an unsigned number").help(help));
        }
        let sign =
            if self.text.get(..at).is_some_and(|before| before.ends_with('-')) { "-" } else { "" };
        match i64::from_str_radix(&format!("{sign}{digits}"), base) {
            Ok(number) => Ok(TokenKind::Constant(Constant::Int(number))),
            Err(_) => {
                let message = format!("`{digits}` is not a number of 64 bits");
                Err(ConditionError::new(at, message, "write a smaller number, or text in quotes"))
            }
        }
    }

    /// A text in quotes. A raw text has no escapes.
    fn text(&mut self, raw: bool) -> Result<String, ConditionError> {
        let at = self.at;
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| self.skip(quote));
        let quote = quote.unwrap_or("\"");
        let mut text = String::new();
        loop {
            if self.skip(quote) {
                return Ok(text);
            }
            match self.rest().chars().next() {
                Some('\\') if !raw => text.push(self.escape()?),
                Some(letter) if quote.len() == 3 || !matches!(letter, '\n' | '\r') => {
                    self.at += letter.len_utf8();
                    text.push(letter);
                }
                Some(_) | None => {
                    let message = "a text without its closing quote";
                    return Err(ConditionError::new(at, message, format!("end it with `{quote}`")));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, ConditionError> {
        let at = self.at;
        self.at += 1;
        let letter = self.rest().chars().next().unwrap_or(' ');
        let (digits, base) = match letter {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (3, 8),
            _ => (0, 0),
        };
        if digits == 0 {
            let escapes = [
                ('a', '\x07'),
                ('b', '\x08'),
                ('f', '\x0c'),
                ('n', '\n'),
                ('r', '\r'),
                ('t', '\t'),
                ('v', '\x0b'),
            ];
            self.at += letter.len_utf8();
            if matches!(letter, '\\' | '?' | '"' | '\'' | '`') {
                return Ok(letter);
            }
            let found = escapes.into_iter().find(|(name, _)| *name == letter);
            return found.map(|(_, meaning)| meaning).ok_or_else(|| invalid_escape(at));
        }
        self.at += usize::from(base == 16);
        let number = self.rest().get(..digits).and_then(|text| {
            let is_number = text.bytes().all(|byte| char::from(byte).is_digit(base));
            is_number.then(|| u32::from_str_radix(text, base).ok()).flatten()
        });
        self.at += digits;
        number.and_then(char::from_u32).ok_or_else(|| invalid_escape(at))
    }
}

fn invalid_escape(at: usize) -> ConditionError {
    let help = "write `\\\\` for a backslash, or a raw text: `r'…'`";
    ConditionError::new(at, "an escape that CEL does not have", help)
}
