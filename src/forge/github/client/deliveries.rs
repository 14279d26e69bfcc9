//! Webhook deliveries that failed, by GitHub's own record for the service's App.

use std::collections::BTreeSet;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, LINK};
use serde::Deserialize;
use serde_json::Value;

use crate::forge::Forge;
use crate::forge::delivery::{DeliveryContent, HookDelivery};
use crate::forge::error::ForgeError;
use crate::forge::github::client::{GitHubClient, PER_PAGE};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestSubject};
use crate::support::percent::encode_segment;

/// Five thousand deliveries; a sweep looks again soon.
const PAGES: usize = 50;
/// The largest payload: GitHub sends none above 25 MB, and the service's own limit for a body is no larger.
const CONTENT: usize = 26 * 1024 * 1024;
/// GitHub's word for a delivery that arrived.
const ARRIVED: &str = "OK";

#[derive(Deserialize)]
struct DeliveryAttempt {
    id: i64,
    guid: String,
    event: String,
    delivered_at: Timestamp,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    status_code: Option<u16>,
}

/// Events whose newest attempt failed; fed with attempts, newest first.
#[derive(Default)]
struct FailedDeliveries {
    ids: BTreeSet<String>,
    deliveries: Vec<HookDelivery>,
}

impl Forge {
    /// Returns true if the host lists failed deliveries: GitHub does for an App.
    pub fn knows_deliveries(&self) -> bool {
        matches!(self, Self::GitHub(github) if github.auth.is_app())
    }

    /// Events since then of which no attempt arrived, newest first; each event once. The local host sends none, so that
    /// it has lost none.
    ///
    /// # Errors
    /// [`ForgeError`]; without an App [`ForgeError::NeedsApp`].
    pub async fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<HookDelivery>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(Vec::new()) };
        if !github.auth.is_app() {
            return Err(ForgeError::NeedsApp { what: "looking for lost events" });
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut failures, mut cursor) = (FailedDeliveries::default(), None);
        for _ in 0..PAGES {
            let (page, next) = github.deliveries(cursor.as_deref()).await?;
            let has_more = page.into_iter().all(|delivery| failures.add(delivery, since));
            cursor = next;
            if !has_more || cursor.is_none() || failures.deliveries.len() >= most {
                break;
            }
        }
        failures.deliveries.truncate(most);
        Ok(failures.deliveries)
    }

    /// Fetches the content of a delivery.
    ///
    /// # Errors
    /// [`ForgeError`]; without an App [`ForgeError::NeedsApp`].
    pub async fn delivery(&self, id: i64) -> Result<DeliveryContent, ForgeError> {
        #[derive(Deserialize)]
        struct Content {
            guid: String,
            event: String,
            request: Request,
        }
        #[derive(Deserialize)]
        struct Request {
            payload: Value,
        }
        let github = match self {
            Self::GitHub(github) if github.auth.is_app() => github,
            _ => return Err(ForgeError::NeedsApp { what: "reading a delivery" }),
        };
        let subject = RequestSubject::App("a delivery");
        let route = format!("/app/hook/deliveries/{id}");
        let call = ApiCall::get(subject, Permission::METADATA, route).at_most(CONTENT);
        let Content { guid, event, request } = github.read(call).await?;
        let payload = serde_json::to_vec(&request.payload).unwrap_or_default();
        Ok(DeliveryContent { event, guid, payload })
    }
}

impl GitHubClient {
    /// Returns a page of attempts, newest first, and where the next one begins.
    async fn deliveries(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<DeliveryAttempt>, Option<String>), ForgeError> {
        let subject = RequestSubject::App("the App's deliveries");
        let cursor = cursor.map(|cursor| format!("&cursor={}", encode_segment(cursor)));
        let cursor = cursor.unwrap_or_default();
        let route = format!("/app/hook/deliveries?per_page={PER_PAGE}{cursor}");
        let answer = self.call(ApiCall::get(subject, Permission::METADATA, route)).await?;
        let success = answer.map_err(|answer| self.error(answer, subject))?;
        Ok((self.wire.parsed(&success)?, next_cursor(&success.headers)))
    }
}

impl FailedDeliveries {
    /// Adds a delivery, and returns whether those before it may be of interest, too.
    fn add(&mut self, delivery: DeliveryAttempt, since: Timestamp) -> bool {
        let DeliveryAttempt { id, guid, event, delivered_at, status, status_code } = delivery;
        if delivered_at < since {
            return false;
        }
        let arrived = status.as_deref() == Some(ARRIVED);
        if self.ids.insert(guid.clone()) && !arrived {
            let status_code = status_code.unwrap_or_default();
            self.deliveries.push(HookDelivery { id, guid, event, delivered_at, status_code });
        }
        true
    }
}

/// Returns the cursor in the link to the next page. The link itself is never followed.
fn next_cursor(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains(r#"rel="next""#))?;
    let url = next.split_once('<')?.1.split_once('>')?.0;
    let url = reqwest::Url::parse(url).ok()?;
    let cursor = url.query_pairs().find(|(name, _)| name == "cursor");
    cursor.map(|(_, cursor)| cursor.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: i64, guid: &str, status: &str) -> DeliveryAttempt {
        DeliveryAttempt {
            id,
            guid: guid.to_owned(),
            event: "deployment".to_owned(),
            delivered_at: Timestamp::from_second(1000 + id).unwrap(),
            status: Some(status.to_owned()),
            status_code: None,
        }
    }

    #[test]
    fn an_event_is_lost_if_its_newest_attempt_failed() {
        let mut failures = FailedDeliveries::default();
        let since = Timestamp::from_second(1002).unwrap();
        let attempts = [
            sent(9, "healed", "OK"),
            sent(8, "lost", "timed out"),
            sent(7, "healed", "failed to connect"),
            sent(6, "lost", "Internal Server Error"),
            sent(2, "edge", "Bad Gateway"),
        ];
        assert!(attempts.into_iter().all(|attempt| failures.add(attempt, since)));
        assert!(!failures.add(sent(1, "old", "timed out"), since));
        let ids: Vec<i64> = failures.deliveries.iter().map(|delivery| delivery.id).collect();
        assert_eq!(ids, [8, 2]);
    }

    #[test]
    fn the_next_page_begins_where_the_link_says() {
        let cursor =
            |link: &str| next_cursor(&HeaderMap::from_iter([(LINK, link.parse().unwrap())]));
        let links = r#"<https://h/app/hook/deliveries?cursor=a>; rel="prev", <https://h/api/v3/app/hook/deliveries?per_page=100&cursor=v1_12%2B3>; rel="next""#;
        assert_eq!(cursor(links).as_deref(), Some("v1_12+3"));
        assert_eq!(cursor(r#"<https://h/x?cursor=a>; rel="prev""#), None);
        assert_eq!(cursor("nonsense"), None);
        assert_eq!(next_cursor(&HeaderMap::new()), None);
    }
}
