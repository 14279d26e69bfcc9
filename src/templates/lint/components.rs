//! The definitions of components, with their parameters.

use std::collections::HashMap;

use crate::templates::lexer;
use crate::templates::lexer::{Tag, TagToken, TokenKind};

/// A component: where it is, and its parameters; those with `@` take a name of the caller's.
pub(crate) struct Component {
    pub(crate) file: String,
    /// Its tags: the first and the one behind the last.
    pub(crate) body: (usize, usize),
    pub(crate) parameters: Vec<(String, bool)>,
}

/// Collects all components of these texts, by name.
pub(crate) fn components(texts: &HashMap<String, &str>) -> HashMap<String, Component> {
    let mut components_by_name = HashMap::new();
    for (file, text) in texts {
        let tags = lexer::tags(text);
        let mut open = None;
        for (n, tag) in tags.iter().enumerate() {
            let Tag::Does(tokens) = tag else { continue };
            let tokens = trim_whitespace_signs(tokens);
            if tokens.first().is_some_and(|t| t.is_word("component")) {
                let (name, next) = read_dotted_name(tokens, 1);
                open = Some((name, n + 1, parameters(tokens.get(next..).unwrap_or_default())));
            } else if tokens.first().is_some_and(|t| t.is_word("endcomponent"))
                && let Some((name, from, parameters)) = open.take()
            {
                components_by_name
                    .insert(name, Component { file: file.clone(), body: (from, n), parameters });
            }
        }
    }
    components_by_name
}

/// Reads the parameters of a component: `(name, @name, name: type = default, ...rest)`
fn parameters(tokens: &[TagToken<'_>]) -> Vec<(String, bool)> {
    let mut parameters_found = Vec::new();
    let (mut depth, mut begins) = (0_usize, false);
    let mut implicit = false;
    for token in tokens {
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Other => {
                depth += 1;
                begins = depth == 1;
            }
            ")" | "]" | "}" if token.kind == TokenKind::Other => depth = depth.saturating_sub(1),
            "," if depth == 1 => begins = true,
            "@" if depth == 1 => implicit = true,
            "..." => {}
            name if begins && token.kind == TokenKind::Word => {
                parameters_found.push((name.to_owned(), std::mem::take(&mut implicit)));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    parameters_found
}

/// Leaves out the signs that take white space away.
pub(crate) fn trim_whitespace_signs<'a, 't>(tokens: &'a [TagToken<'t>]) -> &'a [TagToken<'t>] {
    let tokens = match tokens {
        [first, rest @ ..] if first.is("-") => rest,
        tokens => tokens,
    };
    match tokens {
        [rest @ .., last] if last.is("-") => rest,
        tokens => tokens,
    }
}

/// Reads a name with dots in it, as components have; and where it ends.
pub(crate) fn read_dotted_name(tokens: &[TagToken<'_>], from: usize) -> (String, usize) {
    let mut name = String::new();
    let mut at = from;
    while let Some(token) = tokens.get(at).filter(|t| t.kind == TokenKind::Word) {
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
