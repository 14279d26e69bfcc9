//! `POST /webhooks/slack`: people press buttons in messages, and the service acts for them.
//!
//! ```text
//! signature, time ─▶ Slack user ─▶ GitHub login ─▶ the API's own route ─▶ 200, after two seconds at the latest
//!                                                                      └▶ an answer that only they see
//! ```
//!
//! An act is a request to the API's routes in the name of the GitHub account: the same checks, records and idempotency
//! as on the pages. What it may do GitHub says (`auth::accounts`). The button's value has what the person saw, and the
//! act is refused where that is no longer so. A button without a meaning makes room for what is so now.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Extension, Router};
use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::api::rollbacks::{HoldAnswer, RollbackAnswer};
use crate::api::rollouts::RolloutSummary;
use crate::forge::github::webhook::form_field;
use crate::forge::github::webhook::signature::Verifier;
use crate::model::app_instance::AppInstance;
use crate::model::audit::AuthMethod;
use crate::notify::message::UserId;
use crate::notify::message::act::{OfferedAct, OfferedApproval, OfferedRelease, OfferedRollback};
use crate::notify::message::escape::escape_line;
use crate::notify::message::pressed::{ButtonName, PressedMessage};
use crate::server::act_api::{ActApi, ApiRefusal};
use crate::server::auth::Caller;
use crate::server::deliveries::WebhookOutcome;
use crate::server::limits::Class;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::routes;
use crate::server::signed_body::read_signed;
use crate::server::state::Shared;
use crate::support::percent::encode_segment;

/// The age up to which a request counts, in seconds: Slack's own advice. An older one may be sent again by others.
const LONGEST_AGE: u64 = 5 * 60;
/// The longest answer to a person, in characters.
const LONGEST_ANSWER: usize = 1000;
/// The longest note in a message, in characters.
const LONGEST_NOTE: usize = 300;
/// The time for which Slack waits for its 200, so that an act is on record before it: Slack gives up after three seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The API's routes, for callers that are known already.
#[derive(Clone)]
struct ApiRoutes(Router);

/// A press of a button, as Slack sends it.
#[derive(Debug, Deserialize)]
struct Press {
    #[serde(rename = "type")]
    kind: String,
    user: SlackObject,
    #[serde(default)]
    channel: Option<SlackObject>,
    /// Names the press: no other has it.
    trigger_id: String,
    response_url: String,
    actions: Vec<PressedButton>,
    /// The message with the button.
    #[serde(default)]
    message: PressedMessage,
}

#[derive(Debug, Deserialize)]
struct SlackObject {
    id: String,
}

#[derive(Debug, Deserialize)]
struct PressedButton {
    action_id: String,
    /// Absent for a button that leads somewhere.
    #[serde(default)]
    value: Option<String>,
}

/// What a press has led to.
struct PressOutcome {
    /// The sentence that only the person sees.
    answer: String,
    /// The sentence that takes the place of a button which has no meaning any more, in Slack's markup; `None` where the
    /// button stays.
    note: Option<String>,
}

/// Builds the route; none where no button acts.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    if shared.state.slack.is_none() {
        return Router::new();
    }
    let api = ApiRoutes(routes::acts(shared));
    Router::new().route("/webhooks/slack", post(receive)).layer(Extension(api))
}

/// Receives one press, and answers when it is carried out, or when Slack waits no longer.
async fn receive(
    State(shared): State<Arc<Shared>>,
    Extension(api): Extension<ApiRoutes>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (parts, body) = request.into_parts();
    let Some(buttons) = &shared.state.slack else {
        return Err(Problem::new(ProblemKind::NotFound, "no button acts here"));
    };
    let now = shared.state.deployments.clock.now();
    let unsigned = |detail: &str| {
        tracing::warn!(detail, "Slack's request refused");
        shared.count(WebhookOutcome::Unsigned);
        Problem::new(ProblemKind::BadSignature, detail)
    };
    let verifier = begin(&buttons.secret, &parts.headers, now).map_err(unsigned)?;
    let body = read_signed(&shared, &parts, body, verifier, true).await?;
    let slot = shared.slots.take(Class::Webhook).await?;
    let press = read(&body.bytes).map_err(|detail| {
        tracing::warn!(detail, "Slack's request refused: malformed");
        shared.count(WebhookOutcome::Malformed);
        Problem::new(ProblemKind::MalformedEvent, detail)
    })?;
    shared.count(WebhookOutcome::Hint);
    let by = |login: &str| Caller::of_account(login, AuthMethod::Slack).at(&parts, None);
    let caller = buttons.logins.get(&press.user.id).map(|login| by(login));
    let (signal, completion) = oneshot::channel();
    let work = {
        let shared = shared.clone();
        async move { carry_out(&shared, api, press, caller, signal).await }
    };
    tokio::spawn(work.instrument(tracing::Span::current()));
    drop(slot);
    // An act that takes longer goes on.
    let _ = tokio::time::timeout(LONGEST_WAIT, completion).await;
    Ok(StatusCode::OK)
}

/// Begins to verify a request by Slack's scheme: `v0=` and the HMAC-SHA256 of `v0:`, the time, `:` and the body.
fn begin(
    secret: &SecretString,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Verifier, &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let time = header("x-slack-request-timestamp").ok_or("X-Slack-Request-Timestamp is missing")?;
    let seconds: i64 = time.parse().map_err(|_| "X-Slack-Request-Timestamp is no number")?;
    if now.as_second().abs_diff(seconds) > LONGEST_AGE {
        return Err("X-Slack-Request-Timestamp is not of the last five minutes");
    }
    let digits = header("x-slack-signature").ok_or("X-Slack-Signature is missing")?;
    let form = "X-Slack-Signature is not `v0=` and 64 hexadecimal digits";
    let digits = digits.strip_prefix("v0=").ok_or(form)?;
    let mut verifier = Verifier::of_digits([secret], digits).map_err(|_| form)?;
    for part in ["v0:", time, ":"] {
        verifier.update(part.as_bytes());
    }
    Ok(verifier)
}

/// Reads a press of the body; the error quotes nothing of it.
fn read(body: &[u8]) -> Result<Press, &'static str> {
    let payload = form_field(body, b"payload").ok_or("the form has no field `payload`")?;
    let press: Press = serde_json::from_slice(&payload)
        .map_err(|_| "`payload` is not the JSON of an interaction")?;
    let is_button = press.kind == "block_actions" && UserId::parse(&press.user.id).is_some();
    if is_button { Ok(press) } else { Err("`payload` is not the press of a button by a user") }
}

/// Carries a press out, signals it, and answers the person. A button that leads somewhere is pressed, too: it needs no
/// answer.
async fn carry_out(
    shared: &Shared,
    api: ApiRoutes,
    press: Press,
    caller: Option<Caller>,
    signal: oneshot::Sender<()>,
) {
    let Some(buttons) = &shared.state.slack else { return };
    let Some(button) = press.actions.first().and_then(|button| {
        Some(ButtonName { action_id: &button.action_id, value: button.value.as_deref()? })
    }) else {
        return;
    };
    let outcome = match (caller, buttons.acts.clone().try_acquire_owned()) {
        (_, Err(_)) => PressOutcome::without_act("too much is being done at once. Try again."),
        (None, Ok(_)) => PressOutcome::without_act(&format!(
            "nobody has said which GitHub account is yours. Ask an operator to add `LOGIN: {}` to \
             `notify.slack.people`.",
            press.user.id
        )),
        (Some(caller), Ok(_permit)) => {
            let acting = act(shared, ActApi::new(api.0, caller), &press, button);
            let outcome = tokio::time::timeout(shared.state.limits.request_timeout, acting).await;
            outcome.unwrap_or_else(|_| PressOutcome {
                answer: "That takes long, and may be done or not: look at the app's page."
                    .to_owned(),
                note: None,
            })
        }
    };
    // Nobody listens where Slack has its 200 already.
    let _ = signal.send(());
    let PressOutcome { answer, note } = outcome;
    if let Err(error) = buttons.client.answer(&press.response_url, &answer).await {
        tracing::warn!(%error, "answer to a button could not be sent");
    }
    let Some(content) = note.and_then(|note| press.message.without(button, &note)) else { return };
    if let Err(error) = buttons.client.replace(&press.response_url, &content).await {
        tracing::warn!(%error, "a button without a meaning could not be taken away");
    }
}

/// Does what the button says.
async fn act(
    shared: &Shared,
    api: ActApi,
    press: &Press,
    ButtonName { action_id, value }: ButtonName<'_>,
) -> PressOutcome {
    let Some(offer) = OfferedAct::parse(action_id, value) else {
        let problem = "this version of the service does not know the button.";
        return PressOutcome::without_act(problem);
    };
    // Slack may send one press twice.
    let key = hex::encode(Sha256::digest(press.trigger_id.as_bytes()));
    let outcome = match offer {
        OfferedAct::RollBack(offer) => roll_back(shared, &api, press, (&offer, &key)).await,
        OfferedAct::EndHold(offer) => end_hold(&api, press, (&offer, &key)).await,
        OfferedAct::Approve(offer) => approve(shared, &api, press, (&offer, &key)).await,
    };
    outcome.unwrap_or_else(|refusal| {
        let detail = refusal.detail();
        PressOutcome {
            note: refusal.is_outdated().then(|| escape_line(&detail, LONGEST_NOTE)),
            ..PressOutcome::without_act(&escape_line(&detail, LONGEST_ANSWER))
        }
    })
}

async fn roll_back(
    shared: &Shared,
    api: &ActApi,
    press: &Press,
    (OfferedRollback { instance, live, to }, key): (&OfferedRollback, &str),
) -> Result<PressOutcome, ApiRefusal> {
    let body = json!({"to": to.as_str(), "live": live.as_str(), "reason": reason(press)});
    let path = act_path(instance, "rollback");
    let answer: RollbackAnswer = api.post(&path, &body, Some(key)).await?;
    let AppInstance { target, app } = instance;
    let answer = match answer.deployment {
        Some(deployment) => format!(
            "The rollback of {app} on {target} to {to} has begun: {}/deployments/{}",
            shared.state.deployments.external_url, deployment.id
        ),
        None => "The rollback has begun.".to_owned(),
    };
    // It may fail: the button stays.
    Ok(PressOutcome { answer, note: None })
}

async fn end_hold(
    api: &ActApi,
    press: &Press,
    (OfferedRelease { instance, rollback }, key): (&OfferedRelease, &str),
) -> Result<PressOutcome, ApiRefusal> {
    let body = json!({"rollback": rollback.as_str(), "reason": reason(press)});
    let _hold: HoldAnswer = api.post(&act_path(instance, "release"), &body, Some(key)).await?;
    let AppInstance { target, app } = instance;
    Ok(PressOutcome {
        answer: format!("The hold on {app} on {target} has ended."),
        note: Some(format!("<@{}> ended the hold.", press.user.id)),
    })
}

async fn approve(
    shared: &Shared,
    api: &ActApi,
    press: &Press,
    (OfferedApproval { rollout, step }, key): (&OfferedApproval, &str),
) -> Result<PressOutcome, ApiRefusal> {
    let body = json!({"step": step, "reason": reason(press)});
    let path = format!("/rollouts/{}/approve", encode_segment(rollout.as_str()));
    let _rollout: RolloutSummary = api.post(&path, &body, Some(key)).await?;
    let page = shared.state.deployments.rollout_page_of(rollout);
    Ok(PressOutcome {
        answer: format!("The gate is approved, and the rollout goes on: {page}"),
        note: Some(format!("<@{}> approved it.", press.user.id)),
    })
}

impl PressOutcome {
    /// Makes the outcome of a press that nothing was done for.
    fn without_act(problem: &str) -> Self {
        Self { answer: format!("Nothing was done: {problem}"), note: None }
    }
}

/// Returns the path of an act on an app.
fn act_path(AppInstance { target, app }: &AppInstance, act: &str) -> String {
    let [target, namespace, slug] =
        [target.as_str(), app.namespace.as_str(), app.slug.as_str()].map(encode_segment);
    format!("/apps/{target}/{namespace}/{slug}/{act}")
}

/// Returns the reason for the records. Only ids: names are texts of others.
fn reason(press: &Press) -> String {
    let is_id = |id: &&str| id.len() <= 30 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    let channel = press.channel.as_ref().map(|channel| channel.id.as_str()).filter(is_id);
    let channel = channel.unwrap_or("a conversation");
    format!("from Slack, by {} in {channel}", press.user.id)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The example of Slack's page "Verifying requests from Slack".
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: i64 = 1_531_420_618;
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const DIGITS: &str = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    fn verify(time: &str, signature: &str, body: &str, now: i64) -> Result<bool, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", HeaderValue::from_str(time).unwrap());
        headers.insert("x-slack-signature", HeaderValue::from_str(signature).unwrap());
        let now = Timestamp::from_second(now).unwrap();
        let mut verifier = begin(&SECRET.into(), &headers, now)?;
        verifier.update(body.as_bytes());
        Ok(verifier.finish().is_ok())
    }

    #[test]
    fn slacks_documented_example_is_verified_and_no_other() {
        let (time, signature) = (TIME.to_string(), format!("v0={DIGITS}"));
        assert_eq!(verify(&time, &signature, BODY, TIME), Ok(true));
        assert_eq!(verify(&time, &signature, BODY, TIME + 300), Ok(true));
        assert_eq!(verify(&time, &signature, &format!("{BODY}x"), TIME), Ok(false));
        assert_eq!(verify(&time, &signature.replace("503", "504"), BODY, TIME), Ok(false));
        assert_eq!(verify(&(TIME + 1).to_string(), &signature, BODY, TIME), Ok(false));
        for now in [TIME + 301, TIME - 301] {
            assert!(verify(&time, &signature, BODY, now).unwrap_err().contains("five minutes"));
        }
        for time in ["", "soon", "99999999999999999999", "-9223372036854775808"] {
            assert!(verify(time, &signature, BODY, TIME).is_err(), "{time}");
        }
        for signature in ["", DIGITS, "v0=", "v0=zz", "v1=00"] {
            assert!(verify(&time, signature, BODY, TIME).is_err(), "{signature}");
        }
    }

    #[test]
    fn a_body_that_is_no_press_is_refused_without_its_words() {
        for body in [
            "",
            "payload=",
            "payload=%7B",
            "payload=[]",
            "payload={\"type\":\"view_submission\"}",
            "payload={\"type\":\"block_actions\",\"user\":{\"id\":\"<!here>\"},\"trigger_id\":\"1\",\
             \"response_url\":\"\",\"actions\":[]}",
        ] {
            assert!(!read(body.as_bytes()).unwrap_err().contains("here"), "{body}");
        }
    }
}
