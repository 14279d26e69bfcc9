//! A clock was ahead and is set back: what was written by it does not wait until then.

use std::time::Duration;

use the_deployer::model::notice::SinkFamily;
use the_deployer::store::{LeaseState, LongestDelays, LongestRests, NextSweep};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;
use crate::store::{LEASE, accept, claim};

/// A year, in seconds: so far ahead the clock was.
const AHEAD: i64 = 365 * 24 * 3600;

const LONGEST: LongestDelays =
    LongestDelays { lease: LEASE, retry: Duration::from_hours(2), act: Duration::from_mins(5) };

#[tokio::test]
async fn a_retry_of_the_future_is_due_now() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let first = claim(&db.store, 2).await.unwrap();
        assert_eq!(
            db.store.retry_at(&first, at(AHEAD), "later", None).await.unwrap(),
            LeaseState::Held
        );
        assert!(claim(&db.store, 100).await.is_none(), "it waits for a year");
        assert_eq!(db.store.bring_down_due_times(LONGEST, at(100)).await.unwrap(), 1);
        assert!(claim(&db.store, 100).await.is_some());
        assert_eq!(db.store.bring_down_due_times(LONGEST, at(101)).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_lease_of_the_future_ends_after_a_lease() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let dead = claim(&db.store, AHEAD).await.unwrap();
        // And what the forge is to be told of the claim.
        assert_eq!(db.store.bring_down_due_times(LONGEST, at(100)).await.unwrap(), 2);
        assert!(claim(&db.store, 100).await.is_none(), "its worker may be alive");
        assert_eq!(db.store.extend(&dead, at(110), LEASE).await.unwrap(), LeaseState::Held);
        assert_eq!(db.lease_end(&id).await, at(170).as_millisecond());
        assert!(claim(&db.store, 171).await.is_some());
    })
    .await;
}

#[tokio::test]
async fn what_waits_as_long_as_it_may_goes_on_waiting() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let first = claim(&db.store, 2).await.unwrap();
        let wish = 100 + 2 * 3600;
        assert_eq!(
            db.store.retry_at(&first, at(wish), "later", None).await.unwrap(),
            LeaseState::Held
        );
        assert_eq!(
            db.store.bring_down_due_times(LONGEST, at(90)).await.unwrap(),
            0,
            "clocks differ"
        );
        assert_eq!(db.lease_end(&id).await, at(wish).as_millisecond());
    })
    .await;
}

#[tokio::test]
async fn a_message_of_the_future_is_told_after_a_lease() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let taken = db.store.take_messages(&SinkFamily::Forge, at(AHEAD), LEASE, 10).await.unwrap();
        assert_eq!(taken.len(), 1);
        let none = db.store.take_messages(&SinkFamily::Forge, at(100), LEASE, 10).await.unwrap();
        assert!(none.is_empty());
        assert_eq!(db.store.bring_down_due_times(LONGEST, at(100)).await.unwrap(), 1);
        let again = db.store.take_messages(&SinkFamily::Forge, at(161), LEASE, 10).await.unwrap();
        assert_eq!(again.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_sweep_of_the_future_is_due_now() {
    run_on_both(async |db| {
        let every = Duration::from_mins(10);
        let rests = LongestRests { lease: LEASE, wait: Duration::from_hours(2), every };
        let begin = async |second| {
            db.store.begin_sweep("deployments", "me", at(second), LEASE, false).await.unwrap()
        };
        let run = begin(AHEAD).await.unwrap();
        let left =
            NextSweep { position: None, due_at: at(AHEAD + 600), not_before: Some(at(AHEAD)) };
        assert_eq!(db.store.end_sweep(&run, &left).await.unwrap(), LeaseState::Held);
        assert!(begin(100).await.is_none());
        db.store.bring_down_sweeps(rests, at(100)).await.unwrap();
        assert!(begin(100).await.is_some());
        let dead = begin(AHEAD).await;
        assert!(dead.is_some());
        db.store.bring_down_sweeps(rests, at(200)).await.unwrap();
        assert!(begin(200).await.is_none(), "its process may be alive");
        assert!(begin(261).await.is_some());
    })
    .await;
}
