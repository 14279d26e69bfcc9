//! Who we are to GitHub, and how everything outside is reached.

use super::*;
use crate::forge::github::webhook::rules::PreviewRules;

const APP: &str = include_str!("../../forge/github/auth/tests/app.pem");
const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/tls/ca.pem");

fn with_key(text: &str, key: &str) -> Result<Loaded, Rejection> {
    sources(Some(text), &[("KEY", key), ("HOOK", "h00k-text"), ("TOKEN", "t0ken-text")]).load()
}

fn github(app: &str) -> String {
    format!("forge:\n  github:\n    webhook_secret: {{env: HOOK}}\n    app: {app}\n")
}

#[test]
fn an_app_is_a_number_or_a_client_id_and_a_key() {
    for (written, id) in [("123456", "123456"), ("Iv23liAbCd", "Iv23liAbCd"), ("'7'", "7")] {
        let text = github(&format!("{{id: {written}, private_key: {{env: KEY}}}}"));
        let Forge::GitHub { credentials, .. } = with_key(&text, APP).unwrap().settings.forge else {
            panic!("GitHub")
        };
        let Credentials::App(key) = credentials else { panic!("App") };
        assert_eq!(key.id(), id);
        assert!(!format!("{key:?}").contains("MII"));
    }
}

#[test]
fn a_key_that_is_none_of_an_apps_is_told_at_its_place_and_not_shown() {
    let app = "{id: 1, private_key: {env: KEY}}";
    let public = include_str!("../../forge/github/auth/tests/app.pub.pem");
    let half: String = APP.lines().take(9).map(|line| format!("{line}\n")).collect();
    for (key, expected) in [
        ("t0p-s3cret", "config.yaml:4:37: this is no private key"),
        (public, "config.yaml:4:37: this is the half of a key that everybody may know"),
        (half.as_str(), "config.yaml:4:37: this key is damaged, or not whole"),
    ] {
        let lines = lines(with_key(&github(app), key).map(|loaded| loaded.settings));
        assert!(lines.contains(expected), "{expected} in\n{lines}");
        assert!(!lines.contains("t0p-s3cret") && !lines.contains("MII"), "{lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
    let text = github("{id: 'https://github.com/apps/x', private_key: {env: KEY}}");
    let lines = lines(with_key(&text, APP).map(|loaded| loaded.settings));
    assert!(lines.contains("config.yaml:4:15: this is not an App's id"), "{lines}");
}

#[test]
fn there_is_a_token_or_an_app_and_not_both() {
    let said = refused("forge: {github: {webhook_secret: {env: HOOK}}}");
    assert!(said.contains("config.yaml:1:9: there is nothing to come to GitHub with"), "{said}");
    let both = github("{id: 1, private_key: {env: KEY}}\n    token: {env: TOKEN}");
    let said = lines(with_key(&both, APP).map(|loaded| loaded.settings));
    assert!(said.contains("config.yaml:4:5: `token` and `app` are both given"), "{said}");
    let said = refused(&github("{private_key: {env: KEY}}"));
    assert!(said.contains("`id` is missing from `forge.github.app`"), "{said}");
}

#[test]
fn a_key_in_the_file_itself_is_refused_and_starred() {
    let text = github("{id: 1, private_key: MIIabc}");
    let said = refused(&text);
    assert!(said.contains("`forge.github.app.private_key` holds a secret itself"), "{said}");
    let shown = format!("{said}{:?}", sources(Some(&text), &SECRETS).texts());
    assert!(!shown.contains("MIIabc"), "{shown}");
}

#[test]
fn an_authority_of_ones_own_is_read_and_a_damaged_one_is_not() {
    let text = format!("outbound: {{ca: '{CA}'}}");
    assert_eq!(loaded(&text).settings.outbound.authorities.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let whole = std::fs::read_to_string(CA).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let cut = [&lines[..3], &lines[lines.len() - 1..]].concat().join("\n");
    for (content, expected) in
        [(cut.as_str(), "holds a certificate that cannot be read"), ("x", "holds no certificate")]
    {
        std::fs::write(&file, content).unwrap();
        let said = refused(&format!("outbound:\n  ca: '{}'\n", file.display()));
        assert!(said.contains("config.yaml:2:7: ") && said.contains(expected), "{said}");
    }
    let said = refused("outbound: {ca: /none}");
    assert!(said.contains("/none cannot be read"), "{said}");
}

#[test]
fn a_proxy_that_cannot_be_one_is_told_at_its_place() {
    let said = refused("outbound: {proxy: 'http://me:pw@proxy:3128', proxy_username: me}");
    assert!(said.contains("config.yaml:1:19: an address with a name or a password"), "{said}");
    assert!(said.contains("config.yaml:1:1: a login is a name and a password"), "{said}");
    let said = refused("outbound: {proxy: 'socks5://proxy:1080'}");
    assert!(
        said.contains("config.yaml:1:19: `outbound.proxy` must be an http or https address"),
        "{said}"
    );
    let said = refused("outbound:\n  no_proxy: [a]\n");
    assert!(said.contains("config.yaml:2:3: `no_proxy` is of no use without `proxy`"), "{said}");
    let said = refused("outbound: {proxy: 'http://p:1', proxy_username: a, proxy_password: pw}");
    assert!(said.contains("`outbound.proxy_password` holds a secret itself"), "{said}");
}

#[test]
fn an_app_previews_pull_requests_unless_it_is_told_not_to() {
    let previews = |more: &str| {
        let text = github(&format!("{{id: 1, private_key: {{env: KEY}}}}{more}"));
        with_key(&text, APP).unwrap().settings.webhook.rules.previews
    };
    let set = |forks, always| Some(PreviewRules { forks, always });
    assert_eq!(previews(""), set(false, false));
    assert_eq!(previews("\n    previews: {forks: true}"), set(true, false));
    assert_eq!(previews("\n    previews: {always: true}"), set(false, true));
    assert_eq!(previews("\n    previews: {enabled: false, always: true}"), None);
}

#[test]
fn a_token_previews_nothing_and_says_so_where_it_should() {
    let text = "forge:\n  github:\n    token: {env: TOKEN}\n    webhook_secret: {env: HOOK}\n";
    assert_eq!(loaded(text).settings.webhook.rules.previews, None);
    let said = refused(&format!("{text}    previews: {{enabled: true}}\n"));
    assert!(
        said.contains("config.yaml:5:25: previews are check runs, and only GitHub Apps"),
        "{said}"
    );
}

#[test]
fn people_log_in_with_the_client_id_of_an_app() {
    let text = |id: &str| {
        github("{id: 1, private_key: {env: KEY}}") + &format!("    login: {{client_id: '{id}'}}\n")
    };
    let Forge::GitHub { login, .. } = with_key(&text(" Iv23liAbCd "), APP).unwrap().settings.forge
    else {
        panic!("GitHub")
    };
    assert_eq!(login.as_deref(), Some("Iv23liAbCd"));
    for wrong in ["https://github.com/apps/x", "a b"] {
        let said = lines(with_key(&text(wrong), APP).map(|loaded| loaded.settings));
        assert!(said.contains("this is no client id"), "{wrong}: {said}");
    }
}
