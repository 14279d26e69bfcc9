//! Programs that receive events.

use secrecy::SecretString;

use crate::config::file::webhooks as file;
use crate::config::mask::has_credentials;
use crate::config::resolve::Resolver;
use crate::config::settings::webhooks::EventWebhook;
use crate::model::announcement::Announcement;
use crate::notify::signature::Key;
use crate::support::host::is_loopback;

const ONE_OF: &str = "give exactly one of `file` and `env`";

/// Each is a queue of its own that is asked at every turn.
const MOST: usize = 20;

impl Resolver<'_> {
    pub(super) fn event_webhooks(
        &mut self,
        webhooks: Vec<file::EventWebhook>,
    ) -> Vec<EventWebhook> {
        if webhooks.len() > MOST {
            let message = format!("there are {} webhooks; there may be {MOST}", webhooks.len());
            let help = "send events to one program that passes them on";
            self.report.wrong("notify.webhooks", message, help);
        }
        let mut names = Vec::new();
        let resolved = webhooks.into_iter().enumerate().filter_map(|(n, webhook)| {
            let path = format!("notify.webhooks[{n}]");
            if names.contains(&webhook.name) {
                let message = format!("there is a webhook called {} already", webhook.name);
                self.report.wrong(&format!("{path}.name"), message, "give it another name");
            }
            names.push(webhook.name.clone());
            self.event_webhook(&path, webhook)
        });
        resolved.collect()
    }

    fn event_webhook(&mut self, path: &str, webhook: file::EventWebhook) -> Option<EventWebhook> {
        let file::EventWebhook { name, url, secret, events } = webhook;
        let at = format!("{path}.url");
        if has_credentials(&url) {
            let message = "an address with a name or a password in it ends in logs";
            self.report.wrong(&at, message, "take it out: events are signed instead");
        }
        if !is_safe(&url) {
            let message = "events would go over the network in the clear";
            self.report.wrong(&at, message, "give an https address; http is for 127.0.0.1 only");
        }
        let events = events.unwrap_or_else(|| Announcement::ALL.to_vec());
        if events.is_empty() && !self.report.is_broken("notify") {
            let help = "name the events that it is to get, or leave `events` out for all";
            self.report.wrong(&format!("{path}.events"), "it would get no event at all", help);
        }
        let at = format!("{path}.secret");
        let secret = self.secret(&at, secret, ONE_OF)?;
        Some(EventWebhook { name, url, key: self.key(&at, &secret)?, events })
    }

    fn key(&mut self, path: &str, secret: &SecretString) -> Option<Key> {
        let help = "make one with `echo whsec_$(head -c 32 /dev/urandom | base64)`, and give it \
                    to the receiver, too";
        let key = Key::parse(secret);
        key.map_err(|error| self.report.wrong(path, error.to_string(), help)).ok()
    }
}

/// Whether nobody on the way can read along.
pub(super) fn is_safe(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => true,
        ("http", Some(host)) => is_loopback(host),
        _ => false,
    }
}
