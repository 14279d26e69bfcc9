//! What a template reads: every name, and every part of it, in branches that no sample reaches too.
//!
//! Follows names that loops, `set` and components give to a part of the view. Where it cannot be
//! told what a name stands for, nothing is said of its parts.

use std::collections::{HashMap, HashSet};

use crate::pipeline::check::lexer::{self, Kind, Tag, Token};

/// The way to a part of the view: names, and [`EACH`] for the elements of a list or map.
pub(super) type Way = Vec<String>;
/// Any element of a list, or any value of a map.
pub(super) const EACH: &str = "[]";
/// Longer ways come of components that call themselves.
const LONGEST_WAY: usize = 12;
/// More than any set of components can be called with in different ways.
const MOST_CALLS: usize = 5_000;

/// One place where a template reads something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Read {
    pub(super) way: Way,
    /// Whether all that lies below is read with it.
    pub(super) whole: bool,
    /// Whether the name is one that nothing gives a value in a component.
    pub(super) unbound: bool,
    pub(super) file: String,
    /// In bytes.
    pub(super) at: usize,
    pub(super) length: usize,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Bound {
    /// One of these parts of the view.
    Parts(Vec<Way>),
    /// Something that was computed.
    Anything,
}

type Names = Vec<(String, Bound)>;

/// The texts of one version of a template and of everything it may use, by the engine's names.
pub(super) fn of(files: &[String], texts: &HashMap<String, &str>) -> HashSet<Read> {
    let components = components(texts);
    let mut reader = Reader {
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
    while let Some((name, given)) = reader.calls.pop() {
        reader.component(&name, &given);
    }
    reader.reads
}

/// A component: where it is, and its parameters; those with `@` take a name of the caller's.
struct Component {
    file: String,
    /// Its tags: the first and the one behind the last.
    body: (usize, usize),
    parameters: Vec<(String, bool)>,
}

fn components(texts: &HashMap<String, &str>) -> HashMap<String, Component> {
    let mut found = HashMap::new();
    for (file, text) in texts {
        let tags = lexer::tags(text);
        let mut open = None;
        for (n, tag) in tags.iter().enumerate() {
            let Tag::Does(tokens) = tag else { continue };
            let tokens = trimmed(tokens);
            if tokens.first().is_some_and(|t| t.is_word("component")) {
                let (name, next) = dotted(tokens, 1);
                open = Some((name, n + 1, parameters(tokens.get(next..).unwrap_or_default())));
            } else if tokens.first().is_some_and(|t| t.is_word("endcomponent"))
                && let Some((name, from, parameters)) = open.take()
            {
                found.insert(name, Component { file: file.clone(), body: (from, n), parameters });
            }
        }
    }
    found
}

/// `(name, @name, name: type = default, ...rest)`
fn parameters(tokens: &[Token<'_>]) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let (mut depth, mut begins) = (0_usize, false);
    let mut implicit = false;
    for token in tokens {
        match token.text {
            "(" | "[" | "{" if token.kind == Kind::Other => {
                depth += 1;
                begins = depth == 1;
            }
            ")" | "]" | "}" if token.kind == Kind::Other => depth = depth.saturating_sub(1),
            "," if depth == 1 => begins = true,
            "@" if depth == 1 => implicit = true,
            "..." => {}
            name if begins && token.kind == Kind::Word => {
                found.push((name.to_owned(), std::mem::take(&mut implicit)));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// Without the signs that take white space away.
fn trimmed<'a, 't>(tokens: &'a [Token<'t>]) -> &'a [Token<'t>] {
    let tokens = match tokens {
        [first, rest @ ..] if first.is("-") => rest,
        all => all,
    };
    match tokens {
        [rest @ .., last] if last.is("-") => rest,
        all => all,
    }
}

/// A name with dots in it, as components have; and where it ends.
fn dotted(tokens: &[Token<'_>], from: usize) -> (String, usize) {
    let mut name = String::new();
    let mut at = from;
    while let Some(token) = tokens.get(at).filter(|t| t.kind == Kind::Word) {
        name.push_str(token.text);
        at += 1;
        if !tokens.get(at).is_some_and(|t| t.is(".")) {
            break;
        }
        name.push('.');
        at += 1;
    }
    (name, at)
}

/// Words that are no names.
const KEYWORDS: [&str; 19] = [
    "true", "True", "false", "False", "and", "or", "not", "is", "in", "if", "else", "none", "None",
    "null", "loop", "self", "for", "continue", "break",
];
/// Filters that hand on what they get, or a part of its elements.
const KEEPING: [&str; 7] = ["sort", "unique", "reverse", "slice", "filter", "safe", "default"];

struct Reader<'r> {
    texts: &'r HashMap<String, &'r str>,
    components: &'r HashMap<String, Component>,
    reads: HashSet<Read>,
    calls: Vec<(String, Names)>,
    seen: HashSet<(String, Names)>,
    scopes: Vec<Names>,
    /// Whether names that are not bound come from nowhere: in a component.
    isolated: bool,
    file: String,
}

impl Reader<'_> {
    fn file(&mut self, file: &str) {
        let Some(text) = self.texts.get(file) else { return };
        let before = std::mem::replace(&mut self.file, file.to_owned());
        self.scopes.push(Names::new());
        self.tags(&lexer::tags(text), true);
        self.scopes.pop();
        self.file = before;
    }

    fn component(&mut self, name: &str, given: &Names) {
        let fresh =
            self.seen.len() < MOST_CALLS && self.seen.insert((name.to_owned(), given.clone()));
        let Some(component) = self.components.get(name).filter(|_| fresh) else { return };
        let Some(text) = self.texts.get(&component.file) else { return };
        let tags = lexer::tags(text);
        let mut names = vec![("body".to_owned(), Bound::Anything)];
        for (parameter, implicit) in &component.parameters {
            let bound = given.iter().find(|(name, _)| name == parameter).map(|(_, b)| b.clone());
            let own = || Bound::Parts(vec![vec![parameter.clone()]]);
            names.push((
                parameter.clone(),
                bound.unwrap_or_else(|| match implicit {
                    true => own(),
                    false => Bound::Anything,
                }),
            ));
        }
        self.file.clone_from(&component.file);
        self.isolated = true;
        self.scopes = vec![names];
        self.tags(tags.get(component.body.0..component.body.1).unwrap_or_default(), false);
    }

    /// All tags of a file or a component; definitions within a file are read when they are called.
    fn tags(&mut self, tags: &[Tag<'_>], file: bool) {
        let mut defining = false;
        for tag in tags {
            match tag {
                Tag::Does(tokens) => {
                    let tokens = trimmed(tokens);
                    let first = tokens.first().map_or("", |token| token.text);
                    defining =
                        file && (defining || first == "component") && first != "endcomponent";
                    if !defining {
                        self.does(first, tokens);
                    }
                }
                Tag::Shown(tokens) if !defining => {
                    self.value(trimmed(tokens));
                }
                Tag::Shown(_) => {}
            }
        }
    }

    fn does(&mut self, first: &str, tokens: &[Token<'_>]) {
        let rest = tokens.get(1..).unwrap_or_default();
        match first {
            "if" | "elif" => self.value(rest),
            "for" => self.begin_loop(rest),
            "endfor" => drop(self.scopes.pop()),
            "set" | "set_global" => self.set(rest),
            "include" | "extends" => self.include(rest),
            // A filter's own name is none of ours; its arguments may have some.
            "filter" => self.value(rest.get(1..).unwrap_or_default()),
            "<" => {
                self.call(tokens, 0);
            }
            _ => {}
        }
    }

    /// Everything in it is read whole.
    fn value(&mut self, tokens: &[Token<'_>]) {
        let (_, reads) = self.expression(tokens);
        self.note(reads, true);
    }

    /// Gives a name to what an expression stands for; what it stands for is read where it is used.
    fn bound(&mut self, tokens: &[Token<'_>]) -> Bound {
        let (bound, reads) = self.expression(tokens);
        self.note(reads, bound == Bound::Anything);
        bound
    }

    fn begin_loop(&mut self, tokens: &[Token<'_>]) {
        let inner = tokens.iter().position(|token| token.is_word("in")).unwrap_or(tokens.len());
        let (names, target) = tokens.split_at(inner);
        let bound = self.bound(target.get(1..).unwrap_or_default());
        self.scopes.push(loop_names(names, &bound));
    }

    fn set(&mut self, tokens: &[Token<'_>]) {
        let Some(name) = tokens.first() else { return };
        let bound = match tokens.get(1) {
            Some(sign) if sign.is("=") => self.bound(tokens.get(2..).unwrap_or_default()),
            // What stands up to `endset` is text.
            _ => Bound::Anything,
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.text.to_owned(), bound));
        }
    }

    fn include(&mut self, tokens: &[Token<'_>]) {
        let names = tokens.iter().filter(|token| token.kind == Kind::Text).map(|token| token.text);
        for name in names.map(str::to_owned).collect::<Vec<_>>() {
            if self.scopes.len() < LONGEST_WAY {
                self.file(&name);
            }
        }
    }

    /// What an expression stands for, and the parts of the view that it names.
    fn expression(&mut self, tokens: &[Token<'_>]) -> (Bound, Vec<Read>) {
        let mut parts = Vec::new();
        let mut reads = Vec::new();
        let mut computed = false;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let before = at.checked_sub(1).and_then(|n| tokens.get(n));
            at = match token.kind {
                Kind::Other if token.is("<") && begins(before) => {
                    computed = true;
                    self.call(tokens, at)
                }
                Kind::Other if token.is("[") && begins(before) => {
                    computed = true;
                    self.list(tokens, at)
                }
                Kind::Other => {
                    computed |=
                        !matches!(token.text, "(" | ")" | "{" | "}" | "[" | "]" | "|" | ",");
                    at + 1
                }
                Kind::Text => {
                    // As an argument of a filter it is none of the values.
                    computed |= !before.is_some_and(|before| before.is("="));
                    at + 1
                }
                Kind::Word if before.is_some_and(|b| b.is("|")) => {
                    computed |= !KEEPING.contains(&token.text);
                    at + 1
                }
                Kind::Word => match self.name(tokens, at) {
                    Some((Bound::Parts(ways), end, read)) => {
                        parts.extend(ways);
                        reads.extend(read);
                        end
                    }
                    Some((Bound::Anything, end, _)) => {
                        computed = true;
                        end
                    }
                    None => {
                        computed |= !matches!(token.text, "or" | "if" | "else");
                        at + 1
                    }
                },
            };
        }
        let bound =
            if computed || parts.is_empty() { Bound::Anything } else { Bound::Parts(parts) };
        (bound, reads)
    }

    /// A name with its parts: what it stands for, where it ends, and the reads it is.
    fn name(&mut self, tokens: &[Token<'_>], at: usize) -> Option<(Bound, usize, Vec<Read>)> {
        let token = tokens.get(at)?;
        let before = at.checked_sub(1).and_then(|n| tokens.get(n));
        let next = tokens.get(at + 1);
        let test = before.is_some_and(|b| b.is_word("is"))
            || before.is_some_and(|b| b.is_word("not"))
                && at.checked_sub(2).and_then(|n| tokens.get(n)).is_some_and(|b| b.is_word("is"));
        let function = next.is_some_and(|next| next.is("("));
        let argument = next.is_some_and(|next| next.is("="));
        if KEYWORDS.contains(&token.text) || test || function || argument {
            return None;
        }
        let root = self.resolve(token.text);
        let unbound = self.isolated && root.is_none();
        let mut bound = root.unwrap_or_else(|| Bound::Parts(vec![vec![token.text.to_owned()]]));
        let mut end = at + 1;
        while let Some((step, next)) = self.step(tokens, end) {
            if let Bound::Parts(ways) = &mut bound {
                ways.iter_mut()
                    .filter(|w| w.len() < LONGEST_WAY)
                    .for_each(|w| w.push(step.clone()));
            }
            end = next;
        }
        let last = tokens.get(end - 1).map_or(token.at, |last| last.at + last.text.len());
        let read = |way: &Way| Read {
            way: way.clone(),
            whole: false,
            unbound,
            file: self.file.clone(),
            at: token.at,
            length: last - token.at,
        };
        let reads = match &bound {
            Bound::Parts(ways) => ways.iter().map(read).collect(),
            Bound::Anything => Vec::new(),
        };
        Some((bound, end, reads))
    }

    /// `.name`, `["name"]`, `[0]`; what stands in brackets is read by itself.
    fn step(&mut self, tokens: &[Token<'_>], at: usize) -> Option<(String, usize)> {
        let sign = tokens.get(at)?;
        if sign.is(".") || sign.is("?.") {
            let name = tokens.get(at + 1)?;
            let number = name.kind == Kind::Other;
            return Some((if number { EACH.to_owned() } else { name.text.to_owned() }, at + 2));
        }
        if !sign.is("[") && !sign.is("?[") {
            return None;
        }
        let end = closing(tokens, at);
        let inner = tokens.get(at + 1..end).unwrap_or_default();
        match inner {
            [one] if one.kind == Kind::Text => Some((one.text.to_owned(), end + 1)),
            _ => {
                self.value(inner);
                Some((EACH.to_owned(), end + 1))
            }
        }
    }

    /// `[a, b]`, or `[x.y for x in list if x.z]`; where it ends.
    fn list(&mut self, tokens: &[Token<'_>], at: usize) -> usize {
        let end = closing(tokens, at);
        let inner = tokens.get(at + 1..end).unwrap_or_default();
        let Some(split) = inner.iter().position(|token| token.is_word("for")) else {
            self.value(inner);
            return end + 1;
        };
        let (shown, rest) = inner.split_at(split);
        let rest = rest.get(1..).unwrap_or_default();
        let condition = rest.iter().position(|t| t.is_word("if")).unwrap_or(rest.len());
        let (looped, condition) = rest.split_at(condition);
        self.begin_loop(looped);
        self.value(shown);
        self.value(condition);
        self.scopes.pop();
        end + 1
    }

    /// `<name a={x} b="text" c>`: the arguments are bound to the component's parameters.
    fn call(&mut self, tokens: &[Token<'_>], at: usize) -> usize {
        let (name, mut at) = dotted(tokens, at + 1);
        let mut given = Names::new();
        while let Some(token) = tokens.get(at).filter(|token| !token.is(">")) {
            at = match (token.kind, tokens.get(at + 1)) {
                (Kind::Word, Some(sign)) if sign.is("=") => {
                    let brace = tokens.get(at + 2).is_some_and(|t| t.is("{"));
                    let end = if brace { closing(tokens, at + 2) } else { at + 2 };
                    let bound = if brace {
                        self.bound(tokens.get(at + 3..end).unwrap_or_default())
                    } else {
                        Bound::Anything
                    };
                    given.push((token.text.to_owned(), bound));
                    end + 1
                }
                (Kind::Word, _) => {
                    let bound = self.bound(std::slice::from_ref(token));
                    given.push((token.text.to_owned(), bound));
                    at + 1
                }
                (Kind::Other, _) if token.is("{") => {
                    let end = closing(tokens, at);
                    self.value(tokens.get(at + 1..end).unwrap_or_default());
                    end + 1
                }
                _ => at + 1,
            };
        }
        // What a component takes from its caller by itself is what the caller calls so.
        let implicit = self.components.get(&name).map(|c| c.parameters.clone()).unwrap_or_default();
        for (parameter, _) in implicit.into_iter().filter(|(_, implicit)| *implicit) {
            if let Some(bound) = self.resolve(&parameter)
                && !given.iter().any(|(name, _)| *name == parameter)
            {
                given.push((parameter, bound));
            }
        }
        self.calls.push((name, given));
        at + 1
    }

    fn resolve(&self, name: &str) -> Option<Bound> {
        let names = self.scopes.iter().rev().flat_map(|scope| scope.iter().rev());
        names.into_iter().find(|(bound, _)| bound == name).map(|(_, bound)| bound.clone())
    }

    fn note(&mut self, reads: Vec<Read>, whole: bool) {
        self.reads.extend(reads.into_iter().map(|read| Read { whole, ..read }));
    }
}

/// The names of a loop: the last is each element, the one before it its key.
fn loop_names(names: &[Token<'_>], bound: &Bound) -> Names {
    let each = match bound {
        Bound::Anything => Bound::Anything,
        Bound::Parts(ways) => {
            let each = |way: &Way| [&way[..], &[EACH.to_owned()]].concat();
            Bound::Parts(ways.iter().map(each).collect())
        }
    };
    let words: Vec<&Token<'_>> = names.iter().filter(|token| token.kind == Kind::Word).collect();
    let last = words.len().saturating_sub(1);
    let name = |(n, token): (usize, &&Token<'_>)| {
        (token.text.to_owned(), if n == last { each.clone() } else { Bound::Anything })
    };
    words.iter().enumerate().map(name).collect()
}

/// Whether a value, and not a comparison or a part, begins behind that token.
fn begins(before: Option<&Token<'_>>) -> bool {
    match before {
        None => true,
        Some(token) => match token.kind {
            Kind::Word => KEYWORDS.contains(&token.text),
            Kind::Text => false,
            Kind::Other => {
                !matches!(token.text, ")" | "]" | "}")
                    && !token.text.starts_with(|c: char| c.is_ascii_digit())
            }
        },
    }
}

/// The token that closes the bracket at `at`; the end where none does.
fn closing(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(at).filter(|(_, t)| t.kind == Kind::Other) {
        match token.text {
            "[" | "?[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return n;
        }
    }
    tokens.len()
}
