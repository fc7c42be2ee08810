//! Reads Rust sources into modules: what each declares, imports and names.
//!
//! Works on tokens, so that paths inside macro calls count like all others. Knows as much of the grammar as
//! it takes to tell items apart; what the compiler would refuse is read somehow. Code that only tests or
//! model checkers build (`cfg(test)`, `cfg(loom)`) is left out, and its lines are counted as such.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// A module as its text says it: a file, or an inline `mod x { .. }` of one.
#[derive(Default)]
pub struct Outline {
    /// Names of the items that it defines, modules left out.
    pub items: Vec<String>,
    /// Whether it has code of its own, rather than declarations and re-exports alone.
    pub has_code: bool,
    /// The types among the items, also those inside functions.
    pub types: Vec<Type>,
    /// Functions and methods, with their lines.
    pub functions: Vec<(String, usize)>,
    /// The macros among the items, which may be called by their bare name from anywhere below.
    pub macros: Vec<String>,
    /// The functions of its traits, under the trait's name, with the traits that it builds on.
    pub traits: Vec<Trait>,
    /// Each name that a `use` brings in.
    pub imports: Vec<Import>,
    /// Each path of the code, single names among them.
    pub paths: Vec<Path>,
    /// Modules that are declared here, in files of their own or inline.
    pub children: Vec<Child>,
    /// The lines that only tests have.
    pub tests: Vec<RangeInclusive<usize>>,
}

/// The definition of a type: struct, enum, union, trait or alias.
#[derive(Clone)]
pub struct Type {
    pub name: String,
    pub line: usize,
    /// Whether a `cfg` decides about it: two such definitions of a name may be one type.
    pub conditional: bool,
}

pub struct Trait {
    pub name: String,
    pub line: usize,
    pub methods: usize,
    pub supertraits: Vec<String>,
}

pub struct Import {
    /// The name in this module; `*` for a glob.
    pub name: String,
    pub path: Vec<String>,
    /// A re-export: it makes no arrow by itself.
    pub public: bool,
    pub line: usize,
}

pub struct Path {
    pub segments: Vec<String>,
    pub line: usize,
    pub use_as: UseAs,
}

/// What follows a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UseAs {
    /// A list of arguments.
    Call,
    /// An exclamation mark.
    Macro,
    Other,
}

pub struct Child {
    pub name: String,
    /// What is between the braces; nothing where the module is a file.
    pub inline: Option<Outline>,
    pub conditional: bool,
}

/// Reads one file.
pub fn read(text: &str) -> Result<Outline, String> {
    let stream: TokenStream = text.parse().map_err(|e| format!("is no Rust: {e}"))?;
    let mut module = Outline::default();
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    Reader { module: &mut module, conditional: false }.items(&tokens, Body::Module);
    Ok(module)
}

/// What a list of items belongs to: associated types are no types of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Module,
    Impl,
}

struct Reader<'a> {
    module: &'a mut Outline,
    conditional: bool,
}

impl Reader<'_> {
    fn items(&mut self, tokens: &[TokenTree], body: Body) {
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            let attributes = attributes(tokens, &mut at);
            if at == tokens.len() {
                break;
            }
            let end = end_of_item(tokens, at);
            if attributes.iter().any(is_for_tests) {
                let last = tokens[end - 1].span().end().line;
                self.module.tests.push(tokens[start].span().start().line..=last);
            } else {
                for group in &attributes {
                    self.code(&flat(group));
                }
                let outer = self.conditional;
                self.conditional |=
                    attributes.iter().any(|group| word(&flat(group), 0) == Some("cfg".into()));
                self.item(&tokens[at..end], body);
                self.conditional = outer;
            }
            at = end;
        }
    }

    fn item(&mut self, tokens: &[TokenTree], body: Body) {
        let mut at = 0;
        let public = skip_visibility(tokens, &mut at);
        if word(tokens, at).as_deref() == Some("unsafe")
            && !matches!(word(tokens, at + 1).as_deref(), Some("fn"))
        {
            at += 1;
        }
        let key = word(tokens, at);
        let name = word(tokens, at + 1);
        match (key.as_deref(), name) {
            (Some("use"), _) => self.import(tokens, at, public),
            (Some("mod"), Some(name)) => self.child(name, &tokens[at..]),
            (Some("trait"), Some(name)) => {
                self.define_type(name.clone(), tokens[at].span());
                self.define_trait(name, &tokens[at..]);
                self.rest(&tokens[at + 2..], Body::Impl);
            }
            (Some("struct" | "enum" | "union"), Some(name)) => {
                self.define_type(name, tokens[at].span());
                self.code(&tokens[at + 2..]);
            }
            (Some("type"), Some(name)) if body == Body::Module => {
                self.define_type(name, tokens[at].span());
                self.code(&tokens[at + 2..]);
            }
            // An associated type is no type of its own.
            (Some("type"), Some(_)) => self.code(&tokens[at + 2..]),
            (Some("impl"), _) => {
                self.module.has_code = true;
                self.rest(&tokens[at + 1..], Body::Impl);
            }
            (Some("macro_rules"), _) => {
                if let Some(name) = word(tokens, at + 2) {
                    self.module.macros.push(name.clone());
                    self.module.items.push(name);
                    self.module.has_code = true;
                }
                self.code(&tokens[at + 2..]);
            }
            _ => {
                self.module.has_code = true;
                if let (Body::Module, Some(name)) = (body, defined(&tokens[at..])) {
                    self.module.items.push(name);
                }
                self.define_function(&tokens[at..]);
                self.code(&tokens[at..]);
            }
        }
    }

    fn define_type(&mut self, name: String, span: Span) {
        self.module.has_code = true;
        self.module.items.push(name.clone());
        let line = span.start().line;
        self.module.types.push(Type { name, line, conditional: self.conditional });
    }

    fn define_function(&mut self, tokens: &[TokenTree]) {
        let at = tokens.iter().take(6).position(|token| is_word(token, "fn"));
        if let Some(name) = at.and_then(|at| word(tokens, at + 1)) {
            self.module.functions.push((name, tokens[0].span().start().line));
        }
    }

    fn define_trait(&mut self, name: String, tokens: &[TokenTree]) {
        let Some(TokenTree::Group(group)) = tokens.last() else { return };
        let members = flat(group);
        let (mut at, mut methods) = (0, 0);
        while at < members.len() {
            attributes(&members, &mut at);
            if at == members.len() {
                break;
            }
            let end = end_of_item(&members, at);
            methods += usize::from(members[at..end].iter().any(|token| is_word(token, "fn")));
            at = end;
        }
        // Bounds stand between a colon and the braces; generics of the trait itself have brackets around
        // theirs.
        let bounds = tokens.iter().skip(2).skip_while(|token| !is_mark(token, ':'));
        let bounds = bounds.take_while(|token| !is_word(token, "where"));
        let supertraits = bounds.filter_map(ident).collect();
        let line = tokens[0].span().start().line;
        self.module.traits.push(Trait { name, line, methods, supertraits });
    }

    fn child(&mut self, name: String, tokens: &[TokenTree]) {
        let inline = match tokens.last() {
            Some(TokenTree::Group(group)) => {
                let mut module = Outline::default();
                let mut reader = Reader { module: &mut module, conditional: self.conditional };
                reader.items(&flat(group), Body::Module);
                Some(module)
            }
            _ => None,
        };
        self.module.children.push(Child { name, inline, conditional: self.conditional });
    }

    /// The head of an item with members, and the members.
    fn rest(&mut self, tokens: &[TokenTree], body: Body) {
        match tokens.split_last() {
            Some((TokenTree::Group(group), head)) if group.delimiter() == Delimiter::Brace => {
                self.code(head);
                self.items(&flat(group), body);
            }
            _ => self.code(tokens),
        }
    }

    /// `tokens` from `at` on is a `use`, with or without its semicolon.
    fn import(&mut self, tokens: &[TokenTree], at: usize, public: bool) {
        let line = tokens[at].span().start().line;
        let tokens: Vec<&TokenTree> =
            tokens[at + 1..].iter().take_while(|token| !is_mark(token, ';')).collect();
        let tokens: Vec<TokenTree> = tokens.into_iter().cloned().collect();
        self.tree(&tokens, &[], public, line);
    }

    /// One branch of a `use` behind `prefix`.
    fn tree(&mut self, tokens: &[TokenTree], prefix: &[String], public: bool, line: usize) {
        let mut path = prefix.to_vec();
        let mut alias = None;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => {
                    let inner = flat(group);
                    for branch in inner.split(|token| is_mark(token, ',')).filter(|branch| !branch.is_empty())
                    {
                        let line = branch[0].span().start().line;
                        self.tree(branch, &path, public, line);
                    }
                    return;
                }
                token if is_mark(token, '*') => path.push("*".into()),
                token if is_word(token, "as") => {
                    alias = word(tokens, at + 1);
                    at += 1;
                }
                token => path.extend(ident(token)),
            }
            at += 1;
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let Some(last) = path.last().cloned() else { return };
        if last == "*" {
            path.pop();
        }
        self.module.imports.push(Import { name: alias.unwrap_or(last), path, public, line });
    }

    /// Collects paths, and what functions define and import for themselves.
    fn code(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        let mut is_start = true;
        while at < tokens.len() {
            let starts = is_start;
            is_start = false;
            match &tokens[at] {
                TokenTree::Group(group) => {
                    is_start = group.delimiter() != Delimiter::Parenthesis;
                    self.code(&flat(group));
                }
                TokenTree::Punct(mark) => match mark.as_char() {
                    ';' => is_start = true,
                    // Lifetimes; fields and methods; what follows the closing bracket of generics.
                    '\'' => at += 1,
                    '.' if tokens.get(at + 1).is_some_and(|next| is_mark(next, '.')) => at += 1,
                    '.' if word(tokens, at + 1).is_some() => at += 1,
                    ':' if is_path_mark(tokens, at) => {
                        at += if word(tokens, at + 2).is_some() { 2 } else { 1 }
                    }
                    _ => {}
                },
                TokenTree::Ident(_) => {
                    if starts && self.local_item(tokens, &mut at) {
                        is_start = true;
                    } else {
                        self.path(tokens, &mut at);
                        continue;
                    }
                }
                TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    /// A `use` or a type inside a function; leaves `at` on its last token that needs no further look.
    fn local_item(&mut self, tokens: &[TokenTree], at: &mut usize) -> bool {
        let key = word(tokens, *at).unwrap_or_default();
        match (key.as_str(), word(tokens, *at + 1)) {
            ("use", _) => {
                self.import(tokens, *at, false);
                while *at + 1 < tokens.len() && !is_mark(&tokens[*at], ';') {
                    *at += 1;
                }
                true
            }
            ("struct" | "enum" | "trait", Some(name)) => {
                let line = tokens[*at].span().start().line;
                self.module.types.push(Type { name, line, conditional: self.conditional });
                *at += 1;
                true
            }
            _ => false,
        }
    }

    fn path(&mut self, tokens: &[TokenTree], at: &mut usize) {
        let line = tokens[*at].span().start().line;
        let mut segments = vec![word(tokens, *at).expect("the caller saw a word")];
        *at += 1;
        while is_path_mark(tokens, *at) {
            let Some(next) = word(tokens, *at + 2) else { break };
            segments.push(next);
            *at += 3;
        }
        let use_as = match (tokens.get(*at), tokens.get(*at + 1)) {
            (Some(TokenTree::Group(group)), _) if group.delimiter() == Delimiter::Parenthesis => UseAs::Call,
            (Some(mark), Some(TokenTree::Group(_))) if is_mark(mark, '!') => UseAs::Macro,
            _ => UseAs::Other,
        };
        self.module.paths.push(Path { segments, line, use_as });
    }
}

fn flat(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    tokens.get(at).and_then(ident)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Whether there is a `::`.
fn is_path_mark(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| tokens.get(at).is_some_and(|token| is_mark(token, ':'));
    colon(at) && colon(at + 1) && tokens[at].span().end() == tokens[at + 1].span().start()
}

/// The attributes at `at`, which moves behind them.
fn attributes(tokens: &[TokenTree], at: &mut usize) -> Vec<Group> {
    let mut found = Vec::new();
    while tokens.get(*at).is_some_and(|token| is_mark(token, '#')) {
        *at += 1;
        if tokens.get(*at).is_some_and(|token| is_mark(token, '!')) {
            *at += 1;
        }
        if let Some(TokenTree::Group(group)) = tokens.get(*at) {
            found.push(group.clone());
            *at += 1;
        }
    }
    found
}

/// `pub`, `pub(crate)` and the like.
fn skip_visibility(tokens: &[TokenTree], at: &mut usize) -> bool {
    let public = tokens.get(*at).is_some_and(|token| is_word(token, "pub"));
    if public {
        *at += 1;
        let within = tokens.get(*at);
        if matches!(within, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis) {
            *at += 1;
        }
    }
    public
}

/// The name of a function, constant or static.
fn defined(tokens: &[TokenTree]) -> Option<String> {
    let modifiers = ["const", "static", "mut", "unsafe", "async", "extern", "fn"];
    let mut rest = tokens.iter().filter(|token| !matches!(token, TokenTree::Literal(_)));
    rest.find_map(|token| ident(token).filter(|word| !modifiers.contains(&word.as_str())))
}

/// Behind the last token of the item at `at`.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let words: Vec<String> = tokens[at..]
        .iter()
        .take(8)
        .map_while(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(String::new()),
            TokenTree::Literal(_) => Some(String::new()),
            token => ident(token),
        })
        .collect();
    let is_function = words.iter().any(|word| word == "fn");
    let by_semicolon =
        !is_function && words.iter().any(|word| ["use", "const", "static", "type"].contains(&word.as_str()));
    for (index, token) in tokens.iter().enumerate().skip(at) {
        let ends = match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !by_semicolon,
            token => is_mark(token, ';'),
        };
        if ends {
            return index + 1;
        }
    }
    tokens.len()
}

fn is_for_tests(attribute: &Group) -> bool {
    let tokens = flat(attribute);
    match (word(&tokens, 0).as_deref(), tokens.get(1)) {
        (Some("cfg"), Some(TokenTree::Group(group))) => holds(&flat(group)) == Some(false),
        (Some("test"), None) => true,
        _ => false,
    }
}

/// What a `cfg` condition comes to in a plain build: `None` where that depends on the target or on features.
fn holds(tokens: &[TokenTree]) -> Option<bool> {
    let parts = |group: &Group| -> Vec<Option<bool>> {
        flat(group).split(|token| is_mark(token, ',')).filter(|part| !part.is_empty()).map(holds).collect()
    };
    match (word(tokens, 0).as_deref(), tokens.get(1)) {
        (Some("test" | "loom"), None) => Some(false),
        (Some("not"), Some(TokenTree::Group(group))) => holds(&flat(group)).map(|value| !value),
        (Some("all"), Some(TokenTree::Group(group))) => match parts(group) {
            parts if parts.contains(&Some(false)) => Some(false),
            parts if parts.contains(&None) => None,
            _ => Some(true),
        },
        (Some("any"), Some(TokenTree::Group(group))) => match parts(group) {
            parts if parts.contains(&Some(true)) => Some(true),
            parts if parts.contains(&None) => None,
            _ => Some(false),
        },
        _ => None,
    }
}
