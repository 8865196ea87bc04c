//! The modules of one crate, and which module uses which: read from the tokens of its source files.
//!
//! Paths that begin with `crate`, `self` or `super`, or with a name that the module imports or
//! declares, are followed through imports and re-exports to the module that defines what they name.
//! So `use crate::Verdict` is a use of `verdict.rs` when `lib.rs` says `pub use verdict::Verdict`.
//! Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::{read, root};

/// The uses of a file: the file that is used, and one path by which it is.
pub(crate) type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// The modules of a crate. The first is the crate's root.
pub(crate) struct Modules {
    all: Vec<Module>,
}

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// What is defined here, without child modules.
    items: BTreeSet<String>,
    /// The names that `use` brings here.
    imports: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// Every path of the code, those of `use` included.
    paths: Vec<Names>,
}

/// The names between the `::` of a path.
type Names = Vec<String>;

enum Token {
    Name(String),
    Separator,
    Group(Delimiter, Vec<Token>),
    Other(char),
}

impl Modules {
    /// Reads the crate whose root is `file`, such as `crates/policy/src/lib.rs`.
    pub(crate) fn of_crate(file: &str) -> Self {
        let mut modules = Self { all: Vec::new() };
        let folder = Path::new(file).parent().unwrap().to_str().unwrap();
        modules.read_file(file, folder, None);
        modules
    }

    /// Which files use which, but for those of a module and its descendants.
    pub(crate) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (from, module) in self.all.iter().enumerate() {
            for path in &module.paths {
                let Some((to, _)) = self.resolve(from, path, &mut Vec::new()) else { continue };
                let used = &self.all[to].file;
                if *used != module.file && !self.is_within(from, to) && !self.is_within(to, from) {
                    uses.entry(module.file.clone())
                        .or_default()
                        .entry(used.clone())
                        .or_insert(path.join("::"));
                }
            }
        }
        uses
    }

    fn is_within(&self, module: usize, ancestor: usize) -> bool {
        module == ancestor
            || self.all[module].parent.is_some_and(|parent| self.is_within(parent, ancestor))
    }

    /// `folder` is where the files of the child modules are.
    fn read_file(&mut self, file: &str, folder: &str, parent: Option<usize>) -> usize {
        let stream: TokenStream =
            read(file).parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.add(
            Module { file: file.to_owned(), parent, ..Module::default() },
            &tokens(stream),
            folder,
        )
    }

    fn add(&mut self, module: Module, code: &[Token], folder: &str) -> usize {
        let id = self.all.len();
        self.all.push(module);
        self.scan(id, code, folder, true);
        id
    }

    /// `in_module` is false inside of functions and other items.
    fn scan(&mut self, id: usize, mut code: &[Token], folder: &str, in_module: bool) {
        while let Some((first, rest)) = code.split_first() {
            code = match (first, rest) {
                (Token::Other('#'), [Token::Group(Delimiter::Bracket, attribute), item @ ..])
                    if is_test_only(attribute) =>
                {
                    after_item(item)
                }
                (Token::Name(word), [Token::Name(name), Token::Other(';'), rest @ ..])
                    if word == "mod" =>
                {
                    let (file, inner) = (format!("{folder}/{name}.rs"), format!("{folder}/{name}"));
                    // Not there, if an attribute names its path: then it is a file of another
                    // crate.
                    if root().join(&file).exists() {
                        let child = self.read_file(&file, &inner, Some(id));
                        self.all[id].children.insert(name.clone(), child);
                    }
                    rest
                }
                (
                    Token::Name(word),
                    [Token::Name(name), Token::Group(Delimiter::Brace, inner), rest @ ..],
                ) if word == "mod" => {
                    let file = self.all[id].file.clone();
                    let module = Module { file, parent: Some(id), ..Module::default() };
                    let child = self.add(module, inner, &format!("{folder}/{name}"));
                    self.all[id].children.insert(name.clone(), child);
                    rest
                }
                (Token::Name(word), [Token::Name(_) | Token::Separator, ..]) if word == "use" => {
                    let mut imports = Vec::new();
                    let rest = use_tree(rest, Vec::new(), &mut imports);
                    self.all[id].import(imports);
                    rest
                }
                (Token::Name(word), [Token::Name(name), rest @ ..])
                    if in_module && defines(word) =>
                {
                    self.all[id].items.insert(name.clone());
                    rest
                }
                (Token::Name(word), [Token::Other('!'), Token::Name(name), rest @ ..])
                    if word == "macro_rules" =>
                {
                    self.all[id].items.insert(name.clone());
                    rest
                }
                (Token::Name(name), [Token::Separator, ..]) => {
                    let mut path = vec![name.clone()];
                    let mut rest = rest;
                    while let [Token::Separator, Token::Name(name), after @ ..] = rest {
                        path.push(name.clone());
                        rest = after;
                    }
                    self.all[id].paths.push(path);
                    // What follows is generic arguments, or nothing of a path.
                    if let [Token::Separator, after @ ..] = rest { after } else { rest }
                }
                // `::std::fs`: of another crate.
                (Token::Separator, [Token::Name(_), rest @ ..]) => rest,
                (Token::Group(_, inner), rest) => {
                    self.scan(id, inner, folder, false);
                    rest
                }
                (_, rest) => rest,
            };
        }
    }

    /// The module that defines what a path names, as seen from a module, and what of the path is
    /// left there. `None` if that is another crate. `seen` ends circles of imports.
    fn resolve(
        &self,
        from: usize,
        path: &[String],
        seen: &mut Vec<(usize, String)>,
    ) -> Option<(usize, Names)> {
        let mut module = from;
        let mut rest = path;
        let mut is_ours = self.all[from].declares(path.first()?);
        while let Some((first, after)) = rest.split_first() {
            module = match first.as_str() {
                "crate" => 0,
                "self" => module,
                "super" => self.all[module].parent?,
                _ => break,
            };
            (rest, is_ours) = (after, true);
        }
        if is_ours { self.walk(module, rest, seen) } else { None }
    }

    fn walk(
        &self,
        mut id: usize,
        path: &[String],
        seen: &mut Vec<(usize, String)>,
    ) -> Option<(usize, Names)> {
        let mut path = path.to_vec();
        while let Some(name) = path.first().cloned() {
            let module = &self.all[id];
            if name == "*" {
                return Some((id, Vec::new()));
            }
            if seen.contains(&(id, name.clone())) {
                return None;
            }
            seen.push((id, name.clone()));
            let is_module = module
                .children
                .get(&name)
                .filter(|_| path.len() > 1 || !module.items.contains(&name));
            if let Some(&child) = is_module {
                id = child;
                path.remove(0);
            } else if module.items.contains(&name) {
                return Some((id, path));
            } else if let Some(import) = module.imports.get(&name) {
                let (found, left) = self.resolve(id, import, seen)?;
                let is_item = !left.is_empty();
                path.splice(..1, left);
                id = found;
                if is_item {
                    return Some((id, path));
                }
            } else {
                let through_glob = module.globs.iter().find_map(|glob| {
                    let (found, _) = self.resolve(id, glob, seen)?;
                    self.walk(found, &path, seen).filter(|(end, left)| {
                        left.first().is_none_or(|name| self.all[*end].items.contains(name))
                    })
                });
                return Some(through_glob.unwrap_or((id, path)));
            }
        }
        Some((id, path))
    }
}

impl Module {
    fn declares(&self, name: &str) -> bool {
        ["crate", "self", "super"].contains(&name)
            || self.children.contains_key(name)
            || self.imports.contains_key(name)
    }

    fn import(&mut self, imports: Vec<(Names, String)>) {
        for (path, name) in imports {
            self.paths.push(path.clone());
            if name == "*" {
                self.globs.push(path);
            } else {
                self.imports.entry(name).or_insert(path);
            }
        }
    }
}

fn tokens(stream: TokenStream) -> Vec<Token> {
    let mut all: Vec<Token> = Vec::new();
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => all.push(Token::Name(ident.to_string())),
            TokenTree::Literal(_) => all.push(Token::Other('"')),
            TokenTree::Group(group) => {
                all.push(Token::Group(group.delimiter(), tokens(group.stream())))
            }
            TokenTree::Punct(punct)
                if punct.as_char() == ':' && matches!(all.last(), Some(Token::Other(':'))) =>
            {
                all.pop();
                all.push(Token::Separator);
            }
            TokenTree::Punct(punct) => all.push(Token::Other(punct.as_char())),
        }
    }
    all
}

/// Adds what one tree of a `use` imports, each with the name that it gets, and returns what follows
/// the tree.
fn use_tree<'a>(
    mut code: &'a [Token],
    mut path: Names,
    imports: &mut Vec<(Names, String)>,
) -> &'a [Token] {
    if let [Token::Separator, rest @ ..] = code {
        // Of another crate: no module has this name.
        path.push("::".to_owned());
        code = rest;
    }
    loop {
        match code {
            [Token::Group(_, trees), rest @ ..] => {
                let mut trees = &trees[..];
                while !trees.is_empty() {
                    trees = use_tree(trees, path.clone(), imports);
                    if let [Token::Other(','), rest @ ..] = trees {
                        trees = rest;
                    }
                }
                return rest;
            }
            [Token::Other('*'), rest @ ..] => {
                path.push("*".to_owned());
                imports.push((path, "*".to_owned()));
                return rest;
            }
            [Token::Name(name), rest @ ..] => {
                if name != "self" || path.is_empty() {
                    path.push(name.clone());
                }
                code = rest;
            }
            _ => return code,
        }
        match code {
            [Token::Separator, rest @ ..] => code = rest,
            [Token::Name(word), Token::Name(name), rest @ ..] if word == "as" => {
                imports.push((path, name.clone()));
                return rest;
            }
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                imports.push((path, name));
                return code;
            }
        }
    }
}

fn is_test_only(attribute: &[Token]) -> bool {
    let [Token::Name(cfg), Token::Group(_, condition)] = attribute else { return false };
    cfg == "cfg" && matches!(&condition[..], [Token::Name(test)] if test == "test")
}

/// What follows an item, a field or an arm.
fn after_item(code: &[Token]) -> &[Token] {
    let end = code.iter().position(|token| {
        matches!(token, Token::Other(';' | ',') | Token::Group(Delimiter::Brace, _))
    });
    &code[end.map_or(code.len(), |end| end + 1)..]
}

fn defines(word: &str) -> bool {
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static"].contains(&word)
}
