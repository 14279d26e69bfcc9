//! Files that are taken and refused, and values that are read by them.

use super::*;
use crate::model::violation::sort;

fn parse_file(text: &str) -> (TemplateParameters, Vec<String>) {
    let mut violations = Vec::new();
    let parameters = TemplateParameters::parse("web/parameters.yaml", text, &mut violations);
    sort(&mut violations);
    let lines = violations.iter().map(|violation| {
        let help = violation.help.as_deref().unwrap_or_default();
        format!("{} = {help}", violation.to_string().replace("web/parameters.yaml:", ""))
    });
    (parameters, lines.collect())
}

fn refused(text: &str) -> Vec<String> {
    parse_file(text).1
}

/// Reads the parameters of settings that are written as `text`.
fn read(file: &str, text: &str) -> (Json, Vec<String>) {
    let (parameters, problems) = parse_file(file);
    assert_eq!(problems, Vec::<String>::new());
    let mut violations = Vec::new();
    let budget = Budget::default();
    let mut tree = yaml::parse("w", text.as_bytes(), &budget, &mut violations).unwrap();
    let values = parameters.read("web@latest", &mut tree, &mut violations);
    let lines = violations.iter().map(|violation| {
        let help = violation.help.as_deref().unwrap_or_default();
        format!("{violation} = {help}")
    });
    (json!(values), lines.collect())
}

const FILE_TEXT: &str = "parameters:\n  \
    text: {type: string, pattern: \"^[a-z]+$\"}\n  \
    word: {type: string, enum: [one, two], default: one}\n  \
    count: {type: integer, minimum: 1, maximum: 9}\n  \
    share: {type: number, minimum: 0, maximum: 1}\n  \
    switch: {type: boolean}\n  \
    list: {type: array, items: {type: object, properties: {name: {type: string}, size: {type: integer}}, required: [name]}}\n  \
    version: {type: string}\n";

#[test]
fn values_have_their_declared_types_and_are_null_where_nothing_is_set() {
    let text =
        "parameters: {text: abc, count: 3, share: 0.5, list: [{name: a, size: 1}], version: 1.10}";
    let (values, problems) = read(FILE_TEXT, text);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        values,
        json!({"text": "abc", "word": null, "count": 3, "share": 0.5, "switch": null,
               "list": [{"name": "a", "size": 1}], "version": "1.10"})
    );
}

#[test]
fn a_value_of_another_form_is_refused_at_its_place() {
    let text = "parameters:\n  text: A1\n  word: three\n  count: 10\n  share: 1.5\n  switch: yes\n  list: [{size: x, nam: a}]\n  coutn: 1\n";
    let (_, problems) = read(FILE_TEXT, text);
    assert_eq!(
        problems,
        [
            "w:8:3: the template `web@latest` has no parameter `coutn` [parameters] = did you mean `count`?",
            "w:3:9: `parameters.word` must be one of `one` and `two`, but `three` is not one of the allowed words [parameters] = use one of `one` and `two`",
            "w:4:10: `parameters.count` must be a whole number from 1 to 9, but `10` is out of range [parameters] = write a number from 1 to 9",
            "w:6:11: `parameters.switch` must be `true` or `false`, but `yes` is a boolean in YAML 1.1 and text in YAML 1.2 [parameters] = write `true` or `false`: `switch: true`",
            "w:7:17: `parameters.list[0].size` must be a whole number, but `x` is not a whole number [parameters] = write a whole number: `size: 3`",
            "w:7:20: `parameters.list[0]` has no key `nam` [parameters] = did you mean `name`?",
            "w:2:9: `parameters.text` does not have the form that the template asks for [parameters] = write a text that matches `^[a-z]+$`",
            "w:5:10: `parameters.share` is out of range [parameters] = write a number from 0 to 1",
        ]
    );
    let (_, problems) = read("", "parameters: {a: 1}");
    assert_eq!(
        problems,
        [
            "w:1:14: the template `web@latest` has no parameter `a` [parameters] = remove it: the template declares no parameters"
        ]
    );
    let long = format!("parameters: {{text: {}}}", "a".repeat(5000));
    assert!(read(FILE_TEXT, &long).1[0].contains("`parameters.text` has 5000 bytes"));
}

#[test]
fn a_keyword_that_would_do_nothing_is_refused_at_its_place() {
    let text = "parameters:\n  a: {type: string, minimum: 1}\n  b: {type: integer, enum: [x]}\n  \
        c: {type: array}\n  d: {type: object}\n  e: {type: boolean, pattern: x}\n  \
        f: {type: object, properties: {x: {type: string, default: y}}}\n  \
        g: {type: integer, minimum: 1.5}\n  h: {type: integer, minimum: 3, maximum: 2}\n  \
        i: {type: string, pattern: \"(\"}\n  j: {type: string, enum: []}\n  k: {type: string, enum: [x, x]}\n  \
        l-m: {type: string}\n  n: {type: object, properties: {x: {type: string}}, required: [y]}\n\
        required: [q]\n";
    let lines = refused(text);
    let expected = [
        "2:30: `parameters.a.minimum` says nothing about a value of the type `string`",
        "3:22: `parameters.b.enum` says nothing about a value of the type `integer`",
        "4:3: `parameters.c` does not say what its elements are",
        "5:3: `parameters.d` does not say which keys it has",
        "6:31: `parameters.e.pattern` says nothing about a value of the type `boolean`",
        "7:61: `parameters.f.properties.x` is a part of a parameter and has a `default`",
        "8:31: `parameters.g.minimum` is no whole number",
        "9:31: `parameters.h` has a `minimum` above its `maximum`",
        "10:30: `parameters.i.pattern` is not a regular expression: unclosed group",
        "11:21: `parameters.j.enum` has 0 words",
        "12:31: `parameters.k.enum` has `x` twice",
        "13:3: `l-m` is no name of a parameter",
        "14:65: `parameters.n.required` names `y`, which is not declared",
        "15:12: `required` names `q`, which is not declared",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

#[test]
fn the_rest_of_json_schema_is_refused_with_the_part_that_is_taken() {
    let lines = refused("parameters:\n  a: {type: string, oneOf: [x], minimun: 1}\n  b: {}\n");
    assert!(lines[0].starts_with("2:21: `parameters.a` has no key `oneOf` [unknown-key] = remove it: a parameter has `type`, `description`"), "{lines:#?}");
    assert!(lines[1].ends_with("did you mean `minimum`?"), "{lines:#?}");
    assert!(lines[2].starts_with("3:6: `type` is missing from `parameters.b`"), "{lines:#?}");
    assert!(refused("properties: {}\n")[0].contains("has no key `properties`"));
}

#[test]
fn a_default_is_a_value_that_the_schema_takes() {
    let lines = refused(
        "parameters:\n  a: {type: integer, maximum: 3, default: 4}\n  b: {type: string, pattern: \"^x\", default: y}\n",
    );
    assert!(lines[0].starts_with("2:43: `parameters.a` must be a whole number"), "{lines:#?}");
    assert!(lines[1].starts_with("3:45: `parameters.b` does not have the form"), "{lines:#?}");
    let (parameters, _) = parse_file(FILE_TEXT);
    let defaults = parameters.default_entry().unwrap();
    assert_eq!(defaults.node.get("word").and_then(Node::as_text), Some("one"));
    assert_eq!(defaults.node.origin.layer.as_ref(), "web/parameters.yaml");
}

#[test]
fn what_a_file_can_ask_for_is_bounded() {
    let many: String = (0..300).map(|n| format!("  p{n}: {{type: string}}\n")).collect();
    let lines = refused(&format!("parameters:\n{many}"));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("more than 200 parameters"), "{lines:#?}");
    let deep = "{type: array, items: ".repeat(20) + "{type: string}" + &"}".repeat(20);
    let lines = refused(&format!("parameters:\n  a: {deep}\n"));
    assert!(lines[0].contains("more than 5 levels deep"), "{lines:#?}");
    let lines = refused("parameters:\n  a: {type: string, pattern: \"(a{99}){99}{99}\"}\n");
    assert!(lines[0].contains("it is too large"), "{lines:#?}");
    let long = "a".repeat(300);
    let lines = refused(&format!("parameters:\n  a: {{type: string, pattern: {long}}}\n"));
    assert!(lines[0].contains("it has more than 256 bytes"), "{lines:#?}");
}
