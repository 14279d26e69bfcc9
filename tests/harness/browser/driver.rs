//! A client of chromedriver: as much of `WebDriver` (<https://www.w3.org/TR/webdriver2/>) as the tests need.
//!
//! It is written here and not taken from a crate because the crates bring dozens of others for what is JSON over HTTP.

use std::sync::LazyLock;

use reqwest::{Client, Method};
use serde_json::{Value as Json, json};

use crate::harness::browser::PATIENCE;

/// The key under which `WebDriver` puts the id of an element.
pub(super) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// It keeps no connection, which would end with the runtime of the test that made it.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    the_deployer::support::http::install_tls_provider();
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0);
    client.timeout(PATIENCE).build().unwrap()
});

/// The session of the one browser.
pub(super) struct Session {
    /// `http://127.0.0.1:PORT/session/ID`.
    url: String,
}

/// What went wrong in the browser: a word of `WebDriver`, and a text.
#[derive(Debug)]
pub(super) struct DriverError {
    pub(super) word: String,
    pub(super) message: String,
}

impl Session {
    /// Attaches to a browser that runs.
    pub(super) async fn attach(driver: &str, debugger: &str) -> Self {
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "unhandledPromptBehavior": "dismiss and notify",
            "goog:chromeOptions": {"debuggerAddress": debugger},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = send(Method::POST, &format!("{driver}/session"), Some(capabilities)).await;
        let session = session.unwrap_or_else(|error| panic!("no session: {error:?}"));
        Self { url: format!("{driver}/session/{}", session["sessionId"].as_str().unwrap()) }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Json, DriverError> {
        send(Method::GET, &format!("{}/{path}", self.url), None).await
    }

    pub(super) async fn post(&self, path: &str, body: Json) -> Result<Json, DriverError> {
        send(Method::POST, &format!("{}/{path}", self.url), Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Json, DriverError> {
        send(Method::DELETE, &format!("{}/{path}", self.url), None).await
    }

    /// The first element that is found, by `css selector` or `xpath`.
    pub(super) async fn find(&self, using: &str, what: &str) -> Result<String, DriverError> {
        let found = self.post("element", json!({"using": using, "value": what})).await?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    /// All elements that are found.
    pub(super) async fn find_all(&self, using: &str, what: &str) -> Vec<String> {
        let found = self.post("elements", json!({"using": using, "value": what})).await.unwrap();
        let found = found.as_array().unwrap().iter();
        found.map(|one| one[ELEMENT].as_str().unwrap().to_owned()).collect()
    }
}

async fn send(method: Method, url: &str, body: Option<Json>) -> Result<Json, DriverError> {
    let request = CLIENT.request(method, url);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let mut answer: Json = request.send().await.unwrap().json().await.unwrap();
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(word) => Err(DriverError {
            word: word.to_owned(),
            message: value["message"].as_str().unwrap_or_default().to_owned(),
        }),
        None => Ok(value),
    }
}
