//! Names are those that an engineer of this field types into the search box: no participles and questions for files,
//! types, functions and locals, and one public type for one name.

use std::collections::BTreeMap;

use super::source::{self, Source, Token};
use super::tell;

/// Participles, questions and moods: no file, type or function is called so, and no constant begins so. A file and a type
/// are called by the noun that they are about, a function by a verb with its object: `parse_trailers`, not `said`; a
/// limit is `MAX_TAGS`.
const STOP: &[&str] = &[
    "all",
    "anybody",
    "asked",
    "begun",
    "believed",
    "does",
    "elsewhere",
    "everything",
    "found",
    "gone",
    "had",
    "has",
    "have",
    "heard",
    "here",
    "how",
    "kept",
    "known",
    "listed",
    "look",
    "looked",
    "made",
    "may",
    "meant",
    "most",
    "named",
    "nobody",
    "noted",
    "nothing",
    "of",
    "once",
    "owned",
    "placed",
    "promised",
    "said",
    "says",
    "seen",
    "shown",
    "somebody",
    "someone",
    "swept",
    "taken",
    "tell",
    "told",
    "trouble",
    "wanted",
    "what",
    "whence",
    "which",
    "who",
    "whose",
    "why",
    "wish",
    "wrong",
];

/// The same for what a function binds with `let`, or a closure takes: a local is the noun that it holds.
const STOP_LOCALS: &[&str] = &[
    "asked", "begun", "found", "heard", "kept", "known", "meant", "noted", "said", "shown",
    "someone", "swept", "taken", "told", "wanted", "whence",
];

/// Files, types, constants and functions that may be called so, each with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("deployments/apps.rs", "ALL", "every variant, as other crates call it"),
    ("git/transport/ssh/options.rs", "KNOWN_HOSTS", "OpenSSH's own name"),
    ("model/words.rs", "ALL", "every variant, as other crates call it"),
    ("server/problem.rs", "ALL", "every variant, as other crates call it"),
];

/// Public types that share their name with so many others, each with the reason. Strike out what has found a name of its
/// own; add none.
const SHARED: &[(&str, usize, &str)] = &[
    ("App", 2, "the service; a GitHub App as configured, a name of the configuration's schema"),
    ("Forge", 2, "the code host; `forge` as configured, a name of the configuration's schema"),
    ("Identity", 2, "a name of the API's schema, and one of the configuration's"),
    ("Ingress", 2, "a name of the configuration's schema, and one of the WAML's"),
    ("LockScope", 2, "the scope of a lock; the same as served, a name of the API's schema"),
    ("ManifestRepository", 2, "the writer; the same as configured, a name of the schema"),
    ("Notify", 2, "a name of the configuration's schema, and one of the WAML's"),
    ("Secret", 2, "a name of the configuration's schema, and one of the WAML's"),
    ("Vault", 2, "a name of the configuration's schema, and one of the WAML's"),
    ("Waml", 2, "the document; `waml` as configured, a name of the configuration's schema"),
];

#[test]
fn files_types_functions_and_constants_have_names_that_can_be_searched_for() {
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        let stem = source.module().pop().map(str::to_owned).unwrap_or_default();
        let code = source.code();
        for (line, name) in std::iter::once((1, stem)).chain(names(&code)) {
            if !STOP.contains(&first_word(&name).to_lowercase().as_str()) {
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
        "a file and a type are called by their noun, a function by a verb with its object, and `of` only makes a \
         `Self` (tests/architecture/names.rs, STOP): rename these",
        &broken,
    );
    let unused = EXCEPTIONS.iter().filter(|exception| !used.contains(exception));
    let unused: Vec<String> = unused.map(|(path, name, _)| format!("{path}: `{name}`")).collect();
    tell("strike out the exceptions that nothing needs (EXCEPTIONS)", &unused);
}

#[test]
fn a_local_is_the_noun_that_it_holds() {
    let mut broken = Vec::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        let stopped = locals(&source.code());
        let stopped = stopped.into_iter().filter(|(_, name)| STOP_LOCALS.contains(&name.as_str()));
        broken.extend(stopped.map(|(line, name)| format!("{}: `{name}`", source.at(line))));
    }
    tell(
        "a local is called by what it holds: `pod`, not `found` (tests/architecture/names.rs, STOP_LOCALS): rename these",
        &broken,
    );
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
        |name: &str| SHARED.iter().find(|(one, ..)| *one == name).map_or(1, |(_, most, _)| *most);
    let many = types.iter().filter(|(name, at)| at.len() > allowed(name));
    let many: Vec<String> = many.map(|(name, at)| format!("{name}: {}", at.join(", "))).collect();
    tell(
        "a public type has a name of its own in the crate: say its module's noun (`RollbackRequest`)",
        &many,
    );
    let count = |name: &str| types.get(name).map_or(0, Vec::len);
    let fewer = SHARED.iter().filter(|(name, most, _)| count(name) < *most);
    let fewer: Vec<String> =
        fewer.map(|(name, most, _)| format!("{name}: {} of {most}", count(name))).collect();
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

/// What of a name must not be in the stop list: of a constant its first word, of others the whole.
fn first_word(name: &str) -> &str {
    let is_constant =
        name.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit());
    name.split('_').next().filter(|_| is_constant).unwrap_or(name)
}

/// The types, constants and functions, with their lines. A function `of` that makes a `Self` of its arguments is left out: that is
/// how the standard library and others call a constructor.
fn names(code: &[Token]) -> Vec<(usize, String)> {
    let is_item = |word: &str| {
        matches!(word, "fn" | "const" | "struct" | "enum" | "trait" | "type" | "union")
    };
    let items = code.windows(2).enumerate().filter(|(_, two)| is_item(&two[0].text));
    let items = items.filter(|(at, two)| two[1].text != "of" || !makes_self(&code[at + 2..]));
    items.map(|(_, two)| (two[1].line, two[1].text.clone())).collect()
}

/// Checks that a function makes a `Self` without having one, by what follows its name.
fn makes_self(signature: &[Token]) -> bool {
    let head = signature.iter().take_while(|token| !matches!(token.text.as_str(), "{" | ";"));
    let head: Vec<&str> = head.map(|token| token.text.as_str()).collect();
    !head.contains(&"self") && head.contains(&"Self")
}

/// The names that `let` binds, and the arguments of closures, with their lines; not those within patterns.
fn locals(code: &[Token]) -> Vec<(usize, String)> {
    let word = |at: usize| code.get(at).map_or("", |token| token.text.as_str());
    let mut locals = Vec::new();
    for at in 0..code.len() {
        let next = match word(at) {
            "let" => at + 1 + usize::from(word(at + 1) == "mut"),
            // `|found|`, `|found, at|`, `|at, found|`, `|found: &str|`; a pattern's alternatives are paths or in capitals.
            "|" | "," if matches!(word(at + 2), "|" | "," | ":") => at + 1,
            _ => continue,
        };
        let is_argument = word(at) != "," || word(next + 1) == "|";
        locals.extend(
            code.get(next).filter(|_| is_argument).map(|token| (token.line, token.text.clone())),
        );
    }
    locals
}

#[test]
fn locals_and_constructors_are_told_from_others() {
    assert_eq!([first_word("MOST_TAGS"), first_word("most_tags")], ["MOST", "most_tags"]);
    let text = "fn of(a: A) -> Option<Self> {}\nfn of(&self) -> Self {}\nfn of(a: A) -> B {\n\
                let mut found = 1; let Some(kept) = a else {}; b.map(|said| said).fold(0, |told, one| one)}";
    let source = Source { path: "a.rs".into(), text: text.into() };
    let code = source.code();
    let expected = [(2, "of"), (3, "of")].map(|(line, name)| (line, name.to_owned()));
    assert_eq!(names(&code), expected);
    let locals = locals(&code).into_iter().map(|(_, name)| name);
    let stopped: Vec<String> = locals.filter(|name| STOP_LOCALS.contains(&&**name)).collect();
    assert_eq!(stopped, ["found", "said", "told"]);
}
