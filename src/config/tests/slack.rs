//! People on Slack.

use secrecy::ExposeSecret;

use super::{SECRETS, lines, loaded, refused, sources};
use crate::notify::message::UserId;
use crate::notify::slack::people::Someone;
use crate::notify::slack::{Door, SLACK_API};

/// With secrets of Slack's form.
fn slack(text: &str) -> super::Loaded {
    let secrets =
        [("BOT", "xoxb-1-2-s3cret"), ("WEBHOOK", "https://hooks.slack.com/services/T0/B0/s3cret")];
    let text = format!("notify:\n  slack:\n    {text}\n");
    sources(Some(&text), &secrets).load().unwrap_or_else(|rejection| panic!("{rejection:#?}"))
}

#[test]
fn a_bot_is_given_by_its_token_and_writes_to_slack_itself() {
    let loaded = slack("{token: {env: BOT}, default_channel: \"#deploys\"}");
    assert_eq!(loaded.warnings, []);
    let slack = loaded.settings.slack.unwrap();
    let Door::Bot { api_url, token } = &slack.door else { panic!("{slack:?}") };
    assert_eq!((api_url.as_str(), token.expose_secret()), (SLACK_API, "xoxb-1-2-s3cret"));
    assert_eq!(slack.default_channel.as_ref().unwrap().as_str(), "deploys");
    assert!(slack.direct_messages && slack.people.people.is_empty());
    assert!(!format!("{slack:?}").contains("s3cret"), "a secret does not print");
}

#[test]
fn people_are_known_by_login_in_any_case() {
    let loaded = slack(
        "{token: {env: BOT}, default_channel: C0123456789, direct_messages: false,\
         email: \"{login}@example.com\", people: {Octocat: U0123456, jane: jane@example.com, \"bot[bot]\": W1234567}}",
    );
    let slack = loaded.settings.slack.unwrap();
    let people = slack.people.people;
    assert_eq!(people["octocat"], Someone::User(UserId::parse("U0123456").unwrap()));
    assert_eq!(people["jane"], Someone::Email("jane@example.com".to_owned()));
    assert_eq!(people["bot[bot]"], Someone::User(UserId::parse("W1234567").unwrap()));
    assert_eq!(slack.people.email.as_deref(), Some("{login}@example.com"));
    assert!(!slack.direct_messages);
}

#[test]
fn a_webhooks_address_is_its_secret() {
    let slack = slack("{webhook: {env: WEBHOOK}}").settings.slack.unwrap();
    assert!(matches!(slack.door, Door::Hook(_)));
    assert!(!format!("{slack:?}").contains("s3cret"), "a secret does not print");
}

#[test]
fn what_cannot_be_meant_is_told_at_its_place() {
    for (text, expected) in [
        ("{}", "2:3: neither of `token` and `webhook` are given"),
        (
            "{token: {env: TOKEN}, webhook: {env: HOOK}}",
            "2:3: both `token` and `webhook` are given",
        ),
        ("{token: {env: TOKEN}, default_channel: \"@octocat\"}", "3:44: this is not a channel"),
        (
            "{token: {env: TOKEN}, api_url: 'http://slack.example.com'}",
            "3:36: the bot's token would go over the network in the clear",
        ),
        (
            "{token: {env: TOKEN}, api_url: 'https://a:b@slack.example.com'}",
            "3:36: an address with a name or a password in it",
        ),
        (
            "{token: {env: TOKEN}, people: {jane: Jane Doe}}",
            "3:42: `jane` is given neither a user id nor an e-mail address",
        ),
        (
            "{token: {env: TOKEN}, people: {jane: U0123456, JANE: U0123457}}",
            "`jane` is there twice",
        ),
        (
            "{token: {env: TOKEN}, email: example.com}",
            "3:34: this makes no e-mail addresses of logins",
        ),
        ("{webhook: {env: HOOK}}", "the secret is not an https address"),
        ("{token: xoxb-1-2-3}", "`notify.slack.token` holds a secret itself"),
        (
            "{webhook: 'https://hooks.slack.com/services/T0/B0/x'}",
            "`notify.slack.webhook` holds a secret itself",
        ),
        ("{tokn: {env: TOKEN}}", "did you mean `token`?"),
    ] {
        let text = refused(&format!("notify:\n  slack:\n    {text}\n"));
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
        assert!(!text.contains("no help") && !text.contains("h00k"), "{text}");
    }
}

#[test]
fn what_is_doubtful_is_said_and_stops_nothing() {
    let warnings = |text: &str| lines(Err(super::Rejection { violations: slack(text).warnings }));
    assert!(
        warnings("{token: {env: BOT}}").contains("nobody is told where a WAML names no channel")
    );
    let hook = warnings("{webhook: {env: WEBHOOK}, default_channel: \"#a\", people: {a: a@b.c}}");
    assert!(
        hook.contains("has one channel of its own") && hook.contains("cannot look for people"),
        "{hook}"
    );
    let other =
        sources(Some("notify: {slack: {token: {env: TOKEN}, default_channel: a}}"), &SECRETS);
    let warnings = lines(Err(super::Rejection { violations: other.load().unwrap().warnings }));
    assert!(
        warnings.contains("does not look like a bot's token") && !warnings.contains("t0ken"),
        "{warnings}"
    );
}

#[test]
fn without_a_part_for_it_nobody_is_told_on_slack() {
    assert!(loaded("{}").settings.slack.is_none());
}

#[test]
fn slacks_secrets_are_starred_wherever_they_stand() {
    let text = "notify:\n  slack:\n    webhok: https://hooks.slack.com/services/T0/B0/x1\n    webhook: abc1\n    default_channel: xoxb-x1\n";
    let shown = crate::config::mask::masked("f", text);
    assert!(!shown.contains("x1") && !shown.contains("abc1"), "{shown}");
}
