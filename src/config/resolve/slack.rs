//! People on Slack.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use crate::config::file::slack as file;
use crate::config::resolve::Resolver;
use crate::config::resolve::webhooks::is_safe;
use crate::config::settings::slack::Slack;
use crate::notify::message::UserId;
use crate::notify::slack::address::Channel;
use crate::notify::slack::people::{self, Someone};
use crate::notify::slack::{Door, SLACK_API};

const ONE_OF: &str = "give exactly one of `file` and `env`";
const LOGIN: &str = "{login}";

impl Resolver<'_> {
    pub(super) fn slack(&mut self, slack: file::Slack) -> Option<Slack> {
        let file::Slack {
            token,
            webhook,
            default_channel,
            api_url,
            people,
            email,
            direct_messages,
        } = slack;
        let default_channel = self.default_channel(default_channel, token.is_some());
        let people = self.people(people.unwrap_or_default(), token.is_some());
        let email = self.email_form(email);
        let api_url = self.slack_api(api_url, webhook.is_some());
        let door = match (token, webhook) {
            (Some(token), None) => {
                let token = self.secret("notify.slack.token", token, ONE_OF)?;
                self.is_a_bots(&token);
                Door::Bot { api_url, token }
            }
            (None, Some(webhook)) => {
                let url = self.secret("notify.slack.webhook", webhook, ONE_OF)?;
                self.is_a_webhooks(&url);
                Door::Hook(url)
            }
            (both, _) => {
                let what = if both.is_some() { "both" } else { "neither of" };
                let message = format!("{what} `token` and `webhook` are given");
                self.report.wrong("notify.slack", message, "give one of them: docs/slack.md");
                return None;
            }
        };
        let people = people::Settings { people, email };
        let direct_messages = direct_messages.unwrap_or(true);
        Some(Slack { door, default_channel, people, direct_messages })
    }

    fn default_channel(&mut self, channel: Option<String>, bot: bool) -> Option<Channel> {
        let path = "notify.slack.default_channel";
        match (channel, bot) {
            (None, true) => {
                let message = "without `default_channel` nobody is told where a WAML names no channel, or one that does not take messages";
                self.report.doubtful("notify.slack", message, "write it like \"#deploys\"");
                None
            }
            (None, false) => None,
            (Some(_), false) => {
                let message = "an incoming webhook has one channel of its own";
                self.report.doubtful(path, message, "take this out, or use a bot's token");
                None
            }
            (Some(text), true) => {
                let channel = Channel::parse(&text);
                if channel.is_none() {
                    let help = "write it like \"#deploys\" or C0123456789";
                    self.report.wrong(path, "this is not a channel", help);
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
            self.report.doubtful(path, message, "take this out");
        } else if !is_safe(&url) {
            let message = "the bot's token would go over the network in the clear";
            let help = "give an https address; http is for 127.0.0.1 only";
            self.report.wrong(path, message, help);
        }
        url.trim_end_matches('/').to_owned()
    }

    /// Others are shown beside it, and are easily mistaken for it.
    fn is_a_bots(&mut self, token: &SecretString) {
        let token = token.expose_secret();
        if !token.starts_with("xoxb-") && !token.starts_with("xoxe.xoxb-") {
            let message = "this does not look like a bot's token: those begin with xoxb-";
            let help = "take the Bot User OAuth Token from the app's page, OAuth & Permissions";
            self.report.doubtful("notify.slack.token", message, help);
        }
    }

    fn is_a_webhooks(&mut self, url: &SecretString) {
        if !is_safe(url.expose_secret()) {
            let message = "the secret is not an https address";
            let help = "take the address from the app's page, Incoming Webhooks";
            self.report.wrong("notify.slack.webhook", message, help);
        }
    }

    fn people(&mut self, people: BTreeMap<String, String>, bot: bool) -> BTreeMap<String, Someone> {
        let mut found = BTreeMap::new();
        for (login, text) in people {
            let path = format!("notify.slack.people.{login}");
            // A login with brackets is no path; then the whole map is shown.
            let path = if login.contains(['[', '.']) { "notify.slack.people" } else { &path };
            let Some(someone) = someone(&text) else {
                let message = format!("`{login}` is given neither a user id nor an e-mail address");
                self.report.wrong(path, message, "write U0123456789 or jane@example.com");
                continue;
            };
            if !bot && matches!(someone, Someone::Email(_)) {
                let message = "an incoming webhook cannot look for people by their address";
                self.report.doubtful(path, message, "write their user id: U0123456789");
            }
            if found.insert(login.to_lowercase(), someone).is_some() {
                let message = format!("`{login}` is there twice: logins have no case");
                self.report.wrong(path, message, "remove one of them");
            }
        }
        found
    }

    fn email_form(&mut self, form: Option<String>) -> Option<String> {
        let form = form?;
        let (name, host) = form.split_once('@').unwrap_or_default();
        if !form.contains(LOGIN) || name.is_empty() || host.is_empty() {
            let message = "this makes no e-mail addresses of logins";
            let help = "write it like \"{login}@example.com\"";
            self.report.wrong("notify.slack.email", message, help);
        }
        Some(form)
    }
}

fn someone(text: &str) -> Option<Someone> {
    if let Some(user) = UserId::parse(text) {
        return Some(Someone::User(user));
    }
    let (name, host) = text.split_once('@')?;
    let legal = !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace);
    legal.then(|| Someone::Email(text.to_owned()))
}
