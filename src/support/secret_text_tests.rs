//! Tests of the recognition of secrets in texts.

use std::borrow::Cow;

use crate::support::secret_marks::SecretMarks;
use crate::support::secret_mask::{mask_secrets, mask_values};

use super::{find_assigned, find_in_arguments, find_named_secret};

// Put together here, so that nobody's scanner takes this file for a leak.
fn token() -> String {
    format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5")
}

fn mask_all(text: &str) -> String {
    mask_values(text, &(0..0)).into_owned()
}

#[test]
fn a_message_has_stars_for_what_is_a_secret_by_its_form() {
    let masked = mask_secrets(&format!("`{}` is no name", token())).into_owned();
    assert_eq!(masked, format!("`{}` is no name", "*".repeat(token().len())));
    assert!(matches!(mask_secrets("`shop` is no name"), Cow::Borrowed(_)));
    let key = format!("-----BEGIN {} KEY-----\nabc\n-----END {} KEY-----", "PRIVATE", "PRIVATE");
    assert!(!mask_secrets(&key).contains("abc"));
}

#[test]
fn an_excerpt_has_no_values_and_all_columns() {
    let text = format!("env: [{{name: 1X, value: \"{}\"}}, {{name: B, value: plain}}]\n", token());
    let stars = text.replace(&format!("\"{}\"", token()), &"*".repeat(token().len() + 2));
    assert_eq!(mask_all(&text), stars.replace("plain", "*****"));
    assert_eq!(mask_all(&text).chars().count(), text.chars().count());
    for (text, expected) in [
        ("- name: A\n  value: hunter2 # mine\n", "- name: A\n  value: ******* # mine\n"),
        ("DB_PASSWORD: hunter2\n", "DB_PASSWORD: *******\n"),
        ("{value: 'a, b: c', name: X}", "{value: *********, name: X}"),
        ("value: |\n  one\n  two\nname: x\n", "value: |\n*****\n*****\nname: x\n"),
        ("secret: {name: db, key: password}\n", "secret: {name: db, key: password}\n"),
        ("path: /a\nhost: x.example.com:80\n", "path: /a\nhost: x.example.com:80\n"),
        ("value: é\u{1f511}x\n", "value: ***\n"),
    ] {
        assert_eq!(mask_all(text), expected, "{text}");
    }
}

#[test]
fn the_place_itself_is_shown_unless_it_looks_like_a_secret() {
    let at = |text: &str, part: &str| {
        let start = text.find(part).unwrap();
        mask_values(text, &(start..start + part.len())).into_owned()
    };
    assert_eq!(at("- {name: PORT, value: 8080}", "8080"), "- {name: PORT, value: 8080}");
    assert_eq!(
        at("- {name: DB_PASSWORD, value: 8080}", "8080"),
        "- {name: DB_PASSWORD, value: ****}"
    );
    assert_eq!(
        at("- name: API_TOKEN\n  value: 8080\n", "8080"),
        "- name: API_TOKEN\n  value: ****\n"
    );
    let random = "hT5-kq9!Lw2z";
    assert!(!at(&format!("- {{name: A, value: {random}}}"), random).contains(random));
}

/// Every way in which YAML, or a mistake in it, can write a variable's value: the value is never shown.
#[test]
fn no_way_of_writing_a_value_shows_it() {
    let quoted =
        ["*Tr0ub4dor", "&s3cret9", "{pa55word", "[pa55word", "|abc", ">x", "a: b, c", "it''s"];
    let mut texts: Vec<(String, &str)> = quoted
        .into_iter()
        .flat_map(|value| {
            let texts = ["- {name: 1X, value: \"V\"}", "- name: 1X\n  value: 'V'\n", "value: V\n"];
            texts.map(|text| (text.replace('V', value), value))
        })
        .collect();
    let other_texts = [
        "value: &pw hunter2\n",
        "value: !!str hunter2\n",
        "value: &pw !!str \"hunter2\"\n",
        "x: &pw hunter2\nenv:\n- {name: A, value: *pw}\n",
        "env: [{\"name\":\"1X\",\"value\":\"hunter2\"}]",
        "env: [{\"name\": \"1X\", \"value\":hunter2}]",
        "- name: A\n  value:\n    hunter2\n",
        "- name: A\n  value: # mine\n\n# more\n    hunter2\n",
        "- name: DB_PASSWORD\n  value: #hunter2\n",
        "env: [{name: A, value: #hunter2\n  x}]\n",
        "dbPassword: #hunter2\nslug: shop\n",
        "- name: A\n  value: one\n    hunter2\n",
        "- name: A\n  value: \"one\n    hunter2\"\n",
        "- name: A\n  value: 'one\n\n    hunter2'\n",
        "- name: A\n  value: \"one\nhunter2\"\n",
        "- value: |\n    password: x\n    hunter2\n  name: A\n",
        "- value: >-\n    one\n\n    hunter2\n",
        "env: [{name: A, value:\n hunter2}]",
        "env: [{name: A, value:\nhunter2}]",
        "env: [\n  {name: A,\n  value:\n  hunter2}]",
        "env: [\n  {name: A,\n  value: hunter2, plain: false}]",
        "env: [{name: A, value:\n \"one, hunter2\"}]",
        "env: [{name: A, value: \"one,\n hunter2\"}]",
        "value: \"one\"hunter2\"\n",
        "value:hunter2\n",
        "value:\"hunter2\"\n",
        "value: [a, hunter2]\n",
        "value: {a: hunter2}\n",
        "value:\n- hunter2\n",
        "? value\n: hunter2\n",
        "&key value: hunter2\n",
        "- name: \"A\n  value: \"hunter2\"\n",
        "- value: \"x\n- name: B\n  value: \"hunter2\"\n",
        "-\tname: A\n\tvalue:\n\thunter2\n",
        "dbPassword: hunter2\n",
        "clientSecret: hunter2\n",
        "PGPASSWORD: hunter2\n",
        "REDIS_PASS: hunter2\n",
        "DB_PWD: hunter2\n",
        "db-password:\n  hunter2\n",
        "passwords: [hunter2, x]\n",
        "credentials:\n- a: 1\n- hunter2\n",
        "\"db password\": hunter2\n",
    ];
    texts.extend(other_texts.map(|text| (text.to_owned(), "hunter2")));
    for (text, value) in texts {
        let masked = mask_all(&text);
        assert!(!masked.contains(value), "{text}\n{masked}");
        assert_eq!(masked.chars().count(), text.chars().count(), "{text}\n{masked}");
        assert_eq!(masked.lines().count(), text.lines().count(), "{text}\n{masked}");
    }
}

#[test]
fn what_is_no_value_stays_in_an_excerpt() {
    for text in [
        "secret:\n  name: db\n  key: password\n",
        "- name: A\n  secret: {name: db, key: x}\n- name: B\n",
        "tokenUrl: https://example.com\nproxy_pass: \n",
        "image: {repository: ghcr.io/acme/token:1.4}\n",
        "ingress: [{host: a.example.com, paths: [{path: /}]}]\nslug: shop\n",
    ] {
        assert_eq!(mask_all(text), text);
    }
    let text = "env: [{name: A, value: x},\n      {name: B, value: y}]\nslug: shop\n";
    assert_eq!(
        mask_all(text),
        text.replace("value: x", "value: *").replace("value: y", "value: *")
    );
    let text = "- value: |\n    one\n- name: B\nslug: shop\n";
    assert_eq!(mask_all(text), text.replace("    one", "*******"));
}

/// However far the name is from the value, and on which side of it.
#[test]
fn the_place_itself_is_not_shown_in_a_map_with_the_name_of_a_secret() {
    for text in [
        "- name: DB_PASSWORD\n  plain: false\n\n  value: hunter2\n",
        "- value: hunter2\n  plain: false\n  name: DB_PASSWORD\n",
        "- plain: false\n  value: hunter2\n  name: dbPassword\n- name: A\n",
        "- {value: hunter2, plain: false, name: DB_PASSWORD}\n",
        "- {name: DB_PASSWORD,\n   plain: false,\n   value: hunter2}\n",
        "- name: PGPASSWORD\n  secret:\n    name: x\n  value: hunter2\n",
    ] {
        let start = text.find("hunter2").unwrap();
        let masked = mask_values(text, &(start..start + 7));
        assert!(!masked.contains("hunter2"), "{masked}");
    }
    let text = "- name: DB_PASSWORD\n  value: x\n- name: PORT\n  value: hunter2\n- name: API_KEY\n";
    let start = text.find("hunter2").unwrap();
    assert!(mask_values(text, &(start..start + 7)).contains("hunter2"), "its own name counts");
}

/// Parts that a search may read again and again, if each of them makes it look ahead or back.
const REPEATED: &[&str] = &[
    "- {name: A, value: x}\n",
    "- {name: A, value: \"x\n",
    "- {name: A, value: 'x''\n",
    "- {name: A, value:\n",
    "-----BEGIN X PRIVATE KEY-----\n",
    "-----BEGIN ",
    "credentials:\n ",
    "value: &a *a\n",
    "a: &a {b: [",
    "PASSWORD=a(",
    "PASSWORD=$(",
    "PASSWORD='\"",
    "a=",
    "a:",
    "a-:",
    ":",
    "\u{1f511}:",
    "\"a\":\"",
    "\"token\":\"\\",
    "\\\"token\\\":\"",
    "authorization:",
    "Authorization: Bearer ",
    "{env: a}, ",
    "{value: a, ",
    "  value: x\n",
];

/// A mask that asks every value at every character does not come to an end here.
#[test]
fn a_long_file_is_masked_in_time_in_proportion_to_it() {
    const LENGTH: usize = 128 << 10;
    let blanks = " ".repeat(LENGTH / 2);
    let mut texts: Vec<String> =
        REPEATED.iter().map(|part| part.repeat(LENGTH / part.len())).collect();
    texts.push(format!("args: {}", "{{ ".repeat(LENGTH / 3)));
    texts.push(format!("args: [{}{blanks}", "|,".repeat(LENGTH / 4)));
    texts.push(format!("{{{}{blanks}", "a: b, ".repeat(LENGTH / 12)));
    texts.push(format!("{blanks}{{{}", "env: a, ".repeat(LENGTH / 16)));
    texts.push(format!("- name: A\n{}", "  value: x\n".repeat(LENGTH / 11)));
    let deeper = (1..700).map(|depth| format!("{}value: x\n", " ".repeat(depth)));
    texts.push(deeper.collect());
    for text in texts {
        assert_eq!(mask_all(&text).chars().count(), text.chars().count());
        let mut marks = SecretMarks::default();
        assert!(!marks.mark_manifest(&text).is_empty());
    }
}

#[test]
fn a_long_message_and_long_arguments_are_read_in_time_in_proportion_to_them() {
    const LENGTH: usize = 128 << 10;
    for part in REPEATED {
        let text = part.repeat(LENGTH / part.len());
        assert!(!mask_secrets(&text).is_empty());
        let arguments: Vec<&str> = vec![part; 1000];
        let _read = (find_in_arguments(&[text.as_str()]), find_in_arguments(&arguments));
    }
}

#[test]
fn a_value_behind_the_name_of_a_secret_is_found() {
    for (text, expected) in [
        ("--from-literal=password=hunter2", "hunter2"),
        ("--set=db.password=hunter2,a=b", "hunter2"),
        ("PASSWORD=a(b TOKEN=c", "a(b c"),
        ("PASSWORD=a(TOKEN=c", "a(TOKEN=c"),
        ("{\"password\":\"hunter2\",\"a\":\"b\"}", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
        ("--label=secret=true --a=b=c", ""),
    ] {
        let secrets: Vec<&str> = find_assigned(text).iter().map(|secret| secret.text).collect();
        assert_eq!(secrets.join(" "), expected, "{text}");
    }
}

#[test]
fn a_switch_and_the_name_of_a_file_are_no_values() {
    for (name, value) in
        [("SMTP_AUTH", "plain"), ("SMTP_AUTH", "login"), ("TLS_KEY", "tls.key"), ("A_TOKEN", "1")]
    {
        assert!(find_named_secret(name, value).is_none(), "{name}");
    }
    assert!(find_named_secret("TLS_KEY", "hunter2").is_some());
}
