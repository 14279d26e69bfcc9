//! Who may call.

use super::{loaded, refused};
use crate::config::file::auth::Scope;

const GITHUB: &str =
    "forge:\n  github: {token: {env: TOKEN}, webhook_secret: {env: HOOK}, organizations: [acme]}\n";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

#[test]
fn a_token_says_what_it_is_good_for_and_one_that_says_nothing_for_everything() {
    let text = format!(
        "auth:\n  tokens:\n  - {{name: old, env: TOKEN}}\n  \
         - {{name: ci, sha256: {HASH}, scope: deploy, targets: ['dev-*'], apps: ['devx/*']}}\n"
    );
    let tokens = loaded(&text).settings.tokens;
    assert_eq!(
        (tokens[0].scope, &tokens[0].targets, &tokens[0].apps),
        (Scope::Admin, &None, &None)
    );
    let [targets, apps] =
        [["dev-*"], ["devx/*"]].map(|globs| Some(globs.map(str::to_owned).into()));
    assert_eq!((tokens[1].scope, &tokens[1].targets), (Scope::Deploy, &targets));
    assert_eq!(tokens[1].apps, apps);
}

#[test]
fn people_come_by_github_with_whose_they_are() {
    let people = loaded(&format!("{GITHUB}auth: {{github: {{}}}}\n")).settings.people.unwrap();
    assert!(people.admins.is_empty() && people.readers.is_empty());
    let text = format!(
        "{GITHUB}server: {{listen: '0.0.0.0:80'}}\n\
         auth: {{github: {{admins: [acme/platform], readers: [acme/dev]}}}}\n"
    );
    let people = loaded(&text).settings.people.unwrap();
    assert_eq!(people.admins[0].as_str(), "acme/platform");
    assert_eq!((people.readers[0].organization(), people.readers[0].slug()), ("acme", "dev"));
    assert_eq!(loaded(GITHUB).settings.people, None);
}

#[test]
fn proxies_and_teams_and_the_pace_are_read() {
    let text = format!(
        "{GITHUB}server: {{trusted_proxies: [10.0.0.0/8, '::1']}}\nlimits: {{requests_per_minute: 7}}\n\
         clusters:\n- {{name: prod, environment: production, domain: a.b, policies: {{deploy_teams: [acme/sre]}}}}\n"
    );
    let settings = loaded(&text).settings;
    let proxies = settings.server.trusted_proxies;
    assert_eq!(proxies.iter().map(|one| one.bits).collect::<Vec<_>>(), [8, 128]);
    assert_eq!(settings.limits.requests_per_minute, 7);
    assert_eq!(loaded("").settings.limits.requests_per_minute, 1200);
}

#[test]
fn what_cannot_be_meant_is_told_at_its_place() {
    let lines = refused(
        "server: {trusted_proxies: [10.0.0.0/33, proxy]}\n\
         auth:\n  github: {admins: [platform]}\n  tokens:\n  \
         - {name: a, env: TOKEN, targets: [], apps: ['[']}\n  \
         - {name: b, env: TOKEN, scope: write}\n\
         clusters:\n- {name: prod, environment: production, domain: a.b, policies: {deploy_teams: [x]}}\n",
    );
    for expected in [
        "config.yaml:1:28: this is neither an address nor a network",
        "config.yaml:1:41: this is neither an address nor a network",
        "config.yaml:5:27: with nothing in it, the token is good for nothing",
        "config.yaml:5:47: this glob cannot be read",
        "`auth.tokens[1].scope` must be one of",
        "config.yaml:8:80: \"x\" is not a legal team",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    let lines = refused("auth: {github: {admins: [platform]}}\n");
    for expected in [
        "config.yaml:1:8: nobody can be asked who they are: `forge.github` is not set",
        "config.yaml:1:26: \"platform\" is not a legal team",
    ] {
        assert!(lines.contains(expected), "{expected} in\n{lines}");
    }
    let all = GITHUB.replace(", organizations: [acme]", "");
    let lines = refused(&format!("{all}auth: {{github: {{}}}}\n"));
    assert!(lines.contains("everybody at GitHub could come"), "{lines}");
}
