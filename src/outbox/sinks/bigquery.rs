//! Inserts the row of a deployment that has ended.
//!
//! Argo CD may report after the end of a deployment, so that its row waits for the marks that can still come. A message
//! in doubt is sent again: BigQuery drops a row whose id it had within the last minute. There is no cheap way to look for
//! one that came before.

use jiff::{SignedDuration, Timestamp};

use crate::model::deploy_clock::DeployMark;
use crate::model::deployment::{Deployment, State};
use crate::notify::bigquery::row::{self, EndedDeployment};
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::OutboxMessage;
use crate::support::time::saturating_add;

/// The time for which a row waits for marks: longer than a sync takes whose pods run already, and short for people who
/// look for the row.
const LONGEST_MARK_WAIT: SignedDuration = SignedDuration::from_mins(2);
/// The first wait. Each takes as long as all before it, so that a row costs few looks at the database.
const FIRST_MARK_WAIT: SignedDuration = SignedDuration::from_secs(5);

impl Sinks {
    /// Inserts the row of the message's deployment.
    pub(super) async fn table_row(
        &self,
        message: &OutboxMessage,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryFailure> {
        let Some(table) = &self.bigquery else { return Ok(not_configured(message)) };
        let Some(deployment) = self.deployments.store.deployment(&message.deployment).await? else {
            return Ok(Delivered::Nothing("the deployment was deleted".to_owned()));
        };
        let target = &deployment.request.target;
        let is_watched = self.deployments.is_watched(target);
        let expected = is_watched.then(|| expected_marks(self.argocd.contains_key(target)));
        if let Some(at) = next_look(&deployment, expected.unwrap_or_default(), message.at, now) {
            return Ok(Delivered::Later { at });
        }
        let row = row::build_row(EndedDeployment {
            deployment: &deployment,
            finished_at: deployment.finished_at.unwrap_or(message.at),
            service: &self.deployments.external_url,
        });
        table.insert(&row, now).await?;
        Ok(Delivered::Yes { reference: Some(row.insert_id) })
    }
}

/// Returns the marks that Argo CD may cause after the end. Its others come with the sync's, or never.
fn expected_marks(has_webhook: bool) -> &'static [DeployMark] {
    if has_webhook {
        &[DeployMark::Synced, DeployMark::ArgocdNotified]
    } else {
        &[DeployMark::Synced]
    }
}

/// Returns the time of the next look at a deployment that ended at `ended_at`, if one of the marks can still come. They
/// come only where a commit was pushed, and for no deployment that failed or was replaced.
fn next_look(
    deployment: &Deployment,
    expected: &[DeployMark],
    ended_at: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let has_commit = deployment.pushed.as_ref().is_some_and(|pushed| pushed.changed);
    let is_missing = |mark: &DeployMark| deployment.marks.get(*mark).is_none();
    let is_open =
        deployment.state == State::Succeeded && has_commit && expected.iter().any(is_missing);
    let end = saturating_add(ended_at, LONGEST_MARK_WAIT);
    let wait = now.duration_since(ended_at).max(FIRST_MARK_WAIT);
    (is_open && now < end).then(|| saturating_add(now, wait).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deploy_clock::MarkTime;
    use crate::model::deployment::Pushed;
    use crate::notify::fixture;

    const ALL: &[DeployMark] = &[DeployMark::Synced, DeployMark::ArgocdNotified];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn look(deployment: &Deployment, now: i64) -> Option<i64> {
        next_look(deployment, ALL, at(0), at(now)).map(Timestamp::as_second)
    }

    #[test]
    fn a_row_waits_twice_as_long_each_time_and_two_minutes_in_all() {
        let deployment = fixture::deployment(State::Succeeded);
        let mut looks = vec![0];
        while let Some(next) = look(&deployment, *looks.last().unwrap()) {
            looks.push(next);
        }
        assert_eq!(looks, [0, 5, 10, 20, 40, 80, 120]);
        assert_eq!(look(&deployment, 3600), None, "the service was off meanwhile");
        assert_eq!(look(&deployment, -3600), Some(-3595), "the clock was moved back");
    }

    #[test]
    fn a_row_waits_until_each_mark_that_can_come_is_there() {
        let mut deployment = fixture::deployment(State::Succeeded);
        deployment.marks.insert(MarkTime::of_service(DeployMark::Synced, at(1)));
        assert_eq!(look(&deployment, 1), Some(6), "Argo CD's webhook has not answered");
        assert_eq!(expected_marks(true), ALL);
        let without = next_look(&deployment, expected_marks(false), at(0), at(1));
        assert_eq!(without, None, "no webhook is configured");
        deployment.marks.insert(MarkTime::of_service(DeployMark::ArgocdNotified, at(2)));
        assert_eq!(look(&deployment, 2), None);
    }

    #[test]
    fn nothing_is_waited_for_that_does_not_come() {
        let succeeded = fixture::deployment(State::Succeeded);
        assert_eq!(next_look(&succeeded, &[], at(0), at(0)), None, "nothing watches");
        for state in [State::Failed, State::Superseded, State::Cancelled] {
            let ended = Deployment { state, ..succeeded.clone() };
            assert_eq!(look(&ended, 0), None, "{state:?}");
        }
        let pushed = succeeded.pushed.clone().map(|pushed| Pushed { changed: false, ..pushed });
        assert_eq!(look(&Deployment { pushed, ..succeeded }, 0), None, "no commit was pushed");
    }
}
