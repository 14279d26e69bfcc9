//! Names are those that an engineer of this field types into the search box: no participles and questions for
//! files and functions, and one public type for one name.

use std::collections::BTreeMap;

use super::source::{self, Source, Token};
use super::tell;

/// What a file or a function is not called. A file is called by the noun it is about, a function by a verb with
/// its object: `parse_trailers`, not `said`.
const STOP: &[&str] = &[
    "all", "asked", "begun", "does", "found", "has", "here", "kept", "known", "look", "made",
    "may", "meant", "named", "once", "placed", "said", "says", "shown", "taken", "tell", "told",
    "wanted", "whence",
];

/// Files and functions that may be called so, each with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Public types that share their name with so many others still: most are written in a JSON Schema, where the name is a
/// part of the contract. Strike out what has found a name of its own; add none.
const SHARED: &[(&str, usize)] = &[
    ("App", 2),
    ("Forge", 2),
    ("Identity", 2),
    ("Ingress", 2),
    ("LockScope", 2),
    ("ManifestRepository", 2),
    ("Notify", 2),
    ("Place", 3),
    ("Secret", 2),
    ("Settings", 2),
    ("Vault", 2),
    ("Waml", 2),
];

#[test]
fn files_and_functions_have_names_that_can_be_searched_for() {
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        let stem = source.module().pop().map(str::to_owned).unwrap_or_default();
        let file = (1, stem);
        let functions = source.code();
        let functions = functions.windows(2).filter(|two| two[0].text == "fn");
        let functions = functions.map(|two| (two[1].line, two[1].text.clone()));
        for (line, name) in std::iter::once(file).chain(functions) {
            if !STOP.contains(&name.as_str()) {
                continue;
            }
            let exception =
                |(path, word, _): &&(&str, &str, &str)| *path == source.path && *word == name;
            match EXCEPTIONS.iter().find(exception) {
                Some(exception) => used.push(exception),
                None => broken.push(format!("{}: `{name}`", source.at(line))),
            }
        }
    }
    tell(
        "a file is called by its noun, a function by a verb with its object (tests/architecture/names.rs, STOP): \
         rename these",
        &broken,
    );
    let unused = EXCEPTIONS.iter().filter(|exception| !used.contains(exception));
    let unused: Vec<String> = unused.map(|(path, name, _)| format!("{path}: `{name}`")).collect();
    tell("strike out the exceptions that nothing needs (EXCEPTIONS)", &unused);
}

#[test]
fn a_public_type_has_a_name_of_its_own() {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        for (line, name) in public_types(&source.code()) {
            types.entry(name).or_default().push(source.at(line));
        }
    }
    let allowed =
        |name: &str| SHARED.iter().find(|(one, _)| *one == name).map_or(1, |(_, most)| *most);
    let many = types.iter().filter(|(name, at)| at.len() > allowed(name));
    let many: Vec<String> = many.map(|(name, at)| format!("{name}: {}", at.join(", "))).collect();
    tell(
        "a public type has a name of its own in the crate: say its module's noun (`RollbackRequest`)",
        &many,
    );
    let count = |name: &str| types.get(name).map_or(0, Vec::len);
    let fewer = SHARED.iter().filter(|(name, most)| count(name) < *most);
    let fewer: Vec<String> =
        fewer.map(|(name, most)| format!("{name}: {} of {most}", count(name))).collect();
    tell("fewer types have these names now: lower the number, or strike it out (SHARED)", &fewer);
}

#[test]
fn types_are_found_with_their_lines() {
    let text = "pub struct A;\npub(crate) enum B { C }\nstruct Own;\npub fn f() {}\n\
                pub(in crate::x) type D = A;\n#[cfg(test)]\npub struct E;";
    let source = Source { path: "a.rs".into(), text: text.into() };
    let found = public_types(&source.code());
    let expected = [(1, "A"), (2, "B"), (5, "D")].map(|(line, name)| (line, name.to_owned()));
    assert_eq!(found, expected);
}

/// The types that others can name, with their lines.
fn public_types(code: &[Token]) -> Vec<(usize, String)> {
    let mut types = Vec::new();
    for (at, token) in code.iter().enumerate().filter(|(_, token)| token.text == "pub") {
        let mut next = at + 1;
        if code.get(next).is_some_and(|token| token.text == "(") {
            let length = code[next..].iter().take_while(|token| token.text != ")").count();
            next += length + 1;
        }
        let is_type = |word: &str| matches!(word, "struct" | "enum" | "trait" | "type" | "union");
        if code.get(next).is_some_and(|token| is_type(&token.text)) {
            // A macro's name is `$name`.
            let name = code.get(next + 1).filter(|name| name.text != "$");
            types.extend(name.map(|name| (token.line, name.text.clone())));
        }
    }
    types
}
