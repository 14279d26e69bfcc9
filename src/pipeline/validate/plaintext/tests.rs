use super::*;
use crate::pipeline::validate::tests::{WEB, planned_section as planned};

// Put together here, so that nobody's scanner takes this file for a leak.
fn random(n: usize) -> String {
    "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z".chars().cycle().take(n).collect()
}

fn kinds(text: &str) -> Vec<(&'static str, bool)> {
    find_secrets(text).iter().map(|secret| (secret.what, secret.certain)).collect()
}

#[test]
fn what_can_be_nothing_else_is_known_by_its_form() {
    let upper = random(16).to_ascii_uppercase();
    for (text, what) in [
        (format!("ghp_{}", random(36)), "a GitHub token"),
        (format!("Bearer github_pat_{}", random(60)), "a GitHub token"),
        (format!("key={}{upper}", "AKIA"), "an AWS access key"),
        (format!("xoxb-{}", random(24)), "a Slack token"),
        (format!("{{\"stripe\": \"sk_live_{}\"}}", random(24)), "a Stripe key"),
        (format!("-----BEGIN RSA {} KEY-----\n{}\n", "PRIVATE", random(64)), "a private key"),
        ("postgres://app:hunter2@db.internal:5432/app".to_owned(), "a password in a URL"),
    ] {
        assert_eq!(kinds(&text), [(what, true)], "{text}");
    }
}

#[test]
fn what_may_be_public_is_told_with_less_certainty() {
    let token = format!("eyJ{}.eyJ{}.{}", random(20), random(40), random(43));
    for (text, what) in
        [(token, "a signed token (JWT)"), (format!("AIza{}", random(35)), "a Google API key")]
    {
        assert_eq!(kinds(&text), [(what, false)], "{text}");
    }
}

#[test]
fn what_is_no_secret_is_passed_over() {
    for text in [
        "https://example.com/a:b@c",
        "postgres://app:$(DB_PASSWORD)@db/app",
        "postgres://app:${DB_PASSWORD}@db/app",
        "postgres://app@db/app",
        "postgres://app:***@db",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_short",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUYj\n",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "ghcr.io/weave-lab/my-app:1.0.202206151506-sha.649008fb",
        "eyJhbGciOi.eyJ.x",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn a_variable_is_called_after_a_secret_and_holds_what_may_be_one() {
    for (name, value, is_one) in [
        ("DB_PASSWORD", "hT5-kq9!Lw2z", true),
        ("api-key", "9f86d081884c7d65", true),
        ("SECRET", "correct.horse-Battery9", true),
        ("DB_PASSWORD", "hunter2", true),
        ("API_TOKEN", "abc123", true),
        ("db.password", "postgres", true),
        ("API_TOKEN", "none", false),
        ("SESSION_TOKEN", "3600", false),
        ("PASSWORD", "<password>", false),
        ("DB_PASSWORD", "$(OTHER)", false),
        ("DB_PASSWORD", "true", false),
        ("DB_PASSWORD_FILE", "/run/secrets/hT5-kq9!Lw2z", false),
        ("TOKEN_URL", "https://login.example.com/token9", false),
        ("TOKEN_ID", "hT5-kq9!Lw2z", false),
        ("SECRETARY", "hT5-kq9!Lw2z", false),
        ("MAX_TOKENS", "4096", false),
        ("GREETING", "hT5-kq9!Lw2z", false),
    ] {
        assert_eq!(find_named_secret(name, value).is_some(), is_one, "{name}={value}");
    }
}

#[test]
fn it_is_told_where_it_is_written_and_never_shown() {
    let secret = format!("ghp_{}", random(36));
    let section = |more: &str| {
        format!(
            "{WEB}    env:\n    - name: A\n      value: {secret}{more}\n    args: [\"--key={secret}\"]\n"
        )
    };
    let violations = planned(&section(""));
    assert_eq!(violations.len(), 1, "one secret is one violation: {violations:?}");
    let violation = &violations[0];
    let place = violation.position.as_ref().unwrap();
    assert_eq!((violation.path.as_str(), place.line), ("env[0].value", 11), "{violation}");
    assert!(violation.message.starts_with("a GitHub token would stand in plain text in Deployment `a` at `spec.template.spec.containers[0].args[0]`"));
    assert!(!serde_json::to_string(violation).unwrap().contains(&secret));
    let plain = format!("{WEB}    env:\n    - {{name: A, value: {secret}, plain: true}}\n");
    assert_eq!(planned(&plain), []);
}

/// An argument is known by its flag as a variable is by its name.
#[test]
fn a_password_is_told_by_its_flag() {
    for (line, path) in [
        ("args: [\"--password=hunter2\"]", "args[0]"),
        ("args: [--db-password, hunter2]", "args[1]"),
        ("command: [mysql, -phunter2]", "command[1]"),
        ("command: [sh, -c, \"PGPASSWORD=hunter2 psql\"]", "command[2]"),
    ] {
        let violations = planned(&format!("{WEB}    {line}\n"));
        assert_eq!(violations.len(), 1, "{line}: {violations:?}");
        let violation = &violations[0];
        assert_eq!((violation.rule.as_ref(), violation.path.as_str()), ("plaintext", path));
        assert!(!serde_json::to_string(violation).unwrap().contains("hunter2"), "{violation}");
        let help = violation.help.as_deref().unwrap();
        assert!(help.contains("`$(NAME)`") && help.contains("plain: true"), "{help}");
    }
    for line in [
        "env: [{name: WORD, value: hunter2, plain: true}]\n    args: [\"--password=hunter2\"]",
        "env: [{name: WORD, secret: {name: db, key: word}}]\n    args: [\"--password=$(WORD)\"]",
        "args: [--author=hunter2, --password-file, /run/x, --token-ttl, 60, --password]",
        "command: [mysql, -p, -u, me]",
    ] {
        let violations = planned(&format!("{WEB}    {line}\n"));
        let plaintext_violations: Vec<_> =
            violations.iter().filter(|violation| violation.rule == "plaintext").collect();
        assert!(plaintext_violations.is_empty(), "{line}: {plaintext_violations:?}");
    }
}

/// Words are passwords too.
#[test]
fn a_password_is_told_by_its_variables_name() {
    let env = |more: &str| format!("{WEB}    env: [{{name: DB_PASSWORD, value: hunter2{more}}}]\n");
    let violations = planned(&env(""));
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(violations[0].help.as_deref().unwrap().contains("`plain: true`"), "{violations:?}");
    assert!(!serde_json::to_string(&violations).unwrap().contains("hunter2"));
    assert_eq!(planned(&env(", plain: true")), []);
    let other = "}, {name: MODE, value: hunter2, plain: true";
    assert_eq!(planned(&env(other)).len(), 1, "what another variable says of the same text");
}
