//! Tells which holds deployments will meet, before they are asked for: a hold is there because somebody wants nothing
//! else to be deployed for a while.

use super::super::client::Server;
use super::super::offline::WAML_FILE;
use super::super::output::{self, NOTE};
use super::super::times::Times;
use super::tree::Tree;
use crate::api::rollbacks::{HoldList, HoldSummary};
use crate::model::id::TargetName;
use crate::waml::Waml;

/// Tells which holds there are on the targets. Where the WAML is not here, or the service does not say, nothing is told:
/// the hold is judged by the service all the same.
pub(super) async fn tell(server: &Server, tree: &Tree, targets: &[TargetName]) {
    let waml = tree.waml.as_ref().and_then(|bytes| Waml::parse(WAML_FILE, bytes).ok());
    let Some(app) = waml.map(|waml| waml.app.to_string()) else { return };
    // One question, however many targets: nothing is created before it is answered.
    let Ok(HoldList { holds }) = server.get("/api/v1/holds", &[]).await else { return };
    output::note(&notes(&holds, &app, targets, Times::system()));
}

/// The notes about holds of the app, in the order of the targets. Pure.
fn notes(holds: &[HoldSummary], app: &str, targets: &[TargetName], times: Times) -> String {
    let of = |target: &TargetName| {
        let mut all = holds.iter();
        all.find(|hold| hold.app == app && hold.target == target.as_str())
    };
    targets.iter().filter_map(of).map(|hold| note(hold, times)).collect()
}

fn note(hold: &HoldSummary, times: Times) -> String {
    let HoldSummary { target, by, reason, since, .. } = hold;
    format!(
        "{NOTE}note{NOTE:#}: {target} is held by {by}, {}: {reason}; a person's deployment of another release ends the \
         hold, and one that a job asks for is refused\n",
        times.ago(*since)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;

    #[test]
    fn holds_of_the_app_are_told_in_the_order_of_the_targets() {
        let hold = |target: &str, app: &str| HoldSummary {
            target: target.to_owned(),
            app: app.to_owned(),
            by: "ann".to_owned(),
            reason: "it loses orders".to_owned(),
            since: "2026-11-21T09:00:00Z".parse().unwrap(),
            rollback: None,
            from: None,
            to: None,
        };
        let holds = [hold("dev", "devx/shop"), hold("prod", "devx/shop"), hold("prod", "pay/till")];
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = Times { now, style: TimeStyle::Relative };
        let told = |targets: &[&str]| {
            let targets: Vec<_> =
                targets.iter().map(|one| TargetName::parse(*one).unwrap()).collect();
            anstream::adapter::strip_str(&notes(&holds, "devx/shop", &targets, times)).to_string()
        };
        assert_eq!(
            told(&["prod"]),
            "note: prod is held by ann, 3 h ago: it loses orders; a person's deployment of another release ends the \
             hold, and one that a job asks for is refused\n"
        );
        assert_eq!(told(&["prod", "dev"]).lines().count(), 2);
        assert!(told(&["prod", "dev"]).starts_with("note: prod"), "{}", told(&["prod", "dev"]));
        assert_eq!(told(&["test"]), "");
    }
}
