//! Requests and answers of a program that does nothing by itself but answer.

use std::sync::LazyLock;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use the_deployer::forge::github::webhook::signature::sign;

use crate::harness::deployer::{Deployer, SECRET};

pub(super) const SHA: &str = "a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d";

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Checks that it is a problem of that status and name, and gives its detail.
    pub(super) fn problem(&self, status: u16, name: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let json = self.json();
        assert_eq!(json["type"], format!("urn:the-deployer:problem:{name}"));
        assert_eq!(json["status"], status);
        json["detail"].as_str().unwrap().to_owned()
    }
}

/// One for all, as each takes some milliseconds to make; it keeps no connection, which would end with
/// the runtime of the test that made it.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    the_deployer::support::http::install_tls_provider();
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0);
    client.timeout(Duration::from_mins(3)).build().unwrap()
});

/// A request to the program; `send` reads its answer.
pub(super) fn request(deployer: &Deployer, method: Method, path: &str) -> RequestBuilder {
    CLIENT.request(method, format!("{}{path}", deployer.url()))
}

pub(super) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, text: response.text().await.unwrap() }
}

pub(super) async fn get(deployer: &Deployer, path: &str) -> Answer {
    send(request(deployer, Method::GET, path)).await
}

pub(super) async fn post(deployer: &Deployer, path: &str, body: &Value) -> Answer {
    send(request(deployer, Method::POST, path).json(body)).await
}

/// Delivers a deployment event to that target.
pub(super) async fn deliver(deployer: &Deployer, delivery: &str, target: &str) -> Answer {
    send(Delivery::of(&event(target)).id(delivery).request(deployer)).await
}

/// A deployment event, no more of it than is used.
pub(super) fn event(target: &str) -> Value {
    json!({
        "action": "created",
        "deployment": {"id": 7, "sha": SHA, "ref": "main", "task": "deploy",
            "environment": target, "payload": {"tag": "1.10"}, "description": "b0dy-text"},
        "repository": {"full_name": "acme/shop"},
        "sender": {"login": "octo-dev"}
    })
}

/// One request to the webhook; every part can be set.
pub(super) struct Delivery {
    body: Vec<u8>,
    signature: Option<String>,
    headers: Vec<(&'static str, String)>,
}

impl Delivery {
    pub(super) fn of(event: &Value) -> Self {
        Self::raw(event.to_string())
    }

    pub(super) fn raw(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let headers = vec![
            ("x-github-event", "deployment".to_owned()),
            ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        Self { signature: Some(sign(&SecretString::from(SECRET), &body)), body, headers }
    }

    pub(super) fn id(self, id: &str) -> Self {
        self.with("x-github-delivery", id)
    }

    /// Another event than `deployment`.
    pub(super) fn event(self, name: &str) -> Self {
        self.with("x-github-event", name)
    }

    pub(super) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub(super) fn signed(mut self, signature: Option<&str>) -> Self {
        self.signature = signature.map(str::to_owned);
        self
    }

    /// With the right signature of another secret.
    pub(super) fn signed_with(mut self, secret: &str) -> Self {
        self.signature = Some(sign(&SecretString::from(secret), &self.body));
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn request(self, deployer: &Deployer) -> RequestBuilder {
        let mut request = request(deployer, Method::POST, "/webhooks/github");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(signature) = self.signature {
            request = request.header("x-hub-signature-256", signature);
        }
        request.body(self.body)
    }
}
