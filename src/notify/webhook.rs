//! A receiver of events: one POST, signed, with a timeout. It retries nothing by itself, and follows no redirects.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use crate::model::announcement::Announcement;
use crate::notify::delivery::{self, DeliveryError, ReceiverVerdict};
use crate::notify::events::{CloudEvent, MEDIA_TYPE};
use crate::notify::signature::{self, SigningSecret};

/// A receiver of events.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// The name in the configuration, for messages. The address may be a secret: it is shown nowhere.
    pub name: String,
    /// The address for events.
    pub url: String,
    /// The key that signs them.
    pub key: SigningSecret,
    /// The kinds of events that it wants.
    pub wants: Vec<Announcement>,
    /// The HTTP client; it must follow no redirects, or a signed event would go to strangers.
    pub client: reqwest::Client,
    /// The longest time of one try.
    pub timeout: Duration,
}

impl Receiver {
    /// Sends one event. A repeat has the same id, by which the receiver knows it.
    ///
    /// # Errors
    /// [`DeliveryError`]
    pub async fn send(&self, event: &CloudEvent, now: Timestamp) -> Result<(), DeliveryError> {
        let second = now.as_second();
        let signature = self.key.sign(&event.id, second, event.body.as_bytes());
        let request = self
            .client
            .post(&self.url)
            .timeout(self.timeout)
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header(signature::ID, &event.id)
            .header(signature::TIMESTAMP, second)
            .header(signature::SIGNATURE, signature)
            .body(event.body.clone());
        delivery::send(request, self.title(), now, Self::verdict).await
    }

    fn verdict(status: u16, _: &HeaderMap) -> ReceiverVerdict {
        match status {
            200..=299 => ReceiverVerdict::Delivered,
            400 | 413 | 415 | 422 => ReceiverVerdict::Unfit,
            300..=399 => {
                ReceiverVerdict::Refused("it redirects; set notify.webhooks to where it is now")
            }
            401 | 403 => ReceiverVerdict::Refused(
                "compare the secret in notify.webhooks with the receiver's",
            ),
            404 | 405 | 410 => ReceiverVerdict::Refused(
                "nothing accepts events there; compare the url in notify.webhooks",
            ),
            _ => ReceiverVerdict::Refused("look into the receiver's log"),
        }
    }

    fn title(&self) -> String {
        format!("the webhook {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::RETRY_AFTER;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn receiver() -> Receiver {
        Receiver {
            name: "warehouse".to_owned(),
            url: "https://hidden.example.com/t0ken".to_owned(),
            key: SigningSecret::parse(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).unwrap(),
            wants: Announcement::ALL.to_vec(),
            client: reqwest::Client::new(),
            timeout: Duration::from_secs(1),
        }
    }

    fn judged(status: u16, retry_after: Option<&str>) -> Result<(), DeliveryError> {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, text.parse().unwrap());
        }
        delivery::judge(receiver().title(), status, &headers, NOW, Receiver::verdict)
    }

    #[test]
    fn every_answer_means_one_of_four_things() {
        for status in [200, 201, 202, 204] {
            assert_eq!(judged(status, None), Ok(()));
        }
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(judged(status, None), Err(DeliveryError::Later { .. })), "{status}");
        }
        for status in [400, 413, 415, 422] {
            assert!(matches!(judged(status, None), Err(DeliveryError::Unfit { .. })), "{status}");
        }
        for status in [301, 302, 307, 308, 304, 401, 403, 404, 405, 410, 418] {
            let refused = judged(status, None).unwrap_err();
            assert!(matches!(refused, DeliveryError::Refused { .. }), "{status}");
            assert!(!refused.to_string().contains("t0ken"), "{refused}");
        }
    }

    #[test]
    fn a_wish_is_in_seconds_or_a_date_and_nonsense_is_none() {
        let wished = |text| match judged(503, Some(text)) {
            Err(DeliveryError::Later { after, .. }) => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(wished("120"), Some(Duration::from_mins(2)));
        assert_eq!(wished("Thu, 01 Jan 1970 00:10:00 GMT"), Some(Duration::from_mins(10)));
        assert_eq!(wished("Wed, 31 Dec 1969 23:00:00 GMT"), None, "that is over");
        assert_eq!(wished("soon"), None);
        assert_eq!(wished("-1"), None);
    }
}
