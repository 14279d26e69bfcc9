//! The meaning of an expression in a tag: parts of the view, or a computed value.

use crate::templates::lexer::{TagToken, TokenKind};
use crate::templates::lint::components::read_dotted_name;
use crate::templates::lint::reads::{
    Binding, EACH, LONGEST_WAY, NameScope, TemplateRead, TemplateReader, ViewPath,
};

/// Words that are no names.
const KEYWORDS: [&str; 19] = [
    "true", "True", "false", "False", "and", "or", "not", "is", "in", "if", "else", "none", "None",
    "null", "loop", "self", "for", "continue", "break",
];
/// Filters that return their input, or a part of its elements.
const KEEPING: [&str; 7] = ["sort", "unique", "reverse", "slice", "filter", "safe", "default"];

impl TemplateReader<'_> {
    /// Finds the meaning of an expression, and the parts of the view that it names.
    pub(crate) fn expression(&mut self, tokens: &[TagToken<'_>]) -> (Binding, Vec<TemplateRead>) {
        let mut parts = Vec::new();
        let mut reads = Vec::new();
        let mut computed = false;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let before = at.checked_sub(1).and_then(|n| tokens.get(n));
            at = match token.kind {
                TokenKind::Other if token.is("<") && begins(before) => {
                    computed = true;
                    self.call(tokens, at)
                }
                TokenKind::Other if token.is("[") && begins(before) => {
                    computed = true;
                    self.list(tokens, at)
                }
                TokenKind::Other => {
                    computed |=
                        !matches!(token.text, "(" | ")" | "{" | "}" | "[" | "]" | "|" | ",");
                    at + 1
                }
                TokenKind::Text => {
                    // As an argument of a filter it is none of the values.
                    computed |= !before.is_some_and(|before| before.is("="));
                    at + 1
                }
                TokenKind::Word if before.is_some_and(|b| b.is("|")) => {
                    computed |= !KEEPING.contains(&token.text);
                    at + 1
                }
                TokenKind::Word => match self.name(tokens, at) {
                    Some((Binding::Parts(ways), end, new_reads)) => {
                        parts.extend(ways);
                        reads.extend(new_reads);
                        end
                    }
                    Some((Binding::Anything, end, _)) => {
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
            if computed || parts.is_empty() { Binding::Anything } else { Binding::Parts(parts) };
        (bound, reads)
    }

    /// Reads a name with its parts: its meaning, its end, and its reads.
    fn name(
        &mut self,
        tokens: &[TagToken<'_>],
        at: usize,
    ) -> Option<(Binding, usize, Vec<TemplateRead>)> {
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
        let mut bound = root.unwrap_or_else(|| Binding::Parts(vec![vec![token.text.to_owned()]]));
        let mut end = at + 1;
        while let Some((step, next)) = self.step(tokens, end) {
            if let Binding::Parts(ways) = &mut bound {
                ways.iter_mut()
                    .filter(|w| w.len() < LONGEST_WAY)
                    .for_each(|w| w.push(step.clone()));
            }
            end = next;
        }
        let last = tokens.get(end - 1).map_or(token.at, |last| last.at + last.text.len());
        let read_of = |way: &ViewPath| TemplateRead {
            way: way.clone(),
            whole: false,
            unbound,
            file: self.file.clone(),
            at: token.at,
            length: last - token.at,
        };
        let reads = match &bound {
            Binding::Parts(ways) => ways.iter().map(read_of).collect(),
            Binding::Anything => Vec::new(),
        };
        Some((bound, end, reads))
    }

    /// Reads one step of a name, `.name`, `["name"]`, `[0]`; the text in brackets is read by itself.
    fn step(&mut self, tokens: &[TagToken<'_>], at: usize) -> Option<(String, usize)> {
        let sign = tokens.get(at)?;
        if sign.is(".") || sign.is("?.") {
            let name = tokens.get(at + 1)?;
            let number = name.kind == TokenKind::Other;
            return Some((if number { EACH.to_owned() } else { name.text.to_owned() }, at + 2));
        }
        if !sign.is("[") && !sign.is("?[") {
            return None;
        }
        let end = find_closing(tokens, at);
        let inner = tokens.get(at + 1..end).unwrap_or_default();
        match inner {
            [token] if token.kind == TokenKind::Text => Some((token.text.to_owned(), end + 1)),
            _ => {
                self.value(inner);
                Some((EACH.to_owned(), end + 1))
            }
        }
    }

    /// Reads a list, `[a, b]`, or `[x.y for x in list if x.z]`; returns where it ends.
    fn list(&mut self, tokens: &[TagToken<'_>], at: usize) -> usize {
        let end = find_closing(tokens, at);
        let inner = tokens.get(at + 1..end).unwrap_or_default();
        let Some(split) = inner.iter().position(|token| token.is_word("for")) else {
            self.value(inner);
            return end + 1;
        };
        let (value_tokens, rest) = inner.split_at(split);
        let rest = rest.get(1..).unwrap_or_default();
        let condition = rest.iter().position(|t| t.is_word("if")).unwrap_or(rest.len());
        let (looped, condition) = rest.split_at(condition);
        self.begin_loop(looped);
        self.value(value_tokens);
        self.value(condition);
        self.scopes.pop();
        end + 1
    }

    /// Reads a call, `<name a={x} b="text" c>`: the arguments are bound to the component's
    /// parameters.
    pub(crate) fn call(&mut self, tokens: &[TagToken<'_>], at: usize) -> usize {
        let (name, mut at) = read_dotted_name(tokens, at + 1);
        let mut arguments = NameScope::new();
        while let Some(token) = tokens.get(at).filter(|token| !token.is(">")) {
            at = match (token.kind, tokens.get(at + 1)) {
                (TokenKind::Word, Some(sign)) if sign.is("=") => {
                    let brace = tokens.get(at + 2).is_some_and(|t| t.is("{"));
                    let end = if brace { find_closing(tokens, at + 2) } else { at + 2 };
                    let bound = if brace {
                        self.bound(tokens.get(at + 3..end).unwrap_or_default())
                    } else {
                        Binding::Anything
                    };
                    arguments.push((token.text.to_owned(), bound));
                    end + 1
                }
                (TokenKind::Word, _) => {
                    let bound = self.bound(std::slice::from_ref(token));
                    arguments.push((token.text.to_owned(), bound));
                    at + 1
                }
                (TokenKind::Other, _) if token.is("{") => {
                    let end = find_closing(tokens, at);
                    self.value(tokens.get(at + 1..end).unwrap_or_default());
                    end + 1
                }
                _ => at + 1,
            };
        }
        // An implicit parameter of a component is the variable of that name in its caller.
        let implicit = self.components.get(&name).map(|c| c.parameters.clone()).unwrap_or_default();
        for (parameter, _) in implicit.into_iter().filter(|(_, implicit)| *implicit) {
            if let Some(bound) = self.resolve(&parameter)
                && !arguments.iter().any(|(name, _)| *name == parameter)
            {
                arguments.push((parameter, bound));
            }
        }
        self.calls.push((name, arguments));
        at + 1
    }
}

/// Checks that a value, and not a comparison or a part, begins behind that token.
fn begins(before: Option<&TagToken<'_>>) -> bool {
    match before {
        None => true,
        Some(token) => match token.kind {
            TokenKind::Word => KEYWORDS.contains(&token.text),
            TokenKind::Text => false,
            TokenKind::Other => {
                !matches!(token.text, ")" | "]" | "}")
                    && !token.text.starts_with(|c: char| c.is_ascii_digit())
            }
        },
    }
}

/// Finds the token that closes the bracket at `at`; the end where none does.
fn find_closing(tokens: &[TagToken<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(at).filter(|(_, t)| t.kind == TokenKind::Other)
    {
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
