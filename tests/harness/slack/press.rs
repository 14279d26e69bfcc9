//! People press buttons: Slack sends a request with its signature.

use std::net::SocketAddr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value as Json, json};
use sha2::Sha256;

use crate::harness::process::client;
use crate::harness::slack::Slack;

/// The app's signing secret.
pub(crate) const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

impl Slack {
    /// What Slack sends when somebody presses a button; `press` names the press.
    pub(crate) fn payload(&self, user: &str, press: &str, button: &Json) -> String {
        let (message, url) = self.pressed(button);
        let payload = json!({
            "type": "block_actions", "user": {"id": user, "username": "<!channel>"},
            "channel": {"id": "C00000001", "name": "squad-devx"}, "trigger_id": press,
            "response_url": url,
            "actions": [
                {"type": "button", "action_id": button["action_id"], "value": button["value"]},
            ],
            "message": message.unwrap_or_else(|| json!({})),
        });
        let url = reqwest::Url::parse_with_params("http://x", [("payload", payload.to_string())]);
        url.unwrap().query().unwrap().to_owned()
    }

    /// Sends that with its signature; the status.
    pub(crate) async fn send(&self, address: SocketAddr, body: String) -> u16 {
        let now = self.state().now().as_second();
        send_as(address, (now, &sign(SIGNING_SECRET, now, &body)), body).await
    }

    /// Somebody presses; the newest of so many answers.
    pub(crate) async fn press(
        &self,
        address: SocketAddr,
        (user, press): (&str, &str),
        button: &Json,
        answers: usize,
    ) -> String {
        assert_eq!(self.send(address, self.payload(user, press, button)).await, 200);
        self.answers(answers).await.pop().unwrap()
    }
}

/// Slack's scheme.
pub(crate) fn sign(secret: &str, time: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{time}:{body}").as_bytes());
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

/// The status for a body with that signature.
pub(crate) async fn send_as(
    address: SocketAddr,
    (time, signature): (i64, &str),
    body: String,
) -> u16 {
    let request = client()
        .post(format!("http://{address}/webhooks/slack"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-slack-request-timestamp", time.to_string())
        .header("x-slack-signature", signature)
        .body(body);
    request.send().await.unwrap().status().as_u16()
}
