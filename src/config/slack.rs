//! Slack messages.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::notify::message::UserId;
use crate::notify::slack::address::Channel;
use crate::notify::slack::people::PersonName;
use crate::notify::slack::{SLACK_API, SlackTransport, people};
use crate::support::host::is_encrypted_or_local;

const LOGIN: &str = "{login}";

/// Slack: exactly one of `token` and `webhook`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Slack {
    /// The token of a bot (`xoxb-…`), which writes to each team's channel and to people.
    token: Option<Secret>,
    /// The address of an incoming webhook, which is a secret: everything goes into its one channel.
    webhook: Option<Secret>,
    /// The channel for messages whose WAML names no channel, or one that refuses them: `#deploys`.
    #[schemars(extend("format" = "line"))]
    default_channel: Option<String>,
    /// The API's address. Default: Slack's own.
    #[schemars(extend("format" = "url"))]
    api_url: Option<String>,
    /// The Slack users by their login at the code host: a user id (`U0123456789`) or an e-mail address.
    people: Option<BTreeMap<String, String>>,
    /// The pattern by which logins become e-mail addresses: `{login}@example.com`. The service also looks for people by
    /// the public address of their profile.
    #[schemars(extend("format" = "line"))]
    email: Option<String>,
    /// Send a direct message to the actor of a failed deployment. Default: yes.
    direct_messages: Option<bool>,
    /// The signing secret of the Slack app: with it messages have buttons that act, and Slack's requests are accepted.
    /// Default: no buttons.
    signing_secret: Option<Secret>,
}

/// The settings of Slack.
#[derive(Debug, Clone)]
pub struct SlackSettings {
    /// The way to Slack: by a bot's token or a webhook.
    pub door: SlackTransport,
    /// The channel for messages that have no channel, or whose channel refuses them.
    pub default_channel: Option<Channel>,
    /// The users by login.
    pub people: people::PeopleSettings,
    /// True to send direct messages to actors.
    pub direct_messages: bool,
    /// The secret by which Slack signs what people press; `None` where no button acts.
    pub signing_secret: Option<SecretString>,
}

impl Resolver<'_> {
    pub(super) fn slack(&mut self, slack: Slack) -> Option<SlackSettings> {
        let Slack {
            token,
            webhook,
            default_channel,
            api_url,
            people,
            email,
            direct_messages,
            signing_secret,
        } = slack;
        let default_channel = self.default_channel(default_channel, token.is_some());
        let people = self.people(people.unwrap_or_default(), token.is_some());
        let email = self.email_form(email);
        let signing_secret = match signing_secret {
            Some(secret) => {
                self.refuse_shared_users(&people);
                Some(self.secret("notify.slack.signing_secret", secret, ONE_OF)?)
            }
            None => None,
        };
        let api_url = self.slack_api(api_url, webhook.is_some());
        let door = match (token, webhook) {
            (Some(token), None) => {
                let token = self.secret("notify.slack.token", token, ONE_OF)?;
                self.warn_unless_bot_token(&token);
                SlackTransport::Bot { api_url, token }
            }
            (None, Some(webhook)) => {
                let url = self.secret("notify.slack.webhook", webhook, ONE_OF)?;
                self.check_webhook_url(&url);
                SlackTransport::Hook(url)
            }
            (token, _) => {
                let quantifier = if token.is_some() { "both" } else { "neither of" };
                let message = format!("{quantifier} `token` and `webhook` are given");
                self.report.error("notify.slack", message, "give one of them: docs/slack.md");
                return None;
            }
        };
        let people = people::PeopleSettings { people, email };
        let direct_messages = direct_messages.unwrap_or(true);
        Some(SlackSettings { door, default_channel, people, direct_messages, signing_secret })
    }

    fn default_channel(&mut self, channel: Option<String>, bot: bool) -> Option<Channel> {
        let path = "notify.slack.default_channel";
        match (channel, bot) {
            (None, true) => {
                let message = "without `default_channel` no message is posted where a WAML names \
                               no channel, or one that refuses messages";
                self.report.warning("notify.slack", message, "write it like \"#deploys\"");
                None
            }
            (None, false) => None,
            (Some(_), false) => {
                let message = "an incoming webhook has one channel of its own";
                self.report.warning(path, message, "remove it, or use a bot's token");
                None
            }
            (Some(text), true) => {
                let channel = Channel::parse(&text);
                if channel.is_none() {
                    let help = "write it like \"#deploys\" or C0123456789";
                    self.report.error(path, "this is not a channel", help);
                }
                channel
            }
        }
    }

    fn slack_api(&mut self, url: Option<String>, hook: bool) -> String {
        let path = "notify.slack.api_url";
        let Some(url) = url else { return SLACK_API.to_owned() };
        self.without_credentials(path, &url);
        if hook {
            let message = "an incoming webhook is an address of its own";
            self.report.warning(path, message, "remove it");
        } else if !is_encrypted_or_local(&url) {
            let message = "the bot's token would go over the network in the clear";
            let help = "give an https address; http is for 127.0.0.1 only";
            self.report.error(path, message, help);
        }
        url.trim_end_matches('/').to_owned()
    }

    /// Warns of a token that is not a bot's: Slack shows others beside it, which are easily mistaken for it.
    fn warn_unless_bot_token(&mut self, token: &SecretString) {
        let token = token.expose_secret();
        if !token.starts_with("xoxb-") && !token.starts_with("xoxe.xoxb-") {
            let message = "this does not look like a bot's token: those begin with xoxb-";
            let help = "take the Bot User OAuth Token from the app's page, OAuth & Permissions";
            self.report.warning("notify.slack.token", message, help);
        }
    }

    fn check_webhook_url(&mut self, url: &SecretString) {
        if !is_encrypted_or_local(url.expose_secret()) {
            let message = "the secret is not an https address";
            let help = "take the address from the app's page, Incoming Webhooks";
            self.report.error("notify.slack.webhook", message, help);
        }
    }

    fn people(
        &mut self,
        people: BTreeMap<String, String>,
        bot: bool,
    ) -> BTreeMap<String, PersonName> {
        let mut by_login = BTreeMap::new();
        for (login, text) in people {
            let path = format!("notify.slack.people.{login}");
            // A login with brackets is no path; then the place is the whole map.
            let path = if login.contains(['[', '.']) { "notify.slack.people" } else { &path };
            let Some(someone) = parse_person(&text) else {
                let message = format!("`{login}` is given neither a user id nor an e-mail address");
                self.report.error(path, message, "write U0123456789 or jane@example.com");
                continue;
            };
            if !bot && matches!(someone, PersonName::Email(_)) {
                let message = "an incoming webhook cannot find people by their e-mail address";
                self.report.warning(path, message, "write their user id: U0123456789");
            }
            if by_login.insert(login.to_lowercase(), someone).is_some() {
                let message = format!("`{login}` is there twice: logins have no case");
                self.report.error(path, message, "remove one of them");
            }
        }
        by_login
    }

    /// Warns of buttons that act for nobody.
    pub(super) fn warn_of_idle_buttons(
        &mut self,
        slack: Option<&SlackSettings>,
        with_people: bool,
    ) {
        let path = "notify.slack.signing_secret";
        let Some(slack) = slack.filter(|slack| slack.signing_secret.is_some()) else { return };
        let mut people = slack.people.people.values();
        if !with_people && !self.report.is_broken("auth") {
            let message = "buttons act for nobody: `auth.github` is not set";
            let help = "set `auth.github`: people act with the rights of their GitHub account";
            self.report.warning(path, message, help);
        } else if !people.any(|person| matches!(person, PersonName::User(_))) {
            let message = "buttons act for nobody: `people` has no user id";
            let help =
                "add `LOGIN: U0123456789` to `notify.slack.people` for each person who may act";
            self.report.warning(path, message, help);
        }
    }

    /// Refuses two logins of one Slack user, who acts with the rights of one of them.
    fn refuse_shared_users(&mut self, people: &BTreeMap<String, PersonName>) {
        let mut logins: BTreeMap<&str, &str> = BTreeMap::new();
        for (login, person) in people {
            let PersonName::User(user) = person else { continue };
            if let Some(other) = logins.insert(user.as_str(), login) {
                let message = format!(
                    "{} is `{other}` and `{login}`: whose rights are theirs?",
                    user.as_str()
                );
                let help = "with a `signing_secret`, give each Slack user one login";
                self.report.error("notify.slack.people", message, help);
            }
        }
    }

    fn email_form(&mut self, form: Option<String>) -> Option<String> {
        let form = form?;
        let (name, host) = form.split_once('@').unwrap_or_default();
        if !form.contains(LOGIN) || name.is_empty() || host.is_empty() {
            let message = "this pattern makes no e-mail address from a login";
            let help = "write it like \"{login}@example.com\"";
            self.report.error("notify.slack.email", message, help);
        }
        Some(form)
    }
}

fn parse_person(text: &str) -> Option<PersonName> {
    if let Some(user) = UserId::parse(text) {
        return Some(PersonName::User(user));
    }
    let (name, host) = text.split_once('@')?;
    let legal = !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace);
    legal.then(|| PersonName::Email(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::redact::mask_secrets;
    use crate::config::tests::{SECRETS, lines, loaded, refused, sources};

    /// With secrets of Slack's form.
    fn slack(text: &str) -> crate::config::LoadedConfig {
        let secrets = [
            ("BOT", "xoxb-1-2-s3cret"),
            ("WEBHOOK", "https://hooks.slack.com/services/T0/B0/s3cret"),
        ];
        let text = format!("notify:\n  slack:\n    {text}\n");
        sources(Some(&text), &secrets).load().unwrap_or_else(|rejection| panic!("{rejection:#?}"))
    }

    #[test]
    fn a_bot_is_given_by_its_token_and_writes_to_slack_itself() {
        let loaded = slack("{token: {env: BOT}, default_channel: \"#deploys\"}");
        assert_eq!(loaded.warnings, []);
        let slack = loaded.settings.slack.unwrap();
        let SlackTransport::Bot { api_url, token } = &slack.door else { panic!("{slack:?}") };
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
        assert_eq!(people["octocat"], PersonName::User(UserId::parse("U0123456").unwrap()));
        assert_eq!(people["jane"], PersonName::Email("jane@example.com".to_owned()));
        assert_eq!(people["bot[bot]"], PersonName::User(UserId::parse("W1234567").unwrap()));
        assert_eq!(slack.people.email.as_deref(), Some("{login}@example.com"));
        assert!(!slack.direct_messages);
    }

    #[test]
    fn a_webhooks_address_is_its_secret() {
        let slack = slack("{webhook: {env: WEBHOOK}}").settings.slack.unwrap();
        assert!(matches!(slack.door, SlackTransport::Hook(_)));
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
                "3:36: the address has a user name or a password in it",
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
                "3:34: this pattern makes no e-mail address from a login",
            ),
            ("{webhook: {env: HOOK}}", "the secret is not an https address"),
            (
                "{token: {env: TOKEN}, signing_secret: {env: HOOK}, people: {a: U0123456, b: U0123456}}",
                "U0123456 is `a` and `b`: whose rights are theirs?",
            ),
            (
                "{token: {env: TOKEN}, signing_secret: 8f742231b10e8888abcd99yyyzzz85a5}",
                "`notify.slack.signing_secret` holds a secret itself",
            ),
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
        let warnings =
            |text: &str| lines(Err(crate::config::Rejection { violations: slack(text).warnings }));
        assert!(
            warnings("{token: {env: BOT}}")
                .contains("no message is posted where a WAML names no channel")
        );
        let hook =
            warnings("{webhook: {env: WEBHOOK}, default_channel: \"#a\", people: {a: a@b.c}}");
        assert!(
            hook.contains("has one channel of its own") && hook.contains("cannot find people"),
            "{hook}"
        );
        let other =
            sources(Some("notify: {slack: {token: {env: TOKEN}, default_channel: a}}"), &SECRETS);
        let warnings =
            lines(Err(crate::config::Rejection { violations: other.load().unwrap().warnings }));
        assert!(
            warnings.contains("does not look like a bot's token") && !warnings.contains("t0ken"),
            "{warnings}"
        );
    }

    #[test]
    fn buttons_that_act_for_nobody_are_a_warning() {
        let github = "forge: {github: {token: {env: TOKEN}, webhook_secret: {env: HOOK}, organizations: [acme]}}\n";
        let warnings = |auth: &str, people: &str| {
            let text = format!(
                "{github}{auth}notify: {{slack: {{token: {{env: BOT}}, default_channel: C0123456789, \
                 signing_secret: {{env: TOKEN}}{people}}}}}\n"
            );
            let violations = sources(Some(&text), &SECRETS).load().unwrap().warnings;
            lines(Err(crate::config::Rejection { violations }))
        };
        let (auth, person) = ("auth: {github: {}}\n", ", people: {octocat: U0123456}");
        assert!(warnings("", person).contains("`auth.github` is not set"));
        for people in ["", ", people: {octocat: octocat@example.com}"] {
            assert!(warnings(auth, people).contains("`people` has no user id"), "{people}");
        }
        assert!(!warnings(auth, person).contains("buttons act for nobody"));
    }

    #[test]
    fn without_a_part_for_it_nobody_is_told_on_slack() {
        assert!(loaded("{}").settings.slack.is_none());
    }

    #[test]
    fn slacks_secrets_are_starred_wherever_they_stand() {
        let text = "notify:\n  slack:\n    webhok: https://hooks.slack.com/services/T0/B0/x1\n    webhook: abc1\n    default_channel: xoxb-x1\n";
        let output = mask_secrets("f", text);
        assert!(!output.contains("x1") && !output.contains("abc1"), "{output}");
    }
}
