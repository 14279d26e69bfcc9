//! The machinery: a backend with state, signed requests, answers as values, captured logs.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::forge::github::webhook::rules::{PreviewRules, Rules};
use crate::forge::github::webhook::signature::sign;
use crate::model::audit::By;
use crate::model::deployment::{Deployment, State as Life};
use crate::model::event::{
    CheckRerun, DeploymentRequest, NamedRepository, PullRequest, Push, Refusal, Rerun,
};
use crate::model::id::{DeliveryId, DeployId};
use crate::model::lock::Lock;
use crate::model::removal::RemovalRequest;
use crate::model::rollback::{Hold, RollbackRequest};
use crate::model::violation::Violations;
use crate::server::auth::{Admission, Pages, PrintKey, Tokens};
use crate::server::ports::{
    self, Accepted, AppNow, Check, Condition, Fault, Inbox, Intake, NotRemoved, NotRolledBack,
    Noted, PullRequests, Pushes,
};
use crate::server::{Limits, State, Webhook, router};

pub(super) const SECRET: &str = "It's a Secret to Everybody";
pub(super) const PREVIOUS: &str = "the secret of last year";
pub(super) const SHA: &str = "a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d";

/// What the backend has, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) stored: Vec<(DeliveryId, Deployment)>,
    pub(super) pull_requests: Vec<PullRequest>,
    /// What somebody is to be told of.
    pub(super) refused: Vec<Refusal>,
    /// What became of each delivery.
    pub(super) counted: Vec<ports::Delivery>,
    pub(super) broken: bool,
    pub(super) panics: bool,
    pub(super) silent: bool,
    pub(super) waiting_for: Option<String>,
    /// What whoever looks should know.
    pub(super) remark: Option<String>,
    /// Which deployments were asked for here, in order.
    pub(super) wanted: Vec<ports::Wanted>,
    /// What was to be removed, in order.
    pub(super) removals: Vec<RemovalRequest>,
    /// What is locked.
    pub(super) locks: Vec<Lock>,
    /// What it has of one app.
    pub(super) app: Option<AppNow>,
    /// Why the next removal is refused.
    pub(super) not_removed: Option<NotRemoved>,
    /// Who is who, and what was answered and noted.
    pub(super) callers: super::visitors::Callers,
    /// What was asked of rollbacks and holds, in order, and by whom.
    pub(super) rollbacks: Vec<(RollbackRequest, By)>,
    /// Why the next rollback or hold is refused.
    pub(super) not_rolled_back: Option<NotRolledBack>,
    pub(super) holds: Vec<Hold>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Fake {
    pub(super) inner: Arc<Mutex<Inner>>,
    pub(super) bell: watch::Sender<()>,
}

/// The one time there is.
pub(super) fn now() -> Timestamp {
    "2026-11-21T05:48:12Z".parse().unwrap()
}

impl Fake {
    pub(super) async fn trouble(&self) -> Result<(), Fault> {
        let (broken, panics, silent) = {
            let inner = self.inner.lock().unwrap();
            (inner.broken, inner.panics, inner.silent)
        };
        assert!(!panics, "a bug, told to panic");
        if silent {
            std::future::pending::<()>().await;
        }
        if broken { Err(Fault::new("disk full")) } else { Ok(()) }
    }
}

impl Inbox for Fake {
    async fn accept(
        &self,
        delivery: DeliveryId,
        request: DeploymentRequest,
    ) -> Result<Accepted, Fault> {
        self.trouble().await?;
        let mut inner = self.inner.lock().unwrap();
        let seen = inner.stored.iter().find(|(d, _)| *d == delivery);
        if let Some((_, first)) = seen {
            return Ok(Accepted::Duplicate(first.id.clone()));
        }
        let id = format!("20261121-0548120{:02}-3f9a2c", inner.stored.len());
        let id = DeployId::parse(id).unwrap();
        inner.stored.push((delivery, queued(id.clone(), request)));
        Ok(Accepted::New(id))
    }

    async fn recognize(&self, _: &NamedRepository) {}
}

fn queued(id: DeployId, request: DeploymentRequest) -> Deployment {
    Deployment {
        id,
        request,
        app: None,
        state: Life::Queued,
        received_at: now(),
        finished_at: None,
        stages: Vec::new(),
        summary: "waiting for a worker".to_owned(),
        violations: Violations::default(),
        pushed: None,
        rollback: None,
        hand_edit: None,
        templates_commit: None,
        template: None,
        contact: None,
        address: None,
        attempts: 0,
    }
}

impl Intake for Fake {
    fn refused(&self, refusal: &Refusal) {
        self.inner.lock().unwrap().refused.push(refusal.clone());
    }

    fn count(&self, delivery: ports::Delivery) {
        self.inner.lock().unwrap().counted.push(delivery);
    }
}

impl Pushes for Fake {
    fn pushed(&self, push: &Push) -> bool {
        push.repository.as_str() == "acme/templates" && push.branch == "main"
    }
}

impl PullRequests for Fake {
    async fn note(&self, request: PullRequest) -> Result<Noted, Fault> {
        self.trouble().await?;
        let mut inner = self.inner.lock().unwrap();
        if inner.pull_requests.contains(&request) {
            return Ok(Noted::Known);
        }
        if !request.open {
            return Ok(Noted::Forgotten);
        }
        inner.pull_requests.push(request);
        Ok(if inner.pull_requests.len() > 1 { Noted::Full } else { Noted::New })
    }

    async fn make_again(&self, rerun: CheckRerun) -> Result<bool, Fault> {
        self.trouble().await?;
        Ok(rerun.rerun == Rerun::Run(7))
    }
}

impl Condition for Fake {
    async fn checks(&self) -> Vec<Check> {
        let (silent, waiting_for) = {
            let inner = self.inner.lock().unwrap();
            (inner.silent, inner.waiting_for.clone())
        };
        if silent {
            std::future::pending::<()>().await;
        }
        let database = Check { name: "database".to_owned(), waiting_for: None, note: None };
        vec![database, Check { name: "manifests".to_owned(), waiting_for, note: None }]
    }

    async fn remark(&self) -> Option<String> {
        self.inner.lock().unwrap().remark.clone()
    }

    fn metrics(&self) -> String {
        "# EOF\n".to_owned()
    }
}

/// A server and its backend.
#[derive(Clone)]
pub(super) struct World {
    pub(super) fake: Fake,
    pub(super) router: axum::Router,
    pub(super) closing: CancellationToken,
}

pub(super) fn world() -> World {
    world_with(Limits::default(), Tokens::default())
}

pub(super) fn world_with(limits: Limits, tokens: Tokens) -> World {
    world_for(limits, tokens, Pages::Token)
}

pub(super) fn world_for(limits: Limits, tokens: Tokens, pages: Pages) -> World {
    world_with_admission(limits, tokens, pages, Admission::new(PrintKey::new([7; 32])))
}

pub(super) fn world_with_admission(
    limits: Limits,
    tokens: Tokens,
    pages: Pages,
    admission: Admission,
) -> World {
    let (fake, closing) = (Fake::default(), CancellationToken::new());
    let state = State {
        backend: fake.clone(),
        webhook: Webhook { secret: SECRET.into(), previous: Some(PREVIOUS.into()), rules: rules() },
        tokens,
        pages,
        admission,
        limits,
        closing: closing.clone(),
        instance: "test".to_owned(),
    };
    World { router: router(state), fake, closing }
}

fn rules() -> Rules {
    Rules { previews: Some(PreviewRules::default()), ..Rules::default() }
}

/// A server whose patience a test can wait for.
pub(super) fn hasty_world() -> World {
    let soon = std::time::Duration::from_millis(20);
    let limits = Limits { body_timeout: soon, request_timeout: soon * 5, ..Limits::default() };
    world_with(limits, Tokens::default())
}

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

impl World {
    pub(super) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Request::builder().uri(path).body(Body::empty()).unwrap()).await
    }

    /// Delivers a deployment event to that target.
    pub(super) async fn deliver(&self, delivery: &str, target: &str) -> Answer {
        self.send(Delivery::of(&event(target)).id(delivery).request()).await
    }
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
        Self { signature: Some(sign(&SECRET.into(), &body)), body, headers }
    }

    pub(super) fn id(self, id: &str) -> Self {
        self.with("x-github-delivery", id)
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub(super) fn signed(mut self, signature: Option<&str>) -> Self {
        self.signature = signature.map(str::to_owned);
        self
    }

    pub(super) fn request(self) -> Request<Body> {
        let mut request = Request::builder().method(Method::POST).uri("/webhooks/github");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(signature) = self.signature {
            request = request.header("x-hub-signature-256", signature);
        }
        request.body(Body::from(self.body)).unwrap()
    }
}
