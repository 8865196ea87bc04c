//! Reads a Caddyfile, with its snippets and the files that it imports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{Files, Place, Problem};

use crate::Texts;
use crate::directive::{Directive, MAX_DEPTH, MAX_FILES};
use crate::finding::{Finding, Kind};

/// A word or a brace of the text.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    is_quoted: bool,
    at: Place,
    /// Whether it is the first token of its line.
    begins_line: bool,
}

/// Reads a configuration.
pub(crate) struct Reader<'f> {
    files: &'f dyn Files,
    pub(crate) texts: Texts,
    pub(crate) findings: Vec<Finding>,
    snippets: BTreeMap<String, Vec<Directive>>,
}

impl<'f> Reader<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, texts: Vec::new(), findings: Vec::new(), snippets: BTreeMap::new() }
    }

    /// The sites of the main file, and its global options, which have no name.
    pub(crate) fn read_main(&mut self, file: &Path) -> Result<Vec<Directive>, Problem> {
        let mut directives = self.read(file)?;
        // If a file has only one site, the site may have no braces. Its first line then has the
        // addresses, and all other lines are its directives.
        let has_site = directives.iter().any(|site| site.block.is_some() && is_site(site));
        if !has_site
            && let Some(first) =
                directives.iter().position(|site| !site.name.is_empty() && !is_snippet(site))
        {
            let mut inner = directives.split_off(first);
            let mut site = inner.remove(0);
            site.block = Some(inner);
            directives.push(site);
        }
        directives.retain(|directive| !is_snippet(directive));
        self.expand_all(directives, 0)
    }

    fn read(&mut self, file: &Path) -> Result<Vec<Directive>, Problem> {
        let start = Place::start_of(file);
        if self.texts.len() >= MAX_FILES {
            return Err(Problem::error(start, "too many files are imported, or it imports itself"));
        }
        let bytes = self
            .files
            .read(file)
            .map_err(|error| Problem::error(start.clone(), format!("cannot read it: {error}")))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.texts.push((file.to_owned(), text.clone()));
        let mut tokens = tokens(file, &text)?.into_iter().peekable();
        let directives = block(&mut tokens, 0, &start)?;
        for snippet in directives.iter().filter(|directive| is_snippet(directive)) {
            self.snippets.insert(snippet.name.clone(), snippet.inner().to_vec());
        }
        Ok(directives)
    }

    /// Replaces `import` by the named snippet or file.
    fn expand_all(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, Problem> {
        let mut expanded = Vec::new();
        for mut directive in directives {
            if depth > MAX_DEPTH || expanded.len() > 100_000 {
                return Err(Problem::error(directive.at, "it imports itself"));
            }
            if directive.name == "import" {
                let imported = self.import(&directive)?;
                expanded.extend(self.expand_all(imported, depth + 1)?);
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand_all(block, depth + 1)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    fn import(&mut self, import: &Directive) -> Result<Vec<Directive>, Problem> {
        let name = import.arg(0);
        if let Some(snippet) = self.snippets.get(&format!("({name})")) {
            return Ok(with_arguments(snippet, import.args.get(1..).unwrap_or_default()));
        }
        let path = import.at.file.parent().unwrap_or(Path::new("")).join(name);
        let pattern = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files: Vec<PathBuf> = vec![path.clone()];
        if let Some((start, end)) = pattern.split_once('*') {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            let mut names = self.files.list(&folder).unwrap_or_default();
            names.retain(|n| n.starts_with(start) && n.ends_with(end));
            names.sort_unstable();
            files = names.into_iter().map(|name| folder.join(name)).collect();
        } else if self.files.read(&path).is_err() {
            let message = format!("`{name}` is not there: what it says is not checked");
            let fix = "lint the configuration where the file is";
            self.findings.push(import.finding(Kind::UnseenInclude, message, fix));
            return Ok(Vec::new());
        }
        let mut directives = Vec::new();
        for file in files {
            directives.extend(self.read(&file)?.into_iter().filter(|read| !is_snippet(read)));
        }
        Ok(directives)
    }
}

fn is_snippet(directive: &Directive) -> bool {
    directive.name.starts_with('(') && directive.name.ends_with(')')
}

/// Whether a directive at the top is a site, by its name: it is no snippet, no named matcher and
/// not the options, which have no name, and its name does not look like that of a directive.
pub(crate) fn is_site(directive: &Directive) -> bool {
    let name = directive.name.as_str();
    let is_directive = name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
        && name != "localhost";
    !name.is_empty() && !is_snippet(directive) && !is_directive && !name.starts_with('@')
}

/// A snippet with `{args[0]}` and the like replaced.
fn with_arguments(snippet: &[Directive], args: &[String]) -> Vec<Directive> {
    snippet
        .iter()
        .map(|directive| Directive {
            name: replace_arguments(&directive.name, args),
            args: directive.args.iter().map(|text| replace_arguments(text, args)).collect(),
            block: directive.block.as_ref().map(|block| with_arguments(block, args)),
            at: directive.at.clone(),
        })
        .collect()
}

fn replace_arguments(text: &str, args: &[String]) -> String {
    let numbered = args.iter().enumerate();
    numbered.fold(text.to_owned(), |text, (index, arg)| {
        text.replace(&format!("{{args[{index}]}}"), arg)
    })
}

type Peekable = std::iter::Peekable<std::vec::IntoIter<Token>>;

/// The directives up to the end of a block: one on each line.
fn block(tokens: &mut Peekable, depth: usize, at: &Place) -> Result<Vec<Directive>, Problem> {
    let mut directives = Vec::new();
    if depth > MAX_DEPTH {
        return Err(Problem::error(at.clone(), "blocks are nested too deeply"));
    }
    while let Some(first) = tokens.next() {
        if first.text == "}" && !first.is_quoted {
            if depth == 0 {
                return Err(Problem::error(first.at, "a brace without a directive"));
            }
            return Ok(directives);
        }
        let at = first.at.clone();
        let is_options = first.text == "{" && !first.is_quoted;
        let mut directive = Directive { name: String::new(), args: Vec::new(), block: None, at };
        if is_options {
            directive.block = Some(block(tokens, depth + 1, &directive.at)?);
        } else {
            directive.name = first.text;
            loop {
                // The addresses of a site may continue behind a comma on the next line.
                let continues = directive.args.last().unwrap_or(&directive.name).ends_with(',');
                let next = tokens.next_if(|next| continues || !next.begins_line);
                let Some(next) = next else { break };
                if next.text == "{" && !next.is_quoted {
                    directive.block = Some(block(tokens, depth + 1, &next.at)?);
                    break;
                }
                directive.args.push(next.text);
            }
        }
        directives.push(directive);
    }
    if depth == 0 {
        return Ok(directives);
    }
    Err(Problem::error(at.clone(), "a block has no end: `}` is missing"))
}

/// The tokens of a text.
fn tokens(file: &Path, text: &str) -> Result<Vec<Token>, Problem> {
    let file: Arc<Path> = file.into();
    let mut tokens: Vec<Token> = Vec::new();
    let mut characters = text.chars().peekable();
    let (mut line, mut column, mut begins_line) = (1_u32, 1_u32, true);
    while let Some(character) = characters.next() {
        let at = Place { file: file.clone(), line, column };
        column += 1;
        match character {
            '\n' => (line, column, begins_line) = (line + 1, 1, true),
            '\\' if characters.peek() == Some(&'\n') => {
                characters.next();
                (line, column) = (line + 1, 1);
            }
            _ if character.is_whitespace() => {}
            '#' => while characters.next_if(|next| *next != '\n').is_some() {},
            '"' | '`' => {
                let mut text = String::new();
                loop {
                    let Some(next) = characters.next() else {
                        return Err(Problem::error(at, "a quoted text has no end"));
                    };
                    column += 1;
                    if next == '\n' {
                        (line, column) = (line + 1, 1);
                    }
                    match next {
                        '\\' if character == '"' && characters.peek() == Some(&'"') => {
                            text.extend(characters.next());
                        }
                        _ if next == character => break,
                        _ => text.push(next),
                    }
                }
                tokens.push(Token { text, is_quoted: true, at, begins_line });
                begins_line = false;
            }
            _ => {
                let mut text = String::from(character);
                while let Some(next) = characters.next_if(|next| !next.is_whitespace()) {
                    text.push(next);
                    column += 1;
                }
                tokens.push(Token { text, is_quoted: false, at, begins_line });
                begins_line = false;
            }
        }
    }
    Ok(tokens)
}
