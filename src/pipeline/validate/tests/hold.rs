//! Holds after a rollback.

use super::facts::{NONE, app, check_with_facts, facts_on, known_fact, target};
use crate::model::facts::Facts;
use crate::model::id::TargetName;
use crate::model::lock::Policies;
use crate::model::release::Release;
use crate::model::rollback::{Hold, Holds};
use crate::model::target::Target;

/// Returns the release that the tests deploy.
fn release() -> Release {
    Release {
        repository: "o/a".parse().unwrap(),
        app: None,
        commit: "0".repeat(40).parse().unwrap(),
        tag: "1".parse().unwrap(),
    }
}

#[test]
fn a_hold_stops_automation_and_what_was_rolled_back_from() {
    let release = |tag: &str| Release { tag: tag.parse().unwrap(), ..release() };
    let hold = Hold {
        target: TargetName::parse("t").unwrap(),
        app: app("a"),
        by: "ada".to_owned(),
        reason: "checkout fails".to_owned(),
        since: "2026-08-20T09:30:00Z".parse().unwrap(),
        rollback: Some("20260820-093000000-3f9a2c".parse().unwrap()),
        away: Some(release("1.10")),
        to: Some("1.9".parse().unwrap()),
    };
    let says_on = |hold: Hold, automatic: bool, holds: Holds| {
        let policies = Policies { holds, ..Policies::default() };
        let facts = facts_on(Target { policies, ..target() });
        check_with_facts("    {}\n", &Facts { hold: known_fact(Some(hold)), automatic, ..facts })
    };
    let says = "ada rolled `n/a` on `t` back from 1.10 to 1.9, 2026-08-20 09:30 UTC: checkout fails [hold]";
    let (wait, release_it) = (
        "a person may deploy a newer release, which ends the hold; or",
        "release the hold with `bart unhold`",
    );
    assert_eq!(
        says_on(hold.clone(), true, Holds::Automation),
        [format!("{says} → {wait} {release_it}")]
    );
    assert_eq!(says_on(hold.clone(), false, Holds::Automation), NONE, "a person, another release");
    assert_eq!(says_on(hold.clone(), false, Holds::Everybody), [format!("{says} → {release_it}")]);
    assert_eq!(says_on(hold.clone(), true, Holds::Off), NONE);
    let held_release = Hold { away: Some(self::release()), ..hold.clone() };
    let messages = says_on(held_release, false, Holds::Automation);
    assert!(messages[0].ends_with("to deploy this one all the same"), "{messages:?}");
    let by_hand = Hold { rollback: None, away: None, to: None, ..hold };
    let by_hand = says_on(by_hand, true, Holds::Automation);
    assert!(by_hand[0].starts_with("`n/a` on `t` is held by ada since"), "{by_hand:?}");
}
