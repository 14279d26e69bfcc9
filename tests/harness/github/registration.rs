//! The registration of an App from a manifest: the page that takes it, the button that makes the App, and the exchange
//! of the code for its keys. Codes are good once, for an hour.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

use crate::harness::github::World;
use crate::harness::github::answer::{Answer, Answered, created};
use crate::harness::github::call::Call;
use crate::harness::github::jwt;
use crate::harness::github::oauth::{CLIENT_ID, CLIENT_SECRET};
use crate::harness::github::state::{Level, State};

/// The secret of the webhook, which GitHub makes.
pub(crate) const HOOK_SECRET: &str = "s3cret-that-github-made-for-the-webhook";
/// What a code is good for.
const CODE_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// The longest name of an App.
const MAX_NAME: usize = 34;
/// The permission that brings an event; any of these is enough.
const EVENTS: &[(&str, &str)] =
    &[("deployment", "deployments"), ("pull_request", "pull_requests"), ("push", "contents")];

/// Apps on their way, and the one that is registered.
#[derive(Default)]
pub(super) struct Registration {
    codes: BTreeMap<String, (RegisteredManifest, Timestamp)>,
    /// The App as it was registered.
    pub(super) app: Option<RegisteredManifest>,
}

/// What a person confirmed.
#[derive(Clone)]
pub(super) struct RegisteredManifest {
    pub(super) owner: String,
    pub(super) manifest: Json,
}

impl World {
    /// The manifest of the App that was registered.
    pub(crate) fn manifest(&self) -> Option<Json> {
        self.state().registration.app.as_ref().map(|app| app.manifest.clone())
    }

    /// A code of an App of somebody else's, whose owner that is.
    pub(crate) fn foreign_code(&self, owner: &str) -> String {
        let mut state = self.state();
        let manifest = json!({"name": "evil", "default_permissions": {}, "default_events": []});
        issue(&mut state, RegisteredManifest { owner: owner.to_owned(), manifest })
    }
}

fn issue(state: &mut State, app: RegisteredManifest) -> String {
    let code = format!("{:040x}", state.next_id());
    let now = state.now();
    state.registration.codes.insert(code.clone(), (app, now));
    code
}

/// `POST /settings/apps/new` and `/organizations/ORG/settings/apps/new`: shows what is asked for, with a button; the
/// button sends the same again.
pub(super) fn form(state: &mut State, call: &Call, organization: Option<&str>) -> Answered {
    let Some(login) = state.oauth.reader() else {
        return Err(Answer::refusal(401, "Sign in to GitHub"));
    };
    let text = call.text("manifest").unwrap_or_default();
    let manifest = serde_json::from_str(&text).unwrap_or(Json::Null);
    if let Err(problem) = check(&manifest) {
        return Ok(page(422, &format!("<h1>Error</h1><p>{}</p>", escape(&problem))));
    }
    let owner = organization.unwrap_or(&login).to_owned();
    if call.query.get("confirm").is_none_or(|word| word != "yes") {
        let target = format!("{}&amp;confirm=yes", escape(&call.target));
        let body = format!(
            "<h1>Create GitHub App for {}</h1><form method=\"post\" action=\"{target}\">\
             <input type=\"hidden\" name=\"manifest\" value=\"{}\"><button>Create GitHub App</button></form>",
            escape(&owner),
            escape(&text)
        );
        return Ok(page(200, &body));
    }
    let redirect = manifest["redirect_url"].as_str().unwrap().to_owned();
    let code = issue(state, RegisteredManifest { owner, manifest });
    let mut location = reqwest::Url::parse(&redirect).unwrap();
    location.query_pairs_mut().append_pair("code", &code);
    if let Some(given) = call.query.get("state") {
        location.query_pairs_mut().append_pair("state", given);
    }
    Ok(Answer::empty(302).with("location", location))
}

/// What GitHub refuses to make an App of.
fn check(manifest: &Json) -> Result<(), String> {
    let text = |path: &str| manifest.pointer(path).and_then(Json::as_str).unwrap_or_default();
    let is_url = |path: &str| reqwest::Url::parse(text(path)).is_ok_and(|url| url.has_host());
    if text("/name").is_empty() || text("/name").chars().count() > MAX_NAME {
        return Err("Name is too long (maximum is 34 characters)".to_owned());
    }
    for path in ["/url", "/redirect_url", "/hook_attributes/url"] {
        if !is_url(path) {
            return Err(format!("\"{}\" wasn't supplied.", path.trim_start_matches('/')));
        }
    }
    let hook = reqwest::Url::parse(text("/hook_attributes/url")).unwrap();
    if hook.host_str() == Some("localhost") {
        let problem = "Hook url is not supported because it isn't reachable over the public Internet (localhost)";
        return Err(problem.to_owned());
    }
    let permissions = manifest["default_permissions"].as_object().cloned().unwrap_or_default();
    let known = crate::harness::github::app::all_permissions();
    for (name, level) in &permissions {
        let level = level.as_str().and_then(Level::parse);
        if !known.contains_key(name) || level.is_none() {
            return Err(format!(
                "Default permission records resource is not included in the list: {name}"
            ));
        }
    }
    for event in manifest["default_events"].as_array().into_iter().flatten() {
        let event = event.as_str().unwrap_or_default();
        let needs = EVENTS.iter().find(|(name, _)| *name == event).map(|(_, needs)| *needs);
        if needs.is_none_or(|needs| !permissions.contains_key(needs)) {
            return Err(format!("Default events are not supported by permissions: {event}"));
        }
    }
    Ok(())
}

/// `POST /app-manifests/CODE/conversions`: who has the code, has the keys.
pub(super) fn convert(state: &mut State, call: &Call, code: &str) -> Answered {
    let now = state.now();
    let issued = state.registration.codes.remove(code);
    let fresh = issued.filter(|(_, at)| now.duration_since(*at) <= CODE_LIFE);
    let (app, _) = fresh.ok_or_else(Answer::not_found)?;
    let (id, manifest) = (state.app.id, &app.manifest);
    let name = manifest["name"].as_str().unwrap_or_default();
    let slug = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let body = json!({
        "id": id, "slug": slug, "node_id": "MDM6QXBw", "name": name,
        "owner": {"login": app.owner, "type": "Organization"},
        "description": manifest["description"], "external_url": manifest["url"],
        "html_url": format!("{}/apps/{slug}", call.base.trim_end_matches("/api/v3")),
        "created_at": now.to_string(), "updated_at": now.to_string(),
        "permissions": manifest["default_permissions"], "events": manifest["default_events"],
        "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "webhook_secret": HOOK_SECRET,
        "pem": jwt::private_key(),
    });
    state.registration.app = Some(app);
    created(&body)
}

fn page(status: u16, body: &str) -> Answer {
    let kind = ("content-type", "text/html; charset=utf-8".to_owned());
    let body = format!("<!doctype html><html lang=en><title>GitHub</title>{body}</html>");
    Answer { status, headers: vec![kind], body: body.into_bytes() }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
