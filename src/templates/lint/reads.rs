//! The reads of a template: every name, and every part of it, in branches that no sample reaches too.
//!
//! It follows names that loops, `set` and components give to a part of the view. Where the meaning of a name is not
//! clear, its parts are not checked.

use std::collections::{HashMap, HashSet};

use crate::templates::lexer;
use crate::templates::lexer::{Tag, TagToken, TokenKind};
use crate::templates::lint::components::{Component, components, trim_whitespace_signs};

/// The way to a part of the view: names, and [`EACH`] for the elements of a list or map.
pub(crate) type ViewPath = Vec<String>;
/// Any element of a list, or any value of a map.
pub(crate) const EACH: &str = "[]";
/// The longest path: longer ones come from components that call themselves.
pub(crate) const LONGEST_WAY: usize = 12;
/// More than any set of components can be called with in different ways.
const MAX_CALLS: usize = 5_000;

/// One place where a template reads a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TemplateRead {
    pub(crate) way: ViewPath,
    /// True if all parts below are read with it.
    pub(crate) whole: bool,
    /// True if a component reads a name without a value.
    pub(crate) unbound: bool,
    pub(crate) file: String,
    /// The offset, in bytes.
    pub(crate) at: usize,
    pub(crate) length: usize,
}

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Binding {
    /// One of these parts of the view.
    Parts(Vec<ViewPath>),
    /// A computed value.
    Anything,
}

/// The names in scope, with their meaning.
pub(crate) type NameScope = Vec<(String, Binding)>;

/// Collects the reads of the files of one version of a template; `texts` are those of the files and of everything they
/// may use, by the engine's names.
pub(crate) fn collect_reads(
    files: &[String],
    texts: &HashMap<String, &str>,
) -> HashSet<TemplateRead> {
    let components = components(texts);
    let mut reader = TemplateReader {
        texts,
        components: &components,
        reads: HashSet::new(),
        calls: Vec::new(),
        seen: HashSet::new(),
        scopes: Vec::new(),
        isolated: false,
        file: String::new(),
    };
    for file in files {
        reader.file(file);
    }
    while let Some((name, arguments)) = reader.calls.pop() {
        reader.component(&name, &arguments);
    }
    reader.reads
}

/// Reads a template tag by tag; its expressions are read in [`crate::templates::lint::expressions`].
pub(crate) struct TemplateReader<'r> {
    texts: &'r HashMap<String, &'r str>,
    pub(crate) components: &'r HashMap<String, Component>,
    reads: HashSet<TemplateRead>,
    pub(crate) calls: Vec<(String, NameScope)>,
    seen: HashSet<(String, NameScope)>,
    pub(crate) scopes: Vec<NameScope>,
    /// True in a component, where unbound names have no value.
    pub(crate) isolated: bool,
    pub(crate) file: String,
}

impl TemplateReader<'_> {
    fn file(&mut self, file: &str) {
        let Some(text) = self.texts.get(file) else { return };
        let before = std::mem::replace(&mut self.file, file.to_owned());
        self.scopes.push(NameScope::new());
        self.tags(&lexer::tags(text), true);
        self.scopes.pop();
        self.file = before;
    }

    fn component(&mut self, name: &str, arguments: &NameScope) {
        let fresh =
            self.seen.len() < MAX_CALLS && self.seen.insert((name.to_owned(), arguments.clone()));
        let Some(component) = self.components.get(name).filter(|_| fresh) else { return };
        let Some(text) = self.texts.get(&component.file) else { return };
        let tags = lexer::tags(text);
        let mut names = vec![("body".to_owned(), Binding::Anything)];
        for (parameter, implicit) in &component.parameters {
            let bound =
                arguments.iter().find(|(name, _)| name == parameter).map(|(_, b)| b.clone());
            let own_parameter = || Binding::Parts(vec![vec![parameter.clone()]]);
            names.push((
                parameter.clone(),
                bound.unwrap_or_else(|| match implicit {
                    true => own_parameter(),
                    false => Binding::Anything,
                }),
            ));
        }
        self.file.clone_from(&component.file);
        self.isolated = true;
        self.scopes = vec![names];
        self.tags(tags.get(component.body.0..component.body.1).unwrap_or_default(), false);
    }

    /// Reads all tags of a file or a component; definitions within a file are read when they are
    /// called.
    fn tags(&mut self, tags: &[Tag<'_>], file: bool) {
        let mut defining = false;
        for tag in tags {
            match tag {
                Tag::Does(tokens) => {
                    let tokens = trim_whitespace_signs(tokens);
                    let first = tokens.first().map_or("", |token| token.text);
                    defining =
                        file && (defining || first == "component") && first != "endcomponent";
                    if !defining {
                        self.visit_statement(first, tokens);
                    }
                }
                Tag::Shown(tokens) if !defining => {
                    self.value(trim_whitespace_signs(tokens));
                }
                Tag::Shown(_) => {}
            }
        }
    }

    fn visit_statement(&mut self, first: &str, tokens: &[TagToken<'_>]) {
        let rest = tokens.get(1..).unwrap_or_default();
        match first {
            "if" | "elif" => self.value(rest),
            "for" => self.begin_loop(rest),
            "endfor" => drop(self.scopes.pop()),
            "set" | "set_global" => self.set(rest),
            "include" | "extends" => self.include(rest),
            // A filter's own name is no read; its arguments may have reads.
            "filter" => self.value(rest.get(1..).unwrap_or_default()),
            "<" => {
                self.call(tokens, 0);
            }
            _ => {}
        }
    }

    /// Reads everything in it whole.
    pub(crate) fn value(&mut self, tokens: &[TagToken<'_>]) {
        let (_, reads) = self.expression(tokens);
        self.note(reads, true);
    }

    /// Binds a name to the meaning of an expression; the read counts where the name is used.
    pub(crate) fn bound(&mut self, tokens: &[TagToken<'_>]) -> Binding {
        let (bound, reads) = self.expression(tokens);
        self.note(reads, bound == Binding::Anything);
        bound
    }

    pub(crate) fn begin_loop(&mut self, tokens: &[TagToken<'_>]) {
        let inner = tokens.iter().position(|token| token.is_word("in")).unwrap_or(tokens.len());
        let (names, target) = tokens.split_at(inner);
        let bound = self.bound(target.get(1..).unwrap_or_default());
        self.scopes.push(loop_names(names, &bound));
    }

    fn set(&mut self, tokens: &[TagToken<'_>]) {
        let Some(name) = tokens.first() else { return };
        let bound = match tokens.get(1) {
            Some(sign) if sign.is("=") => self.bound(tokens.get(2..).unwrap_or_default()),
            // The content up to `endset` is text.
            _ => Binding::Anything,
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.text.to_owned(), bound));
        }
    }

    fn include(&mut self, tokens: &[TagToken<'_>]) {
        let names =
            tokens.iter().filter(|token| token.kind == TokenKind::Text).map(|token| token.text);
        for name in names.map(str::to_owned).collect::<Vec<_>>() {
            if self.scopes.len() < LONGEST_WAY {
                self.file(&name);
            }
        }
    }

    pub(crate) fn resolve(&self, name: &str) -> Option<Binding> {
        let names = self.scopes.iter().rev().flat_map(|scope| scope.iter().rev());
        names.into_iter().find(|(bound, _)| bound == name).map(|(_, bound)| bound.clone())
    }

    fn note(&mut self, reads: Vec<TemplateRead>, whole: bool) {
        self.reads.extend(reads.into_iter().map(|read| TemplateRead { whole, ..read }));
    }
}

/// Binds the names of a loop: the last is each element, the one before it its key.
fn loop_names(names: &[TagToken<'_>], bound: &Binding) -> NameScope {
    let element = match bound {
        Binding::Anything => Binding::Anything,
        Binding::Parts(ways) => {
            let element_way = |way: &ViewPath| [&way[..], &[EACH.to_owned()]].concat();
            Binding::Parts(ways.iter().map(element_way).collect())
        }
    };
    let words: Vec<&TagToken<'_>> =
        names.iter().filter(|token| token.kind == TokenKind::Word).collect();
    let last = words.len().saturating_sub(1);
    let name = |(n, token): (usize, &&TagToken<'_>)| {
        (token.text.to_owned(), if n == last { element.clone() } else { Binding::Anything })
    };
    words.iter().enumerate().map(name).collect()
}
