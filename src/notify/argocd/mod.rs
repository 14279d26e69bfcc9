//! The client of a cluster's Argo CD, which gets an event about each push, so that it need not wait for its next poll:
//! one POST, signed, with a timeout. It retries nothing by itself, and follows no redirects.

pub mod event; // the event and its signature, pure

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use secrecy::SecretString;

use crate::model::id::TargetName;
use crate::notify::delivery::{self, DeliveryError, ReceiverVerdict};

/// The webhook of one cluster's Argo CD.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The cluster, for people.
    pub cluster: TargetName,
    /// `https://HOST/api/webhook`
    pub url: String,
    /// The key that signs events; Argo CD's `webhook.github.secret`.
    pub secret: SecretString,
    /// The HTTP client; it must follow no redirects, or a signed event would go to strangers.
    pub client: reqwest::Client,
    /// The longest time of one try.
    pub timeout: Duration,
}

impl Hook {
    /// Sends one event; the same one may be sent again, and does no harm.
    ///
    /// # Errors
    /// [`DeliveryError`]
    pub async fn send(&self, id: &str, body: String, now: Timestamp) -> Result<(), DeliveryError> {
        let signature = event::sign(&self.secret, body.as_bytes());
        let request = self
            .client
            .post(&self.url)
            .timeout(self.timeout)
            .header(CONTENT_TYPE, "application/json")
            .header(event::KIND, event::PUSH)
            .header(event::DELIVERY, id)
            .header(event::SIGNATURE, signature)
            .body(body);
        let verdict = |status, headers: &HeaderMap| self.verdict(status, headers);
        delivery::send(request, self.title(), now, verdict).await
    }

    /// Argo CD says 400 to everything that it does not believe, also to a wrong signature; 404 to a
    /// POST at an address that it does not know, but for `/`, where it shows its page; and 307 to
    /// plain HTTP, where it speaks TLS.
    fn verdict(&self, status: u16, headers: &HeaderMap) -> ReceiverVerdict {
        match status {
            200..=299 if is_a_page(headers) => ReceiverVerdict::Refused(
                "that is a page, or a login's; the address ends with /api/webhook",
            ),
            200..=299 => ReceiverVerdict::Delivered,
            413 | 415 | 422 => ReceiverVerdict::Unfit,
            300..=399 if self.is_plain() => ReceiverVerdict::Refused(
                "it speaks TLS; begin clusters[].argocd.webhook.url with https://, and name its \
                 authority in outbound.ca; http:// is only for `server.insecure: \"true\"`",
            ),
            300..=399 => ReceiverVerdict::Refused(
                "it redirects; set clusters[].argocd.webhook.url to where it is now",
            ),
            400 => ReceiverVerdict::Refused(
                "compare clusters[].argocd.webhook.secret with webhook.github.secret in argocd-secret",
            ),
            404 | 405 | 410 => ReceiverVerdict::Refused(
                "nothing accepts events there; the address ends with /api/webhook",
            ),
            401 | 403 => ReceiverVerdict::Refused(
                "something before it wants a login; let POST /api/webhook through",
            ),
            _ => ReceiverVerdict::Refused("look into its log"),
        }
    }

    fn title(&self) -> String {
        format!("Argo CD of {}", self.cluster)
    }

    fn is_plain(&self) -> bool {
        self.url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
    }
}

fn is_a_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, header: Option<(&'static str, &str)>) -> Result<(), DeliveryError> {
        judged_at("https://hidden.example.com/t0ken", status, header)
    }

    fn judged_at(
        url: &str,
        status: u16,
        header: Option<(&'static str, &str)>,
    ) -> Result<(), DeliveryError> {
        let hook = Hook {
            cluster: TargetName::parse("prod-1").unwrap(),
            url: url.to_owned(),
            secret: "h00k".into(),
            client: reqwest::Client::new(),
            timeout: Duration::from_secs(1),
        };
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        let verdict = |status, headers: &HeaderMap| hook.verdict(status, headers);
        delivery::judge(hook.title(), status, &headers, Timestamp::UNIX_EPOCH, verdict)
    }

    #[test]
    fn every_answer_means_one_of_four_things() {
        for status in [200, 202, 204] {
            assert_eq!(judged(status, None), Ok(()));
        }
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(judged(status, None), Err(DeliveryError::Later { .. })), "{status}");
        }
        for status in [413, 415, 422] {
            assert!(matches!(judged(status, None), Err(DeliveryError::Unfit { .. })), "{status}");
        }
        for status in [301, 307, 400, 401, 403, 404, 405, 410, 418] {
            let refused = judged(status, None).unwrap_err();
            assert!(matches!(refused, DeliveryError::Refused { .. }), "{status}");
            assert!(!refused.to_string().contains("t0ken"), "{refused}");
        }
    }

    #[test]
    fn a_page_is_no_answer_to_an_event() {
        let page = judged(200, Some(("content-type", "text/html; charset=utf-8"))).unwrap_err();
        assert!(page.to_string().contains("/api/webhook"), "{page}");
        assert_eq!(judged(200, Some(("content-type", "text/plain"))), Ok(()));
    }

    /// The answer of an Argo CD that is installed with its defaults.
    #[test]
    fn who_speaks_plain_http_to_tls_is_told_to_speak_tls() {
        let to = Some(("location", "https://argocd-server.argocd.svc/api/webhook"));
        let plain = judged_at("http://argocd-server.argocd.svc/api/webhook", 307, to).unwrap_err();
        for hint in ["https://", "outbound.ca", "server.insecure"] {
            assert!(plain.to_string().contains(hint), "{plain}");
        }
        let moved = judged(307, to).unwrap_err().to_string();
        assert!(moved.contains("where it is now") && !moved.contains("outbound.ca"), "{moved}");
    }

    #[test]
    fn a_wrong_secret_is_told_where_to_look() {
        let refused = judged(400, None).unwrap_err().to_string();
        assert!(refused.contains("webhook.github.secret"), "{refused}");
    }

    #[test]
    fn a_wish_to_wait_is_heard() {
        let later = judged(503, Some(("retry-after", "30"))).unwrap_err();
        let DeliveryError::Later { after, .. } = later else { panic!("{later:?}") };
        assert_eq!(after, Some(Duration::from_secs(30)));
    }
}
