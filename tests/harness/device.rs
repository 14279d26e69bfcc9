//! A GitHub of which only the device flow and `/user` are there.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};

/// The token that it gives.
pub(crate) const GIVEN: &str = "ghu_tokenOfTheDeviceFlow0123456789";
pub(crate) const CLIENT: &str = "Iv23liOfTheTest";

#[derive(Default)]
pub(crate) struct World {
    /// What is answered to "may I now?", one after the other; then the token.
    pub(crate) answers: Vec<Value>,
    /// How often it was asked.
    pub(crate) asked: usize,
    /// Where the person is sent, if not here.
    pub(crate) page: Option<String>,
    origin: String,
}

#[derive(Clone)]
pub(crate) struct Device(Arc<Mutex<World>>);

impl Device {
    pub(crate) async fn start() -> Self {
        let this = Self(Arc::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        this.lock().origin = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.lock().origin.clone()
    }
}

async fn answer(State(device): State<Device>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let token = request.headers().get("authorization").cloned();
    let body = axum::body::to_bytes(request.into_body(), 65536).await.unwrap();
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut world = device.lock();
    match path.as_str() {
        "/login/device/code" => {
            assert_eq!(said["client_id"], CLIENT);
            let page = world.page.clone();
            let page = page.unwrap_or_else(|| format!("{}/login/device", world.origin));
            Json(json!({"device_code": "secret-of-the-device", "user_code": "WDJB-MJHT",
                "verification_uri": page, "expires_in": 900, "interval": 0}))
            .into_response()
        }
        "/login/oauth/access_token" => {
            assert_eq!(said["device_code"], "secret-of-the-device");
            assert_eq!(said["grant_type"], "urn:ietf:params:oauth:grant-type:device_code");
            world.asked += 1;
            let given = json!({"access_token": GIVEN, "token_type": "bearer", "scope": ""});
            let next = if world.answers.is_empty() { given } else { world.answers.remove(0) };
            Json(next).into_response()
        }
        "/api/v3/user" => match token.as_ref().and_then(|token| token.to_str().ok()) {
            Some(text) if text.ends_with(GIVEN) => Json(json!({"login": "ada"})).into_response(),
            _ => (StatusCode::UNAUTHORIZED, Json(json!({"message": "Bad credentials"})))
                .into_response(),
        },
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
