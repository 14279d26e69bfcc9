//! As whom repositories are reached.

use super::*;
use crate::config::settings::{Credential, GitAccess};

const KEY: &str = include_str!("../../forge/github/auth/tests/app.pem");

fn with(forge: &str, repository: &str) -> Result<Settings, Rejection> {
    let text = format!(
        "forge: {{github: {{{forge}, webhook_secret: {{env: HOOK}}}}}}\n\
         manifests: {{repositories: [{{name: m, {repository}}}]}}\n"
    );
    let secrets = [SECRETS[0], SECRETS[1], ("KEY", KEY)];
    sources(Some(&text), &secrets).load().map(|loaded| loaded.settings)
}

const APP: &str = "app: {id: '12', private_key: {env: KEY}}";

fn access(forge: &str, repository: &str) -> GitAccess {
    let settings = with(forge, repository).unwrap_or_else(|rejection| panic!("{rejection:#?}"));
    settings.manifests[0].access.clone()
}

fn is_app(access: &GitAccess, name: &str) -> bool {
    matches!(access, GitAccess::App(repository) if repository.as_str() == name)
}

#[test]
fn an_app_is_used_on_its_own_host_unless_something_else_is_said() {
    let url = "url: 'https://github.com/acme/manifests.git'";
    assert!(is_app(&access(APP, url), "acme/manifests"));
    assert!(is_app(&access(APP, &format!("{url}, auth: app")), "acme/manifests"));
    assert!(matches!(access(APP, &format!("{url}, auth: none")), GitAccess::Anybody));
    let own = access(APP, &format!("{url}, token: {{env: TOKEN}}"));
    assert!(matches!(own, GitAccess::Token(Credential { file: None, .. })));
    // Elsewhere, and in the clear, it has no business.
    for url in ["https://gitlab.com/acme/m.git", "http://github.com/acme/m.git", "/srv/m.git"] {
        let found = access(APP, &format!("url: '{url}'"));
        assert!(matches!(found, GitAccess::Anybody), "{url}: {found:?}");
    }
    // A token for the API is not meant for repositories.
    assert!(matches!(access("token: {env: TOKEN}", url), GitAccess::Anybody));
    let server = format!("api_url: https://git.acme.com/api/v3, {APP}");
    assert!(is_app(&access(&server, "url: 'https://git.acme.com/a/m'"), "a/m"));
}

#[test]
fn templates_are_reached_in_the_same_way() {
    let text = format!(
        "forge: {{github: {{{APP}, webhook_secret: {{env: HOOK}}}}}}\n\
         templates: {{repository: {{url: 'https://github.com/acme/templates'}}}}\n"
    );
    let secrets = [SECRETS[1], ("KEY", KEY)];
    let settings = sources(Some(&text), &secrets).load().unwrap().settings;
    let Templates::Repository(one) = settings.templates else { panic!("repository") };
    assert!(is_app(&one.access, "acme/templates"));
}

#[test]
fn what_keeps_the_app_from_a_repository_is_told_where_it_was_asked_for() {
    let token = "token: {env: TOKEN}";
    for (forge, repository, words) in [
        (APP, "url: /srv/m.git, auth: app", "it is not on github.com"),
        (APP, "url: 'https://gitlab.com/a/m', auth: app", "it is not on github.com"),
        (APP, "url: 'http://github.com/a/m', auth: app", "it is not reached by https"),
        (APP, "url: 'https://github.com/m.git', auth: app", "does not end in OWNER/NAME"),
        (token, "url: 'https://github.com/a/m', auth: app", "`forge.github.app` is not set"),
        (
            APP,
            "url: 'https://github.com/a/m', auth: app, token: {env: TOKEN}",
            "`auth` and `token` are both given",
        ),
        (APP, "url: /srv/m.git, auth: ssh", "must be one of"),
    ] {
        let lines = lines(with(forge, repository));
        assert!(lines.contains(words), "{words} in\n{lines}");
        let before = "manifests: {repositories: [{name: m, ".len();
        let place = before + repository.find("auth: ").unwrap() + "auth: ".len() + 1;
        assert!(lines.starts_with(&format!("config.yaml:2:{place}: ")), "{lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
}

#[test]
fn a_forge_with_mistakes_of_its_own_brings_no_second_one() {
    let forge = "app: {id: '12', private_key: {env: NOWHERE}}";
    let lines = lines(with(forge, "url: 'https://github.com/a/m', auth: app"));
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains("NOWHERE"), "{lines}");
}
