//! Events about rollouts. CDEvents has no word for them: they are custom events of its form, whose subject is the rollout.

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::model::announcement::Announcement;
use crate::model::id::RolloutId;
use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};
use crate::model::status::one_line;
use crate::notify::events::{CDEVENTS, CloudEvent, LARGEST, LONGEST_ERRORS};

/// The version of the custom types.
const VERSION: &str = "0.1.0";
/// The subject in the names of the types.
const SUBJECT: &str = "thedeployer-rollout";
/// The longest text of the record, in characters.
const LONGEST_TEXT: usize = 500;
/// The room for the targets, in bytes of JSON; the rest of an event is far smaller than what is left.
const TARGETS_BYTES: usize = LARGEST / 2;

/// Builds the event about a change of a rollout. `news` is the rollout after the change, which is the one of the record of
/// `version`; `service` is the service's address, without a slash at its end.
pub fn build_rollout_event(
    kind: Announcement,
    news: &RolloutNews,
    (version, undo_id): (i64, &RolloutId),
    service: &str,
    at: Timestamp,
) -> CloudEvent {
    let predicate = kind.as_str().rsplit('.').next().unwrap_or_default();
    let id = format!("{}-{version}-{predicate}", news.id);
    let name = format!("dev.cdeventsx.{SUBJECT}.{predicate}.{VERSION}");
    let mut content = json!({
        "pipelineName": format!("rollout {} of {}", news.short_name(), news.repository),
        "uri": format!("{service}/rollouts/{}", news.id),
        "state": news.phase.word(),
    });
    if let Some(content) = content.as_object_mut()
        && kind == Announcement::RolloutFinished
    {
        content.insert("outcome".to_owned(), outcome(&news.phase).into());
    }
    if let Some(reason) = reason(news)
        && let Some(content) = content.as_object_mut()
    {
        content.insert("reason".to_owned(), one_line(&reason, LONGEST_ERRORS).into());
    }
    let body = json!({
        "specversion": "1.0",
        "id": id,
        "source": service,
        "type": name,
        "subject": news.id,
        "time": at,
        "datacontenttype": "application/json",
        "dataschema": format!("https://cdevents.dev/{CDEVENTS}/schema/custom"),
        "data": {
            "context": {
                "specversion": CDEVENTS,
                "id": id,
                "source": service,
                "type": name,
                "timestamp": at,
            },
            "subject": {"id": news.id, "content": content},
            "customData": record(news, (version, undo_id)),
            "customDataContentType": "application/json",
        },
    });
    CloudEvent { id, kind, body: body.to_string() }
}

/// Returns the outcome of an end, in the words of a run.
fn outcome(phase: &RolloutPhase) -> &'static str {
    match phase {
        RolloutPhase::Done => "success",
        RolloutPhase::Cancelled(_) => "cancel",
        RolloutPhase::UndoFailed => "error",
        RolloutPhase::Undone
        | RolloutPhase::UnderWay
        | RolloutPhase::Approval(_)
        | RolloutPhase::Blocked(_)
        | RolloutPhase::Paused(_)
        | RolloutPhase::Stopped(_)
        | RolloutPhase::Undoing(_) => "failure",
    }
}

fn reason(news: &RolloutNews) -> Option<String> {
    match &news.phase {
        RolloutPhase::Blocked(reason)
        | RolloutPhase::Paused(reason)
        | RolloutPhase::Stopped(reason)
        | RolloutPhase::Undoing(reason)
        | RolloutPhase::Cancelled(reason) => Some(reason.clone()),
        RolloutPhase::Undone | RolloutPhase::UndoFailed => {
            news.first_reason().map(|(target, reason)| format!("{target}: {reason}"))
        }
        RolloutPhase::UnderWay | RolloutPhase::Approval(_) | RolloutPhase::Done => None,
    }
}

fn record(news: &RolloutNews, (version, undo_id): (i64, &RolloutId)) -> Json {
    let text = |text: &str| one_line(text, LONGEST_TEXT);
    let target = |one: &RolloutTargetNews| {
        let RolloutTargetNews { target, progress, reason } = one;
        json!({
            "target": target, "progress": word(*progress),
            "reason": reason.as_deref().map(|reason| one_line(reason, LONGEST_TEXT)),
        })
    };
    let mut room = TARGETS_BYTES;
    let mut targets = Vec::new();
    for one in &news.targets {
        let json = target(one);
        let length = json.to_string().len() + 1;
        if length > room {
            break;
        }
        room -= length;
        targets.push(json);
    }
    let left_out = news.targets.len() - targets.len();
    json!({
        "version": 1,
        "rollout": news.id,
        "undo": undo_id,
        "sequence": version,
        "name": news.name,
        "state": news.phase.word(),
        "since": news.since,
        "app": {"namespace": news.app.namespace, "slug": news.app.slug},
        "repository": news.repository,
        "commit": news.commit,
        "tag": news.tag,
        "actor": text(&news.starter),
        "step": news.index,
        "steps": news.steps,
        "waitsFor": news.wait.as_deref().map(text),
        "targets": targets,
        "targetsLeftOut": left_out,
    })
}

fn word(progress: TargetProgress) -> &'static str {
    match progress {
        TargetProgress::Complete => "complete",
        TargetProgress::UnderWay => "under_way",
        TargetProgress::Pending => "pending",
        TargetProgress::Failed => "failed",
        TargetProgress::Undone => "undone",
        TargetProgress::UndoFailed => "undo_failed",
        TargetProgress::Dropped => "dropped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(phase: RolloutPhase, targets: usize, reason: &str) -> RolloutNews {
        let target = |n: usize| RolloutTargetNews {
            target: format!("prod-{n}").parse().unwrap(),
            progress: TargetProgress::Failed,
            reason: Some(reason.to_owned()),
        };
        RolloutNews {
            id: "r-20261121-054812123-3f9a2c".parse().unwrap(),
            name: Some("production".parse().unwrap()),
            app: crate::model::id::AppKey {
                namespace: "devx".parse().unwrap(),
                slug: "shop".parse().unwrap(),
            },
            repository: "acme/shop".parse().unwrap(),
            commit: "ab".repeat(20).parse().unwrap(),
            tag: "v2".parse().unwrap(),
            starter: "ann".to_owned(),
            phase,
            since: Timestamp::UNIX_EPOCH,
            index: 1,
            steps: 3,
            next_targets: Vec::new(),
            wait: None,
            targets: (0..targets).map(target).collect(),
        }
    }

    fn build(kind: Announcement, news: &RolloutNews) -> Json {
        let undo = "r-20261121-054812123-3f9a2d".parse().unwrap();
        let service = "https://deployer.example.com";
        let event = build_rollout_event(kind, news, (7, &undo), service, Timestamp::UNIX_EPOCH);
        assert!(event.body.len() <= LARGEST, "{} bytes", event.body.len());
        assert_eq!(event.kind, kind);
        serde_json::from_str(&event.body).unwrap()
    }

    #[test]
    fn an_end_has_its_outcome_and_the_first_reason() {
        for (phase, outcome) in [
            (RolloutPhase::Done, "success"),
            (RolloutPhase::Undone, "failure"),
            (RolloutPhase::UndoFailed, "error"),
            (RolloutPhase::Cancelled("wrong tag".to_owned()), "cancel"),
        ] {
            let event = build(Announcement::RolloutFinished, &news(phase, 1, "crashes"));
            assert_eq!(event["data"]["subject"]["content"]["outcome"], outcome);
        }
        let undone =
            build(Announcement::RolloutFinished, &news(RolloutPhase::Undone, 1, "crashes"));
        assert_eq!(undone["data"]["subject"]["content"]["reason"], "prod-0: crashes");
        assert_eq!(undone["id"], "r-20261121-054812123-3f9a2c-7-finished");
        let paused = RolloutPhase::Blocked("prod-2: locked".to_owned());
        let event = build(Announcement::RolloutPaused, &news(paused, 1, "crashes"));
        assert_eq!(event["data"]["subject"]["content"]["reason"], "prod-2: locked");
        assert!(event["data"]["subject"]["content"]["outcome"].is_null());
    }

    #[test]
    fn however_many_targets_there_are_an_event_stays_within_its_size() {
        let large = news(RolloutPhase::UndoFailed, 500, &"\u{1f4a5}\"".repeat(2_000));
        let record = &build(Announcement::RolloutFinished, &large)["data"]["customData"];
        let shown = record["targets"].as_array().unwrap().len();
        assert!(shown > 5, "{shown}");
        assert_eq!(record["targetsLeftOut"], 500 - shown);
    }
}
