use super::*;
use crate::model::violation::Violation;
use crate::notify::fixture::deployment;

fn collect_events(
    deployment: &Deployment,
    state: ForgeState,
    before: PreviousState,
) -> Vec<(Announcement, Json)> {
    collect_events_of((deployment, state), (None, None), before)
}

/// With the phase that ends, and the one that begins.
fn collect_events_of(
    (deployment, state): (&Deployment, ForgeState),
    (open_phase, phase): (Option<ClusterPhase>, Option<ClusterPhase>),
    before: PreviousState,
) -> Vec<(Announcement, Json)> {
    let at = Timestamp::UNIX_EPOCH;
    let (sentence, seq) = ("said", 3);
    let change = StateChange { deployment, state, phase, open_phase, sentence, seq, at };
    let forge = Some("https://github.com".to_owned());
    let origin = EventOrigin { url: "https://deployer.example.com".to_owned(), forge };
    let parse = |event: CloudEvent| {
        assert!(event.body.len() <= LARGEST, "{} bytes", event.body.len());
        let json: Json = serde_json::from_str(&event.body).unwrap();
        assert_eq!(json["id"], event.id);
        (event.kind, json)
    };
    build_events(change, &origin, before).into_iter().map(parse).collect()
}

fn kinds(deployment: &Deployment, state: ForgeState) -> Vec<Announcement> {
    collect_events(deployment, state, PreviousState::There)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
}

#[test]
fn a_life_has_an_event_for_each_change() {
    use Announcement::{Deployed, Finished, Queued, Started, Upgraded};
    let good = deployment(State::Succeeded);
    assert_eq!(kinds(&good, ForgeState::Queued), [Queued]);
    assert_eq!(kinds(&good, ForgeState::InProgress), [Started]);
    assert_eq!(kinds(&good, ForgeState::Success), [Finished, Upgraded]);
    let first = collect_events(&good, ForgeState::Success, PreviousState::Absent);
    assert_eq!(first.last().unwrap().0, Deployed);
    let bad = deployment(State::Failed);
    assert_eq!(kinds(&bad, ForgeState::Failure), [Finished]);
    assert_eq!(kinds(&bad, ForgeState::Error), [Finished]);
}

#[test]
fn one_that_was_overtaken_is_cancelled_and_one_that_was_live_was_removed() {
    let overtaken = deployment(State::Superseded);
    let events = collect_events(&overtaken, ForgeState::Inactive, PreviousState::There);
    assert_eq!(events[0].1["data"]["subject"]["content"]["outcome"], "cancel");
    let removed = kinds(&deployment(State::Succeeded), ForgeState::Inactive);
    assert_eq!(removed, [Announcement::Removed]);
    assert_eq!(kinds(&deployment(State::Failed), ForgeState::Inactive), []);
}

#[test]
fn what_changed_nothing_is_no_change_of_the_service_unless_it_did_not_run_before() {
    let mut unchanged = deployment(State::Succeeded);
    unchanged.pushed.as_mut().unwrap().changed = false;
    assert_eq!(kinds(&unchanged, ForgeState::Success), [Announcement::Finished]);
    for (before, kind) in [
        (PreviousState::Failing, Announcement::Upgraded),
        (PreviousState::NeverRan, Announcement::Deployed),
    ] {
        let events = collect_events(&unchanged, ForgeState::Success, before);
        assert_eq!(events.last().unwrap().0, kind, "{before:?}");
    }
}

#[test]
fn each_phase_in_a_cluster_is_a_task_of_the_run() {
    use Announcement::{Finished, TaskFinished, TaskStarted, Upgraded};
    let (sync, rollout) = (Some(ClusterPhase::Syncing), Some(ClusterPhase::Progressing));
    let good = deployment(State::Succeeded);
    let events = |state, phases| {
        let events = collect_events_of((&good, state), phases, PreviousState::There);
        events.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let (kinds, begun) = events(ForgeState::InProgress, (None, sync));
    assert_eq!(kinds, [TaskStarted]);
    assert_eq!(begun[0]["subject"], "20261121-054812123-3f9a2c/sync");
    assert_eq!(begun[0]["id"], "20261121-054812123-3f9a2c-3");
    assert_eq!(begun[0]["data"]["customData"]["phase"], "syncing");
    let (kinds, next) = events(ForgeState::InProgress, (sync, rollout));
    assert_eq!(kinds, [TaskFinished, TaskStarted]);
    assert_eq!(next[0]["id"], "20261121-054812123-3f9a2c-3-sync");
    assert_eq!(next[0]["data"]["subject"]["content"]["outcome"], "success");
    assert_eq!(next[1]["data"]["subject"]["content"]["taskName"], "rollout");
    let (kinds, end) = events(ForgeState::Success, (rollout, None));
    assert_eq!(kinds, [TaskFinished, Finished, Upgraded]);
    assert_eq!(end[0]["data"]["subject"]["content"]["outcome"], "success");
    let bad = deployment(State::Failed);
    let failed =
        collect_events_of((&bad, ForgeState::Failure), (rollout, None), PreviousState::There);
    assert_eq!(failed.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [TaskFinished, Finished]);
    assert_eq!(failed[0].1["data"]["subject"]["content"]["errors"], "said");
    let replaced = deployment(State::Superseded);
    let events =
        collect_events_of((&replaced, ForgeState::Inactive), (sync, None), PreviousState::There);
    assert_eq!(events[0].1["data"]["subject"]["content"]["outcome"], "cancel");
}

/// What is sent late says what was settled when the phase began, and nothing of its end.
#[test]
fn a_task_says_the_same_before_and_after_the_end() {
    let phases = (None, Some(ClusterPhase::Syncing));
    let task = |deployment: &Deployment| {
        let change = (deployment, ForgeState::InProgress);
        collect_events_of(change, phases, PreviousState::There)
    };
    let ended = deployment(State::Succeeded);
    let mut waiting = ended.clone();
    (waiting.state, waiting.finished_at) = (State::Syncing, None);
    waiting.summary = "waiting for Argo CD".to_owned();
    assert_eq!(task(&waiting), task(&ended));
    assert!(task(&ended)[0].1["data"]["customData"]["manifests"]["commit"].is_string());
}

#[test]
fn two_events_of_one_change_have_two_ids() {
    let events =
        collect_events(&deployment(State::Succeeded), ForgeState::Success, PreviousState::There);
    assert_eq!(events[0].1["id"], "20261121-054812123-3f9a2c-3");
    assert_eq!(events[1].1["id"], "20261121-054812123-3f9a2c-3-service");
}

#[test]
fn an_event_says_nothing_that_was_not_settled_when_it_came_to_be() {
    let queued =
        collect_events(&deployment(State::Queued), ForgeState::Queued, PreviousState::Absent);
    let later =
        collect_events(&deployment(State::Succeeded), ForgeState::Queued, PreviousState::There);
    assert_eq!(queued, later);
}

#[test]
fn what_is_deployed_is_named_by_its_source() {
    let package = |forge: Option<&str>| {
        let forge = forge.map(str::to_owned);
        package(&deployment(State::Succeeded), &EventOrigin { url: String::new(), forge })
    };
    let commit = "a".repeat(40);
    assert_eq!(package(Some("https://github.com")), format!("pkg:github/acme/web@{commit}"));
    assert_eq!(
        package(Some("https://ghe.example.com")),
        format!(
            "pkg:generic/Acme/Web@{commit}?vcs_url=git%2Bhttps://ghe.example.com/Acme/Web%40{commit}"
        )
    );
    assert_eq!(package(None), format!("pkg:generic/Acme/Web@{commit}"));
}

#[test]
fn however_much_is_wrong_an_event_stays_small_and_says_what_it_left_out() {
    let mut bad = deployment(State::Failed);
    let long = "\u{1F4A5}\"\\\u{7}".repeat(100_000);
    bad.summary = long.clone();
    bad.request.git_ref = long.clone();
    bad.request.description = long.clone();
    let violation = Violation::error("ports", &long).help(&long).expected(&long);
    bad.violations = vec![violation; 1000].into();
    let events = collect_events(&bad, ForgeState::Failure, PreviousState::There);
    let record = &events[0].1["data"]["customData"];
    assert_eq!(record["errors"], 1000);
    let listed = record["violations"].as_array().unwrap().len();
    assert!(listed > 0);
    assert_eq!(record["violationsLeftOut"], 1000 - listed);
}
