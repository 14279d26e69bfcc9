use super::*;

// Put together here, so that nobody's scanner takes this file for a leak.
fn token() -> String {
    format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5")
}

fn shown(text: &str) -> String {
    mask_values(text, &(0..0)).into_owned()
}

#[test]
fn a_message_has_stars_for_what_is_a_secret_by_its_form() {
    let said = mask_secrets(&format!("`{}` is no name", token())).into_owned();
    assert_eq!(said, format!("`{}` is no name", "*".repeat(token().len())));
    assert!(matches!(mask_secrets("`shop` is no name"), Cow::Borrowed(_)));
    let key = format!("-----BEGIN {} KEY-----\nabc\n-----END {} KEY-----", "PRIVATE", "PRIVATE");
    assert!(!mask_secrets(&key).contains("abc"));
}

#[test]
fn an_excerpt_has_no_values_and_all_columns() {
    let text = format!("env: [{{name: 1X, value: \"{}\"}}, {{name: B, value: plain}}]\n", token());
    let stars = text.replace(&format!("\"{}\"", token()), &"*".repeat(token().len() + 2));
    assert_eq!(shown(&text), stars.replace("plain", "*****"));
    assert_eq!(shown(&text).chars().count(), text.chars().count());
    for (text, expected) in [
        ("- name: A\n  value: hunter2 # mine\n", "- name: A\n  value: ******* # mine\n"),
        ("DB_PASSWORD: hunter2\n", "DB_PASSWORD: *******\n"),
        ("{value: 'a, b: c', name: X}", "{value: *********, name: X}"),
        ("value: |\n  one\n  two\nname: x\n", "value: |\n*****\n*****\nname: x\n"),
        ("secret: {name: db, key: password}\n", "secret: {name: db, key: password}\n"),
        ("path: /a\nhost: x.example.com:80\n", "path: /a\nhost: x.example.com:80\n"),
        ("value: é\u{1f511}x\n", "value: ***\n"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
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
