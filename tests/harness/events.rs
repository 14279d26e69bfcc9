//! Deployment events in GitHub's real shape, signed as GitHub signs them.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value as Json, json};
use sha2::Sha256;

use crate::harness::process::{Home, Process};

/// A deployment that somebody asks GitHub for.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) number: i64,
    pub(crate) repository: String,
    pub(crate) commit: String,
    pub(crate) target: String,
    pub(crate) tag: String,
}

impl Event {
    /// Deployment `number` of a commit of `example/<app>` to `prod-cluster-1`.
    pub(crate) fn new(number: i64, app: &str, commit: &str) -> Self {
        Self {
            number,
            repository: format!("example/{app}"),
            commit: commit.to_owned(),
            target: "prod-cluster-1".to_owned(),
            tag: format!("v{number}"),
        }
    }

    /// The same, for a commit that is made with a WAML of the app.
    pub(crate) fn of_app(home: &Home, number: i64, app: &str) -> Self {
        Self::new(number, app, &home.commit(&format!("example/{app}"), &waml(app)))
    }

    /// What GitHub would send, down to the fields that nobody reads.
    pub(crate) fn body(&self) -> Json {
        let Self { number, repository, commit, target, tag } = self;
        let (owner, name) = repository.split_once('/').unwrap();
        let api = format!("https://api.github.com/repos/{repository}");
        let user = json!({
            "login": "octocat", "id": 583_231, "node_id": "MDQ6VXNlcjU4MzIzMQ==", "type": "User",
            "url": "https://api.github.com/users/octocat", "site_admin": false,
        });
        json!({
            "action": "created",
            "deployment": {
                "url": format!("{api}/deployments/{number}"), "id": number,
                "node_id": "DE_kwDOABCD", "task": "deploy", "original_environment": target,
                "environment": target, "description": null, "created_at": "2026-11-21T05:48:12Z",
                "updated_at": "2026-11-21T05:48:12Z", "sha": commit, "ref": "main",
                "statuses_url": format!("{api}/deployments/{number}/statuses"),
                "repository_url": api, "creator": user, "payload": {"tag": tag},
                "transient_environment": false, "production_environment": false,
                "performed_via_github_app": null,
            },
            "workflow": null,
            "workflow_run": null,
            "repository": {
                "id": number_of(repository), "name": name, "full_name": repository, "private": true,
                "owner": {"login": owner, "id": number_of(owner), "type": "Organization"},
                "default_branch": "main", "fork": false, "topics": [], "license": null,
            },
            "organization": {"login": owner, "id": 21_031_067},
            "sender": user,
        })
    }

    /// The id of the deployment that it becomes, unless the process dies before it answers.
    pub(crate) async fn asked(&self, process: &Process) -> Option<String> {
        let answer = Delivery::of(self, &process.secret).try_send(process).await.ok()?;
        Some(answer.json()["id"].as_str().unwrap().to_owned())
    }

    /// The id of the deployment that it becomes.
    pub(crate) async fn accepted(&self, process: &Process) -> String {
        let answer = Delivery::of(self, &process.secret).send(process).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(answer.json()["duplicate"], false);
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}

/// GitHub's number of a repository or an owner: another one for each name.
pub(crate) fn number_of(name: &str) -> i64 {
    name.bytes().fold(186_853_002, |number, byte| (number * 31 + i64::from(byte)) % 1_000_000_007)
}

/// The WAML of an app, with everything that a backend has.
pub(crate) fn waml(app: &str) -> String {
    include_str!("../pipeline/example/waml.yaml").replace("my-app", app)
}

/// One request of GitHub's to the webhook.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
    pub(crate) signature: Option<String>,
}

impl Delivery {
    pub(crate) fn of(event: &Event, secret: &str) -> Self {
        Self::of_body(&event.number.to_string(), event.body().to_string(), secret)
    }

    pub(crate) fn of_body(id: &str, body: String, secret: &str) -> Self {
        let signature = Some(sign(secret, &body));
        Self {
            id: format!("72d3162e-cc78-11e3-81ab-{id}"),
            event: "deployment".to_owned(),
            content_type: "application/json".to_owned(),
            body,
            signature,
        }
    }

    pub(crate) async fn send(&self, process: &Process) -> Answer {
        self.try_send(process).await.unwrap()
    }

    async fn try_send(&self, process: &Process) -> reqwest::Result<Answer> {
        self.send_with(process.request(reqwest::Method::POST, "/webhooks/github")).await
    }

    /// The same, with a request to the webhook that somebody else has begun.
    pub(crate) async fn send_with(
        &self,
        request: reqwest::RequestBuilder,
    ) -> reqwest::Result<Answer> {
        let mut request = request
            .header("User-Agent", "GitHub-Hookshot/044aadd")
            .header("X-GitHub-Event", &self.event)
            .header("X-GitHub-Delivery", &self.id)
            .header("Content-Type", &self.content_type)
            .body(self.body.clone());
        if let Some(signature) = &self.signature {
            request = request.header("X-Hub-Signature-256", signature);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let content_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
        Ok(Answer { status, content_type, text: answer.text().await? })
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }
}

pub(crate) fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}
