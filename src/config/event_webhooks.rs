//! Webhooks: programs that receive events.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::model::announcement::Announcement;
use crate::notify::signature::SigningSecret;
use crate::support::host::is_encrypted_or_local;
use crate::support::secret_text::has_credentials;

/// The largest number of webhooks: the service polls the queue of each.
const MAX: usize = 20;

/// A program that receives a signed event for every change.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventWebhook {
    /// Its name in logs and on pages. Waiting messages are stored under this name.
    #[schemars(extend("format" = "slug"))]
    name: String,
    /// The address for events: https without credentials; http on this machine only.
    #[schemars(extend("format" = "url"))]
    url: String,
    /// The secret that signs events: `whsec_` and the base64 of 24 to 64 random bytes.
    secret: Secret,
    /// The events that it receives. Default: all.
    #[serde(default)]
    events: Option<Vec<Announcement>>,
}

/// A program that receives a signed event for every change.
#[derive(Debug, Clone)]
pub struct EventWebhookSettings {
    /// Its name, which is unique.
    pub name: String,
    /// The address for events.
    pub url: String,
    /// The secret that signs them.
    pub key: SigningSecret,
    /// The events that it receives; at least one.
    pub events: Vec<Announcement>,
}

impl Resolver<'_> {
    pub(super) fn event_webhooks(
        &mut self,
        webhooks: Vec<EventWebhook>,
    ) -> Vec<EventWebhookSettings> {
        if webhooks.len() > MAX {
            let message = format!("there are {} webhooks; there may be {MAX}", webhooks.len());
            let help = "send events to one program that passes them on";
            self.report.error("notify.webhooks", message, help);
        }
        let mut names = Vec::new();
        let settings = webhooks.into_iter().enumerate().filter_map(|(n, webhook)| {
            let path = format!("notify.webhooks[{n}]");
            if names.contains(&webhook.name) {
                let message = format!("there is a webhook called {} already", webhook.name);
                self.report.error(&format!("{path}.name"), message, "give it another name");
            }
            names.push(webhook.name.clone());
            self.event_webhook(&path, webhook)
        });
        settings.collect()
    }

    fn event_webhook(&mut self, path: &str, webhook: EventWebhook) -> Option<EventWebhookSettings> {
        let EventWebhook { name, url, secret, events } = webhook;
        let url_path = format!("{path}.url");
        if has_credentials(&url) {
            let message = "the address has a user name or a password in it, which logs would show";
            self.report.error(&url_path, message, "remove it: events are signed instead");
        }
        if !is_encrypted_or_local(&url) {
            let message = "events would go over the network in the clear";
            self.report.error(
                &url_path,
                message,
                "give an https address; http is for 127.0.0.1 only",
            );
        }
        let events = events.unwrap_or_else(|| Announcement::ALL.to_vec());
        if events.is_empty() && !self.report.is_broken("notify") {
            let help = "name the events that it is to get, or leave `events` out for all";
            self.report.error(&format!("{path}.events"), "it would get no event at all", help);
        }
        let secret_path = format!("{path}.secret");
        let secret = self.secret(&secret_path, secret, ONE_OF)?;
        Some(EventWebhookSettings { name, url, key: self.key(&secret_path, &secret)?, events })
    }

    fn key(&mut self, path: &str, secret: &SecretString) -> Option<SigningSecret> {
        let help = "make one with `echo whsec_$(head -c 32 /dev/urandom | base64)`, and give it \
                    to the receiver, too";
        let key = SigningSecret::parse(secret);
        key.map_err(|error| self.report.error(path, error.to_string(), help)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused};

    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_webhook_gets_every_event_unless_some_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).unwrap();
        let text = format!(
            "notify:\n  webhooks:\n  - {{name: all, url: 'https://a.example.com/in', secret: {{file: {0}}}}}\n  \
             - {{name: ends, url: 'http://127.0.0.1:1/', secret: {{file: {0}}}, events: [pipelinerun.finished]}}\n",
            key.display()
        );
        let webhooks = loaded(&text).settings.event_webhooks;
        let [all, ends] = webhooks.as_slice() else { panic!("two") };
        assert_eq!((all.name.as_str(), all.url.as_str()), ("all", "https://a.example.com/in"));
        assert_eq!(all.events, Announcement::ALL);
        assert_eq!(ends.events, [Announcement::Finished]);
        assert!(!format!("{webhooks:?}").contains("MfKQ9r8"), "a secret does not print");
    }

    #[test]
    fn a_webhook_that_cannot_be_meant_is_told_at_its_place() {
        let text = refused(
            "notify:\n  webhooks:\n  \
             - {name: a, url: 'http://warehouse.example.com/in', secret: {env: TOKEN}}\n  \
             - {name: a, url: 'https://me:pw@warehouse.example.com', secret: {env: NONE}}\n  \
             - {name: b, url: 'https://w.example.com', secret: {env: TOKEN}, events: []}\n",
        );
        for part in [
            "3:20: events would go over the network in the clear",
            "3:55: this is not a signing secret",
            "there is a webhook called a already",
            "the variable NONE is not set",
            "it would get no event at all",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("me:pw"), "{text}");
    }

    #[test]
    fn a_webhook_with_words_that_are_not_known_is_told_of_them_and_of_nothing_else() {
        let text = refused(
            "notify:\n  webhooks:\n  \
             - {name: c, url: 'https://w.example.com', secret: {env: SIGNING}, events: [deployed]}\n  \
             - {name: D d, url: 'ftp://w.example.com', secret: plain}\n",
        );
        assert_eq!(text.lines().count(), 4, "{text}");
        for part in
            ["`deployed`", "D d", "ftp:", "`notify.webhooks[1].secret` holds a secret itself"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("plain"), "{text}");
    }
}
