//! Reads the directives of nginx, with the files that they include.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{Files, Place, Problem};

use crate::Texts;
use crate::directive::{Directive, MAX_DEPTH, MAX_FILES};
use crate::finding::{Finding, Kind};

/// A token of the text.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

/// Reads a configuration. Files are found relative to the first file, as nginx finds them relative
/// to the folder of its main configuration.
pub(crate) struct Reader<'f> {
    files: &'f dyn Files,
    folder: PathBuf,
    pub(crate) texts: Texts,
    pub(crate) findings: Vec<Finding>,
}

impl<'f> Reader<'f> {
    pub(crate) fn new(files: &'f dyn Files, main: &Path) -> Self {
        let folder = main.parent().unwrap_or(Path::new("")).to_owned();
        Self { files, folder, texts: Vec::new(), findings: Vec::new() }
    }

    /// The directives of a file.
    pub(crate) fn read(&mut self, file: &Path, depth: usize) -> Result<Vec<Directive>, Problem> {
        let start = Place::start_of(file);
        if self.texts.len() >= MAX_FILES || depth > MAX_DEPTH {
            return Err(Problem::error(
                start,
                "too many files are included, or it includes itself",
            ));
        }
        let bytes = self
            .files
            .read(file)
            .map_err(|error| Problem::error(start.clone(), format!("cannot read it: {error}")))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.texts.push((file.to_owned(), text.clone()));
        let mut tokens = Tokens::new(file, &text);
        self.block(&mut tokens, (depth, 0))
    }

    /// The directives up to the end of a block. `depth` is the number of files that include this
    /// one, and the number of blocks in this file around the directives.
    fn block(
        &mut self,
        tokens: &mut Tokens<'_>,
        depth: (usize, usize),
    ) -> Result<Vec<Directive>, Problem> {
        let mut directives = Vec::new();
        if depth.1 > MAX_DEPTH {
            return Err(Problem::error(tokens.place(), "blocks are nested too deeply"));
        }
        loop {
            let (at, token) = tokens.next()?;
            let name = match token {
                Some(Token::Word(name)) => name,
                Some(Token::End) => continue,
                Some(Token::Close) if depth.1 > 0 => return Ok(directives),
                None if depth.1 == 0 => return Ok(directives),
                None => return Err(Problem::error(at, "a block has no end: `}` is missing")),
                Some(Token::Open | Token::Close) => {
                    return Err(Problem::error(at, "a brace without a directive"));
                }
            };
            let mut args = Vec::new();
            let block = loop {
                match tokens.next()? {
                    (_, Some(Token::Word(arg))) => args.push(arg),
                    (_, Some(Token::End)) => break None,
                    (_, Some(Token::Open)) if name.ends_with("_by_lua_block") => {
                        tokens.skip_code()?;
                        break Some(Vec::new());
                    }
                    (_, Some(Token::Open)) => {
                        break Some(self.block(tokens, (depth.0, depth.1 + 1))?);
                    }
                    (at, Some(Token::Close) | None) => {
                        return Err(Problem::error(
                            at,
                            format!("`{name}` has no end: `;` is missing"),
                        ));
                    }
                }
            };
            let directive = Directive { name, args, block, at };
            if directive.name == "include" && directive.block.is_none() {
                directives.extend(self.include(&directive, depth.0)?);
            } else {
                directives.push(directive);
            }
        }
    }

    fn include(&mut self, include: &Directive, depth: usize) -> Result<Vec<Directive>, Problem> {
        let pattern = self.folder.join(include.arg(0));
        let folder = pattern.parent().unwrap_or(Path::new("")).to_owned();
        let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = vec![name.clone()];
        if name.contains(['*', '?', '[']) {
            names = self.files.list(&folder).unwrap_or_default();
            names.retain(|n| matches(name.as_bytes(), n.as_bytes()));
            names.sort_unstable();
        } else if self.files.read(&pattern).is_err() {
            let message = format!("`{}` is not there: what it says is not checked", include.arg(0));
            let fix = "lint the configuration where the file is";
            self.findings.push(include.finding(Kind::UnseenInclude, message, fix));
            return Ok(Vec::new());
        }
        let mut directives = Vec::new();
        for name in names {
            directives.extend(self.read(&folder.join(name), depth + 1)?);
        }
        Ok(directives)
    }
}

/// Whether a name matches a pattern of `*` and `?`. From a `[` on, any rest of a name matches: it
/// is better to read a file too many than a file too few.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'[', _)), _) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, shorter))) => {
            matches(rest, name) || matches(pattern, shorter)
        }
        (Some((b'?', rest)), Some((_, shorter))) => matches(rest, shorter),
        (Some((byte, rest)), Some((first, shorter))) => byte == first && matches(rest, shorter),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// The tokens of a text.
struct Tokens<'t> {
    file: Arc<Path>,
    characters: std::iter::Peekable<std::str::Chars<'t>>,
    line: u32,
    column: u32,
}

impl<'t> Tokens<'t> {
    fn new(file: &Path, text: &'t str) -> Self {
        Self { file: file.into(), characters: text.chars().peekable(), line: 1, column: 1 }
    }

    fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line, column: self.column }
    }

    fn step(&mut self) -> Option<char> {
        let character = self.characters.next()?;
        if character == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(character)
    }

    /// The next token and its place; `None` at the end.
    fn next(&mut self) -> Result<(Place, Option<Token>), Problem> {
        while let Some(character) = self.characters.peek().copied() {
            if character == '#' {
                self.skip_line();
            } else if character.is_whitespace() {
                self.step();
            } else {
                break;
            }
        }
        let at = self.place();
        let token = match self.characters.peek() {
            None => return Ok((at, None)),
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => {
                let quote = *quote;
                self.step();
                return Ok((at.clone(), Some(Token::Word(self.quoted(quote, at)?))));
            }
            Some(_) => return Ok((at, Some(Token::Word(self.word())))),
        };
        self.step();
        Ok((at, Some(token)))
    }

    fn quoted(&mut self, quote: char, at: Place) -> Result<String, Problem> {
        let mut text = String::new();
        loop {
            match self.step() {
                Some('\\') => text.extend(self.step()),
                Some(character) if character == quote => return Ok(text),
                Some(character) => text.push(character),
                None => return Err(Problem::error(at, "a quoted text has no end")),
            }
        }
    }

    fn word(&mut self) -> String {
        let mut text = String::new();
        while let Some(character) = self.characters.peek().copied() {
            // `${name}` is a variable.
            let is_variable = character == '{' && text.ends_with('$');
            if !is_variable && (character.is_whitespace() || matches!(character, ';' | '{')) {
                break;
            }
            self.step();
            text.push(character);
            if character == '\\' {
                text.extend(self.step());
            } else if is_variable {
                while let Some(character) = self.step() {
                    text.push(character);
                    if character == '}' {
                        break;
                    }
                }
            }
        }
        text
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) {
        while self.characters.peek().is_some_and(|next| *next != '\n') {
            self.step();
        }
    }

    /// Skips the next character if it is this one. Returns whether it was.
    fn skip_if(&mut self, expected: char) -> bool {
        let is_next = self.characters.peek() == Some(&expected);
        if is_next {
            self.step();
        }
        is_next
    }

    /// Skips the rest of a block of Lua. Braces in texts and comments do not count.
    fn skip_code(&mut self) -> Result<(), Problem> {
        let at = self.place();
        let mut open = 1_usize;
        while open > 0 {
            match self.step() {
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(quote @ ('"' | '\'')) => {
                    self.quoted(quote, at.clone())?;
                }
                Some('[') => {
                    self.skip_long_text();
                }
                Some('-') if self.skip_if('-') => self.skip_lua_comment(),
                Some(_) => {}
                None => return Err(Problem::error(at, "a block of Lua has no end")),
            }
        }
        Ok(())
    }

    /// Skips the rest of a comment of Lua, behind its `--`.
    fn skip_lua_comment(&mut self) {
        let is_long = self.skip_if('[') && self.skip_long_text();
        if !is_long {
            self.skip_line();
        }
    }

    /// Skips the rest of a text of Lua such as `[[…]]` or `[=[…]=]`, behind its first `[`. Returns
    /// whether it was one: `[` also begins an index.
    fn skip_long_text(&mut self) -> bool {
        let mut end = "]".to_owned();
        while self.skip_if('=') {
            end.push('=');
        }
        end.push(']');
        if !self.skip_if('[') {
            return false;
        }
        let mut text = String::new();
        while !text.ends_with(&end)
            && let Some(character) = self.step()
        {
            text.push(character);
        }
        true
    }
}
