use super::*;
use crate::waml::node::Path;

fn parsed(text: &str) -> (Option<Node>, Vec<String>) {
    let mut violations = Vec::new();
    let node = parse("f", text.as_bytes(), &Budget::default(), &mut violations);
    (node, violations.iter().map(ToString::to_string).collect())
}

fn text_at(text: &str, path: &str) -> (String, String) {
    let (node, violations) = parsed(text);
    assert_eq!(violations, Vec::<String>::new());
    let node = node.unwrap();
    let node_found = node.at(&Path::parse(path).unwrap()).unwrap();
    (node_found.as_text().unwrap().to_owned(), node_found.origin.position.to_string())
}

#[test]
fn every_value_has_its_place_and_its_spelling() {
    let text = "a: on\nb:\n- x: 017\n  y: 'é'\n- {z: 1_000, \"q\": 1.10}\n";
    assert_eq!(text_at(text, "a"), ("on".into(), "f:1:4".into()));
    assert_eq!(text_at(text, "b[0].x"), ("017".into(), "f:3:6".into()));
    assert_eq!(text_at(text, "b[0].y"), ("é".into(), "f:4:6".into()));
    assert_eq!(text_at(text, "b[1].z"), ("1_000".into(), "f:5:7".into()));
    assert_eq!(text_at(text, "b[1].q"), ("1.10".into(), "f:5:19".into()));
}

#[test]
fn a_value_from_an_alias_or_a_merge_keeps_the_place_where_it_is_written() {
    let text = "x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n";
    assert_eq!(text_at(text, "y.a"), ("1".into(), "f:1:11".into()));
    assert_eq!(text_at(text, "y.b"), ("3".into(), "f:4:6".into()));
}

#[test]
fn a_second_key_is_refused_with_the_line_of_the_first() {
    let (_, violations) = parsed("a: 1\nb: 2\na: 3\n");
    assert_eq!(violations, ["f:3:1: the key `a` is set twice [yaml]"]);
}

#[test]
fn what_is_not_one_document_of_text_is_refused() {
    for (text, message) in [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("a: 1\n---\nb: 2\n", "more than one"),
        ("a: [1\n", "not YAML"),
        ("a:\n\tb: 1\n", "not YAML"),
        ("a: *b\n", "not YAML"),
        ("a: !secret x\n", "tag"),
        ("? [a]\n: b\n", "key"),
        ("a: &a [*a]\n", "refers to what holds it"),
    ] {
        let (_, violations) = parsed(text);
        assert!(violations.iter().any(|v| v.contains(message)), "{text:?}: {violations:?}");
    }
    let mut violations = Vec::new();
    assert!(parse("f", b"a: \xff\n", &Budget::default(), &mut violations).is_none());
    assert_eq!(violations[0].to_string(), "f:1:4: the file is not UTF-8 text [yaml]");
}

#[test]
fn bombs_are_stopped_before_they_grow() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let before = format!("*a{}", n - 1);
        laughs += &format!("a{n}: &a{n} [{}]\n", vec![before; 10].join(", "));
    }
    assert!(parsed(&laughs).1[0].contains("20000 values"), "{:?}", parsed(&laughs).1);

    let long = "x".repeat(100_000);
    let copies = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 1000].join(", "));
    assert!(parsed(&copies).1[0].contains("1048576 bytes"));

    let deep = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    assert!(parsed(&deep).1[0].contains("64 deep"), "{:?}", parsed(&deep).1);
    assert!(parsed(&"{a: ".repeat(20_000)).0.is_none());
    assert!(parsed(&"x".repeat(300_000)).1[0].contains("262144"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[ -~\\n\\t:\\-\\[\\]{}&*!|>'\"#%@`é]{0,200}") {
        let _ = parsed(&text);
    }
}

#[test]
fn anchors_inside_anchors_are_stopped_before_they_fill_the_memory() {
    let mut text = String::new();
    for n in 0..58 {
        text += &format!("{}a{n}: &a{n}\n", "  ".repeat(n));
    }
    let inner = "  ".repeat(58);
    text += &format!("{inner}list: [{}]\n", vec!["0"; 19_000].join(","));
    assert!(parsed(&text).1.iter().any(|v| v.contains("20000 values")), "{:?}", parsed(&text).1);
}

#[test]
fn aliases_do_not_nest_deeper_than_what_is_written_may() {
    let mut text = "a0: &a0 {x: 1}\n".to_owned();
    for n in 1..100 {
        text += &format!("a{n}: &a{n} {{x: *a{}}}\n", n - 1);
    }
    assert!(parsed(&text).1.iter().any(|v| v.contains("64 deep")), "{:?}", parsed(&text).1);
}

/// The line is shown with quotes, and never what may be a secret.
#[test]
fn a_character_that_yaml_keeps_for_itself_is_told_with_the_line_to_write() {
    let help = |text: &str| {
        let mut violations = Vec::new();
        parse("f", text.as_bytes(), &Budget::default(), &mut violations);
        violations.into_iter().next().and_then(|violation| violation.help).unwrap_or_default()
    };
    for (text, expected) in [
        ("a:\n  slack: @squad\n", "`slack: \"@squad\"`"),
        ("- host: *.example.com\n", "`- host: \"*.example.com\"`"),
        ("a:\n- `x`\n", "`- \"`x`\"`"),
        ("a: %x\n", "`a: \"%x\"`"),
        ("summary: it is: full\n", "`summary: \"it is: full\"`"),
        ("value: @x\n", "`value: \"…\"`"),
        ("dbPassword: *x\n", "`dbPassword: \"…\"`"),
        ("value: a: b\n", "`value: \"…\"`"),
        ("a: {b: @x}\n", "`\"…\"`"),
    ] {
        let help_text = help(text);
        assert!(
            help_text.ends_with(&format!("put it in quotes: {expected}")),
            "{text}: {help_text}"
        );
    }
    assert!(help("a: [\n").starts_with("look at the indentation"), "{}", help("a: [\n"));
}
