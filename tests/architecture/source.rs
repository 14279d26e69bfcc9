//! Rust source as the rules look at it: without comments, texts and tests, cut into tokens.
//!
//! Not a parser. It knows just enough of the language to find every path and keyword, and the
//! line that it stands in.

use std::path::{Path, PathBuf};

/// One file under `src/`.
pub(super) struct Source {
    /// Below `src/`, with `/`: `git/layout.rs`.
    pub(super) path: String,
    pub(super) text: String,
}

/// A word or a sign of the code, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A path of the code: `crate::model::id::AppKey`; groups are taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodePath {
    pub(super) line: usize,
    pub(super) parts: Vec<String>,
}

/// Every `.rs` file under `src/`, sorted.
pub(super) fn all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let source = |file: PathBuf| Source {
        path: file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/"),
        text: std::fs::read_to_string(&file).unwrap(),
    };
    files.into_iter().map(source).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

impl Source {
    /// Whether the whole file is a test module: taken in by `#[path]`, or in a folder `tests`.
    pub(super) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap();
        name == "tests.rs" || name.ends_with("_tests.rs") || self.path.contains("/tests/")
    }

    /// The module's names from the crate's root on; empty for `lib.rs`.
    pub(super) fn module(&self) -> Vec<&str> {
        let path = self.path.strip_suffix(".rs").unwrap();
        path.split('/').filter(|part| !matches!(*part, "mod" | "lib")).collect()
    }

    /// All tokens, tests included.
    pub(super) fn tokens(&self) -> Vec<Token> {
        tokens(&without_comments_and_texts(&self.text))
    }

    /// The tokens of what is built into the program.
    pub(super) fn code(&self) -> Vec<Token> {
        without_tests(&self.tokens())
    }

    /// The lines where a type of the program derives that trait.
    pub(super) fn derives(&self, name: &str) -> Vec<usize> {
        let code = self.code();
        let lists = code.iter().enumerate().filter(|(_, token)| token.text == "derive");
        let derived = |(at, _): &(usize, &Token)| {
            let mut list = code[*at..].iter().take_while(|token| token.text != ")");
            list.any(|token| token.text == name)
        };
        lists.filter(derived).map(|(_, token)| token.line).collect()
    }

    /// `src/git/layout.rs:12`
    pub(super) fn at(&self, line: usize) -> String {
        format!("src/{}:{line}", self.path)
    }
}

/// The same text with every comment and the inside of every literal blanked; lines stay.
fn without_comments_and_texts(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_skipped(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.push(' ');
            out.extend(chars[at..end].iter().filter(|c| **c == '\n'));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that begins here ends; here, if none does.
fn end_of_skipped(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied();
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], next(1)) {
        ('/', Some('/')) => at + chars[at..].iter().take_while(|c| **c != '\n').count(),
        ('/', Some('*')) => end_of_block(chars, at),
        ('r', Some('"' | '#')) if !in_word => end_of_raw(chars, at),
        ('"', _) => end_of_quoted(chars, at, '"'),
        ('\'', Some('\\')) => end_of_quoted(chars, at, '\''),
        // `'a'` is a letter, `'a` a lifetime.
        ('\'', Some(_)) if next(2) == Some('\'') => at + 3,
        _ => at,
    }
}

fn end_of_block(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn end_of_raw(chars: &[char], start: usize) -> usize {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(start + 1 + hashes) != Some(&'"') {
        return start; // `r#type`
    }
    let mut at = start + 2 + hashes;
    while at < chars.len() {
        let closes = chars[at] == '"'
            && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        at += 1;
        if closes {
            return at + hashes;
        }
    }
    at
}

fn end_of_quoted(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if word(first) {
                rest.find(|c| !word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            found.push(Token { line, text: rest[..length].to_owned() });
            rest = rest[length..].trim_start();
        }
    }
    found
}

/// Leaves out what stands under `#[cfg(test)]`: an item with its body, or up to its `;`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const OF_TESTS: [&[&str]; 2] = [
        &["#", "[", "cfg", "(", "test", ")", "]"],
        &["#", "[", "cfg", "(", "all", "(", "test", ","],
    ];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = |words: &&&[&str]| {
            let here = tokens[at..].iter().map(|token| token.text.as_str());
            here.take(words.len()).eq(words.iter().copied())
        };
        if let Some(words) = OF_TESTS.iter().find(begins) {
            at = end_of_item(tokens, at + words.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(token.text.as_str(), "}" | ";") {
            return at + 1;
        }
    }
    tokens.len()
}

/// Every path of at least two names.
pub(super) fn paths(tokens: &[Token]) -> Vec<CodePath> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = if is_name(&tokens[at]) { path(tokens, at, &[], &mut found) } else { at + 1 };
    }
    found.retain(|path| path.parts.len() > 1);
    found
}

/// Reads the path that begins here; gives the place behind it.
fn path(tokens: &[Token], start: usize, prefix: &[String], found: &mut Vec<CodePath>) -> usize {
    let line = tokens[start].line;
    let mut parts = prefix.to_vec();
    parts.push(tokens[start].text.clone());
    let mut at = start + 1;
    while tokens.get(at).is_some_and(|token| token.text == "::") {
        match tokens.get(at + 1) {
            Some(token) if token.text == "{" => return group(tokens, at + 2, &parts, found),
            Some(token) if is_name(token) || token.text == "*" => {
                parts.push(token.text.clone());
                at += 2;
            }
            _ => break,
        }
    }
    found.push(CodePath { line, parts });
    at
}

fn group(tokens: &[Token], start: usize, prefix: &[String], found: &mut Vec<CodePath>) -> usize {
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "}" => return at + 1,
            _ if is_name(token) => at = path(tokens, at, prefix, found),
            _ => at += 1,
        }
    }
    at
}

fn is_name(token: &Token) -> bool {
    token.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths_of(text: &str) -> Vec<String> {
        let source = Source { path: "a/b.rs".into(), text: text.into() };
        paths(&source.code()).into_iter().map(|path| path.parts.join("::")).collect()
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        assert_eq!(
            paths_of("use crate::a::{b, c::{d, e}};"),
            ["crate::a::b", "crate::a::c::d", "crate::a::c::e"]
        );
        assert_eq!(paths_of("fn f(x: &crate::a::B) {}"), ["crate::a::B"]);
        assert_eq!(paths_of("pub(in crate::a) fn f() {}"), ["crate::a"]);
        assert_eq!(paths_of("x.collect::<Vec<_>>()"), Vec::<String>::new());
    }

    #[test]
    fn comments_texts_and_tests_are_passed_over() {
        assert!(paths_of("// crate::a\n/* crate::b /* x */ crate::c */").is_empty());
        assert!(
            paths_of(r##"let x = "crate::a \" crate::b"; let y = r#"crate::c " "#;"##).is_empty()
        );
        assert_eq!(
            paths_of("fn f<'a>(c: char) { c == '\"' || c == '\\''; crate::a }"),
            ["crate::a"]
        );
        assert_eq!(
            paths_of("#[cfg(test)]\nmod tests { use crate::a; }\nuse crate::b;"),
            ["crate::b"]
        );
        assert_eq!(
            paths_of("#[cfg(test)]\n#[path = \"x\"]\nmod tests;\nuse crate::b;"),
            ["crate::b"]
        );
    }

    #[test]
    fn traits_are_derived_where_a_list_names_them() {
        let text = "#[derive(Debug, serde::Deserialize)]\nstruct A(Deserialize);\n\
                    #[derive(Debug)]\nstruct B;\n#[cfg(test)]\n#[derive(Deserialize)]\nstruct C;";
        let source = Source { path: "a.rs".into(), text: text.into() };
        assert_eq!(source.derives("Deserialize"), [1]);
    }

    #[test]
    fn lines_are_counted_through_texts_of_several_lines() {
        let source = Source { path: "a.rs".into(), text: "let a = \"\n\n\";\ncrate::b;".into() };
        assert_eq!(paths(&source.code())[0].line, 4);
    }
}
