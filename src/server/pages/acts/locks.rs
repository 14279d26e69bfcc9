//! Acts on locks: place one, remove one.

use axum::response::Response;
use serde_json::{Value as Json, json};

use crate::api::locks::{LockPage, LockScope, LockSummary};
use crate::model::id::LockId;
use crate::server::act_api::ApiRefusal;
use crate::server::call::{PathParam, QueryPairs, bad, unavailable};
use crate::server::pages::acts::act_call::ActCall;
use crate::server::pages::acts::confirmation::{ActConfirmation, ActField, ChoiceOption};
use crate::server::pages::acts::form::ActForm;
use crate::server::problem::Problem;
use crate::server::routes::locks::{read_scope, required_right};
use crate::support::percent::encode_segment;

/// The durations that the form offers; the first is none.
const DURATIONS: [(&str, &str); 6] = [
    ("", "until somebody removes it"),
    ("1h", "one hour"),
    ("4h", "four hours"),
    ("1d", "one day"),
    ("3d", "three days"),
    ("7d", "a week"),
];

/// Shows what a lock does.
pub(super) async fn ask_lock(call: ActCall, query: QueryPairs) -> Result<Response, Problem> {
    let scope = scope(&|name| query.value(name));
    let (right, resource) = required_right(&read_scope(scope.clone()).map_err(bad)?);
    call.request.authorize(right, resource).await?;
    let page = lock_page(&call, &scope).await;
    call.ask(page)
}

/// Places a lock.
pub(super) async fn lock(call: ActCall, form: ActForm) -> Result<Response, Problem> {
    let scope = scope(&|name| form.get(name));
    let mut body = json!({"scope": scope, "reason": form.reason()});
    if let (Some(time), Some(body)) = (form.get("for"), body.as_object_mut()) {
        body.insert("for".to_owned(), Json::from(time));
    }
    let answer: Result<LockSummary, ApiRefusal> = call.api.post("/locks", &body, form.key()).await;
    let outcome = answer.map(|_| back(&scope).0);
    call.end(outcome, lock_page(&call, &scope), &form).await
}

/// Reads the scope of a lock: an app on a target, a target, an owner, or everything.
fn scope<'a>(value: &dyn Fn(&str) -> Option<&'a str>) -> LockScope {
    let text = |name: &str| value(name).map(str::to_owned);
    let scope = LockScope {
        everything: None,
        target: text("target"),
        owner: text("owner"),
        app: text("app"),
    };
    let is_named = scope.target.is_some() || scope.owner.is_some() || scope.app.is_some();
    LockScope { everything: (!is_named).then_some(true), ..scope }
}

async fn lock_page(call: &ActCall, scope: &LockScope) -> Result<ActConfirmation, ApiRefusal> {
    let locks: LockPage = call.api.get("/locks").await?;
    let is_same = |lock: &&LockSummary| lock.scope.to_string() == scope.to_string();
    let same = locks.locks.iter().filter(is_same);
    let duration = |(value, text): (&str, &str)| ChoiceOption {
        value: value.to_owned(),
        text: text.to_owned(),
        is_chosen: value.is_empty(),
    };
    let names = [("target", &scope.target), ("owner", &scope.owner), ("app", &scope.app)];
    let fixed = names.into_iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some(ActField::Fixed { name, value })
    });
    let mut fields: Vec<_> = fixed.collect();
    fields.push(ActField::reason());
    fields.push(ActField::OneOf {
        label: "For",
        name: "for",
        options: DURATIONS.map(duration).into(),
    });
    Ok(ActConfirmation {
        heading: format!("Lock {scope}"),
        consequences: vec![format!(
            "Deployments of {scope} are refused and show the reason; so are rollbacks. What is live stays."
        )],
        warnings: same.map(|lock| format!("{} has locked it: {}", lock.by, lock.reason)).collect(),
        fields,
        button: Some("Lock"),
        back: back(scope),
        ..ActConfirmation::default()
    })
}

/// Shows the lock that would be removed.
pub(super) async fn ask_unlock(
    call: ActCall,
    PathParam(id): PathParam<LockId>,
) -> Result<Response, Problem> {
    let lock = call.request.deployments().ledger.find_lock(&id).await;
    if let Some(lock) = lock.map_err(|error| unavailable(&error))? {
        let (right, resource) = required_right(&lock.scope);
        call.request.authorize(right, resource).await?;
    }
    let page = unlock_page(&call, &id).await;
    call.ask(page)
}

/// Removes a lock.
pub(super) async fn unlock(
    call: ActCall,
    PathParam(id): PathParam<LockId>,
    form: ActForm,
) -> Result<Response, Problem> {
    let body = json!({"reason": form.reason()});
    let answer: Result<LockSummary, ApiRefusal> =
        call.api.post(&format!("/locks/{id}/remove"), &body, form.key()).await;
    let outcome = answer.map(|lock| back(&lock.scope).0);
    call.end(outcome, unlock_page(&call, &id), &form).await
}

async fn unlock_page(call: &ActCall, id: &LockId) -> Result<ActConfirmation, ApiRefusal> {
    let locks: LockPage = call.api.get("/locks").await?;
    let lock = locks.locks.into_iter().find(|lock| lock.id == id.as_str());
    let Some(lock) = lock else {
        return Ok(ActConfirmation {
            heading: format!("Lock {id}"),
            consequences: vec!["There is no such lock any more.".to_owned()],
            back: ("/locks".to_owned(), "Locks".to_owned()),
            ..ActConfirmation::default()
        });
    };
    let since = lock.since.strftime("%Y-%m-%d %H:%M UTC");
    Ok(ActConfirmation {
        heading: format!("Remove the lock on {}", lock.scope),
        consequences: vec![
            format!("{} has locked it since {since}: {}", lock.by, lock.reason),
            "Deployments that come from now on are not stopped by it.".to_owned(),
        ],
        fields: vec![ActField::reason()],
        button: Some("Remove the lock"),
        back: back(&lock.scope),
        ..ActConfirmation::default()
    })
}

fn back(scope: &LockScope) -> (String, String) {
    let app = scope.app.as_deref().and_then(|app| app.split_once('/'));
    match (&scope.target, app) {
        (Some(target), Some((namespace, slug))) => {
            let [target, namespace, slug] = [target, namespace, slug].map(encode_segment);
            (format!("/apps/{target}/{namespace}/{slug}"), scope.to_string())
        }
        _ => ("/locks".to_owned(), "Locks".to_owned()),
    }
}
