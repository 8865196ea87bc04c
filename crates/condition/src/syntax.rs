//! Parses a condition. The grammar is CEL's (language definition, *Syntax*); names and types are
//! checked later.

use crate::token::{Token, TokenKind, tokens};
use crate::value::Constant;
use crate::{ConditionError, MAX_COMPARISONS, MAX_DEPTH, MAX_LENGTH};

/// A parsed expression, as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Syntax {
    /// The offset in the text. For an operation it is that of the operator or of the `[`, for a
    /// member or a call that of the name, and for anything else that of the start.
    pub(crate) at: usize,
    pub(crate) kind: SyntaxKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SyntaxKind {
    Constant(Constant),
    List(Vec<Syntax>),
    Name(String),
    /// `VALUE.NAME`
    Select(Box<Syntax>, String),
    /// `VALUE[INDEX]`
    Index(Box<Syntax>, Box<Syntax>),
    /// `NAME(ARGUMENTS)` or `VALUE.NAME(ARGUMENTS)`
    Call(Option<Box<Syntax>>, String, Vec<Syntax>),
    Not(Box<Syntax>),
    /// `LEFT OPERATOR RIGHT`
    Binary(&'static str, Box<Syntax>, Box<Syntax>),
    /// `CONDITION ? THEN : ELSE`
    Conditional(Box<Syntax>, Box<Syntax>, Box<Syntax>),
}

/// The maximum number of operators without brackets between them.
const MAX_CHAIN: usize = 2 * MAX_COMPARISONS;

const RELATIONS: [&str; 7] = ["==", "!=", "<=", ">=", "<", ">", "in"];

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Syntax, ConditionError> {
    if text.len() > MAX_LENGTH {
        let message = format!("a condition has {} bytes, more than {MAX_LENGTH}", text.len());
        let help = "give its parts names under `conditions`";
        return Err(ConditionError::new(0, message, help));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let syntax = parser.conditional()?;
    match parser.peek() {
        Token { kind: TokenKind::End, .. } => Ok(syntax),
        Token { at, kind } => {
            let help = "write `&&` or `||` between two conditions";
            Err(ConditionError::new(*at, format!("{} is not expected here", shown(kind)), help))
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    #[expect(clippy::indexing_slicing, reason = "the last token is `End`, and is never passed")]
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn take_symbol(&mut self, symbols: &[&str]) -> Option<(usize, &'static str)> {
        let Token { at, kind: TokenKind::Symbol(symbol) } = *self.peek() else { return None };
        let is_wanted = symbols.contains(&symbol);
        self.next += usize::from(is_wanted);
        is_wanted.then_some((at, symbol))
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), ConditionError> {
        if self.take_symbol(&[symbol]).is_some() {
            return Ok(());
        }
        let Token { at, kind } = self.peek();
        let message = format!("{} in place of `{symbol}`", shown(kind));
        Err(ConditionError::new(*at, message, format!("write `{symbol}`")))
    }

    /// Counts a level of nesting: the parser calls itself.
    fn enter(&mut self) -> Result<(), ConditionError> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("a condition is nested more than {MAX_DEPTH} deep");
        let help = "give a part of it a name under `conditions`";
        Err(ConditionError::new(self.peek().at, message, help))
    }

    fn conditional(&mut self) -> Result<Syntax, ConditionError> {
        self.enter()?;
        let condition =
            self.operands(&["||"], |parser| parser.operands(&["&&"], Self::relation))?;
        let syntax = match self.take_symbol(&["?"]) {
            None => condition,
            Some((at, _)) => {
                let then =
                    self.operands(&["||"], |parser| parser.operands(&["&&"], Self::relation))?;
                self.expect(":")?;
                let otherwise = self.conditional()?;
                let parts = [condition, then, otherwise].map(Box::new);
                let [condition, then, otherwise] = parts;
                Syntax { at, kind: SyntaxKind::Conditional(condition, then, otherwise) }
            }
        };
        self.depth -= 1;
        Ok(syntax)
    }

    /// Operands with left-associative operators between them.
    fn operands(
        &mut self,
        operators: &[&str],
        operand: impl Fn(&mut Self) -> Result<Syntax, ConditionError>,
    ) -> Result<Syntax, ConditionError> {
        let mut left = operand(self)?;
        let mut count = 0;
        while let Some((at, operator)) = self.take_symbol(operators) {
            // The tree is as deep as the chain is long, and its readers recurse.
            count += 1;
            if count > MAX_CHAIN {
                let message = format!("more than {MAX_CHAIN} operators `{operator}` in a row");
                let help = "compare with a list: `x in ['a', 'b']`";
                return Err(ConditionError::new(at, message, help));
            }
            let right = Box::new(operand(self)?);
            left = Syntax { at, kind: SyntaxKind::Binary(operator, Box::new(left), right) };
        }
        Ok(left)
    }

    fn relation(&mut self) -> Result<Syntax, ConditionError> {
        self.operands(&RELATIONS, Self::sum)
    }

    /// CEL has arithmetic here, with a higher precedence than relations. Conditions do not have it.
    fn sum(&mut self) -> Result<Syntax, ConditionError> {
        let operand = self.unary()?;
        match self.take_symbol(&["+", "-", "*", "/", "%"]) {
            None => Ok(operand),
            Some((at, operator)) => {
                Err(ConditionError::unsupported(at, &format!("arithmetic (`{operator}`)")))
            }
        }
    }

    fn unary(&mut self) -> Result<Syntax, ConditionError> {
        if let Some((at, _)) = self.take_symbol(&["-"]) {
            return match self.take() {
                // `token` has read the whole number with its sign.
                Token { at: number, kind: TokenKind::Constant(Constant::Int(value)) }
                    if number == at + 1 =>
                {
                    Ok(Syntax { at, kind: SyntaxKind::Constant(Constant::Int(value)) })
                }
                Token { kind: TokenKind::Constant(Constant::Double(value)), .. } => {
                    Ok(Syntax { at, kind: SyntaxKind::Constant(Constant::Double(-value)) })
                }
                _ => Err(ConditionError::unsupported(at, "arithmetic (`-`)")),
            };
        }
        let Some((at, _)) = self.take_symbol(&["!"]) else { return self.member() };
        self.enter()?;
        let operand = self.unary()?;
        self.depth -= 1;
        Ok(Syntax { at, kind: SyntaxKind::Not(Box::new(operand)) })
    }

    fn member(&mut self) -> Result<Syntax, ConditionError> {
        let mut value = self.primary()?;
        let mut length = 0;
        while let Some((at, symbol)) = self.take_symbol(&[".", "["]) {
            // The tree of `a.b.c` is as deep as the chain is long, and evaluation recurses over it.
            length += 1;
            if length > MAX_DEPTH {
                let message = format!("more than {MAX_DEPTH} members of members");
                return Err(ConditionError::new(at, message, "give a part a name"));
            }
            value = if symbol == "[" {
                let index = Box::new(self.conditional()?);
                self.expect("]")?;
                Syntax { at, kind: SyntaxKind::Index(Box::new(value), index) }
            } else {
                self.selection(value)?
            };
        }
        Ok(value)
    }

    /// The member or the call after the dot of `value.`.
    fn selection(&mut self, value: Syntax) -> Result<Syntax, ConditionError> {
        let Token { at, kind } = self.take();
        let TokenKind::Name(name) = kind else {
            let message = format!("{} in place of a name", shown(&kind));
            let help = "write a member with other characters as `claims['name']`";
            return Err(ConditionError::new(at, message, help));
        };
        let value = Box::new(value);
        let kind = match self.take_symbol(&["("]) {
            Some(_) => SyntaxKind::Call(Some(value), name, self.list(")")?),
            None => SyntaxKind::Select(value, name),
        };
        Ok(Syntax { at, kind })
    }

    fn primary(&mut self) -> Result<Syntax, ConditionError> {
        let Token { at, kind } = self.take();
        let kind = match kind {
            TokenKind::Constant(constant) => SyntaxKind::Constant(constant),
            TokenKind::Name(name) => match self.take_symbol(&["("]) {
                Some(_) => SyntaxKind::Call(None, name, self.list(")")?),
                None => SyntaxKind::Name(name),
            },
            TokenKind::Symbol("[") => SyntaxKind::List(self.list("]")?),
            TokenKind::Symbol("(") => {
                let inner = self.conditional()?;
                self.expect(")")?;
                return Ok(inner);
            }
            TokenKind::Symbol("{") => {
                return Err(ConditionError::unsupported(at, "a map (`{…}`)"));
            }
            kind @ (TokenKind::Symbol(_) | TokenKind::End) => {
                let message = format!("{} in place of a value", shown(&kind));
                let help = "write a text in quotes, a number, or a variable such as `source.ip`";
                return Err(ConditionError::new(at, message, help));
            }
        };
        Ok(Syntax { at, kind })
    }

    /// Values with commas between them, up to this bracket. A comma may follow the last.
    fn list(&mut self, end: &'static str) -> Result<Vec<Syntax>, ConditionError> {
        let mut items = Vec::new();
        loop {
            if self.take_symbol(&[end]).is_some() {
                return Ok(items);
            }
            items.push(self.conditional()?);
            if self.take_symbol(&[","]).is_none() {
                self.expect(end)?;
                return Ok(items);
            }
        }
    }
}

fn shown(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Constant(constant) => constant.to_string(),
        TokenKind::Name(name) => format!("`{name}`"),
        TokenKind::Symbol(symbol) => format!("`{symbol}`"),
        TokenKind::End => "the end".to_owned(),
    }
}
