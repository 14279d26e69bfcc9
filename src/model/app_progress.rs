//! A deployment of all apps of a repository: one state and one sentence, by the deployments of its apps. Pure.

use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::AppName;

/// The progress of a deployment of all apps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppsProgress {
    /// `None` while an app's deployment has no end; then `Succeeded`, or `Failed` if one of them has another end.
    pub end: Option<State>,
    /// One line for people: `1 of 3 apps done; web: waiting for a worker`.
    pub summary: String,
    /// The same without the apps that go on: it changes only when one of them ends.
    pub news: String,
}

impl AppsProgress {
    /// Returns the state as the code host shows it.
    pub fn forge_state(&self) -> ForgeState {
        match self.end {
            None => ForgeState::InProgress,
            Some(State::Succeeded) => ForgeState::Success,
            Some(_) => ForgeState::Failure,
        }
    }
}

/// Sums up the deployments of the apps, in the order of their names. One that fails stops no other; it is named first.
pub fn sum_up(parts: &[Deployment]) -> AppsProgress {
    let count = parts.len();
    let apps = if count == 1 { "app" } else { "apps" };
    let done = parts.iter().filter(|part| part.state == State::Succeeded).count();
    let is_lost = |part: &&Deployment| part.state.is_final() && part.state != State::Succeeded;
    let lost: Vec<&Deployment> = parts.iter().filter(is_lost).collect();
    let open = parts.iter().filter(|part| !part.state.is_final());
    let end = match (done + lost.len() == count, lost.is_empty()) {
        (false, _) => None,
        (true, true) => Some(State::Succeeded),
        (true, false) => Some(State::Failed),
    };
    let sentences = [format!("{done} of {count} {apps} done")].into_iter();
    let news: Vec<String> = sentences.chain(lost.into_iter().map(describe)).collect();
    let summary: Vec<String> = news.iter().cloned().chain(open.map(describe)).collect();
    AppsProgress { end, summary: summary.join("; "), news: news.join("; ") }
}

fn describe(part: &Deployment) -> String {
    let name = part.request.release.app.as_ref().map_or("app", AppName::as_str);
    match part.state {
        State::Failed => format!("{name} failed: {}", part.summary),
        State::Superseded | State::Cancelled => format!("{name} was {}", part.summary),
        _ => format!("{name}: {}", part.summary),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summed(parts: &[(&str, State, &str)]) -> (Option<State>, String, String) {
        let part = |(name, state, summary): &(&str, State, &str)| -> Deployment {
            let release = json!({
                "repository": "acme/shop", "app": name, "commit": "a".repeat(40), "tag": "v1",
            });
            let request = json!({
                "forge_id": 7, "release": release, "target": "prod", "git_ref": "main", "actor": "ann",
                "description": "",
            });
            serde_json::from_value(json!({
                "id": "20261121-054812123-3f9a2c", "request": request, "app": null, "state": state,
                "received_at": "2026-11-21T05:48:12Z", "pushed_at": null, "finished_at": null,
                "waiting": null, "stages": [], "summary": summary, "violations": [], "pushed": null,
                "rollback": null, "hand_edit": null, "template": null, "templates_commit": null,
                "contact": null, "address": null, "attempts": 1,
            }))
            .unwrap()
        };
        let AppsProgress { end, summary, news } =
            sum_up(&parts.iter().map(part).collect::<Vec<_>>());
        (end, summary, news)
    }

    #[test]
    fn it_ends_with_the_last_app_and_fails_with_any() {
        let (web, worker) = (("web", State::Succeeded, "pushed"), "worker");
        assert_eq!(
            summed(&[web, (worker, State::Queued, "waiting for a worker")]),
            (
                None,
                "1 of 2 apps done; worker: waiting for a worker".to_owned(),
                "1 of 2 apps done".to_owned()
            )
        );
        let done = "2 of 2 apps done".to_owned();
        let all = [web, (worker, State::Succeeded, "pushed")];
        assert_eq!(summed(&all), (Some(State::Succeeded), done.clone(), done));
        for (state, words) in [
            (State::Failed, "worker failed: 2 violations"),
            (State::Superseded, "worker was 2 violations"),
            (State::Cancelled, "worker was 2 violations"),
        ] {
            let (end, summary, news) = summed(&[web, (worker, state, "2 violations")]);
            assert_eq!((end, &summary), (Some(State::Failed), &news));
            assert_eq!(summary, format!("1 of 2 apps done; {words}"));
        }
        let lost = [("a", State::Failed, "x"), ("b", State::Progressing, "2 of 5 updated")];
        let (end, summary, _) = summed(&lost);
        assert_eq!((end, &*summary), (None, "0 of 2 apps done; a failed: x; b: 2 of 5 updated"));
    }
}
