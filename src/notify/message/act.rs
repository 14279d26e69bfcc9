//! The acts of buttons, as the values of buttons carry them: what a person saw, so that an outdated button does nothing
//! else. Pure.

use crate::model::app_instance::AppInstance;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, DeployId, Namespace, RolloutId, Slug, TargetName};
use crate::model::rollback::{Holds, Rollback};
use crate::model::rollout_news::{RolloutNews, RolloutPhase};
use crate::notify::message::News;
use crate::notify::message::block::Button;

/// The name of the button that rolls back.
const ROLL_BACK: &str = "roll-back";
/// The name of the button that ends a hold.
const END_HOLD: &str = "end-hold";
/// The name of the button that approves a gate.
const APPROVE: &str = "approve";
/// The most targets that a confirmation names.
const MAX_TARGETS: usize = 4;

/// What a button does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferedAct {
    /// Rolls back.
    RollBack(OfferedRollback),
    /// Ends a hold.
    EndHold(OfferedRelease),
    /// Approves a gate.
    Approve(OfferedApproval),
}

/// The end of a hold, as the message offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedRelease {
    /// The app, on its target.
    pub instance: AppInstance,
    /// The rollback that took the hold: another hold is not ended.
    pub rollback: DeployId,
}

/// The approval of a gate, as the message offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedApproval {
    /// The rollout.
    pub rollout: RolloutId,
    /// The step that waits: the gate of another one is not approved.
    pub step: usize,
}

/// A rollback, as the message offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedRollback {
    /// The app, on its target.
    pub instance: AppInstance,
    /// The revision that was live when the message was written.
    pub live: DeployId,
    /// The revision that becomes live.
    pub to: DeployId,
}

impl OfferedAct {
    /// Reads a button; `None` if no button of this service has that name and value.
    pub fn parse(name: &str, value: &str) -> Option<Self> {
        match name {
            ROLL_BACK => OfferedRollback::parse(value).map(Self::RollBack),
            END_HOLD => OfferedRelease::parse(value).map(Self::EndHold),
            APPROVE => OfferedApproval::parse(value).map(Self::Approve),
            _ => None,
        }
    }
}

impl OfferedRelease {
    /// Returns the end of the hold that a rollback takes, where the target has holds.
    fn of(news: &News<'_>) -> Option<Self> {
        let Deployment { id, request, app, rollback, state, .. } = news.deployment;
        let takes_hold = rollback.as_ref().is_some_and(|rollback| rollback.hold);
        let is_held = takes_hold && *state == State::Succeeded;
        let is_offered = news.acts && is_held && news.holds != Holds::Off;
        let app = app.clone().filter(|_| is_offered)?;
        let instance = AppInstance { target: request.target.clone(), app };
        Some(Self { instance, rollback: id.clone() })
    }

    fn value(&self) -> String {
        let Self { instance: AppInstance { target, app }, rollback } = self;
        format!("{target} {} {} {rollback}", app.namespace, app.slug)
    }

    fn parse(value: &str) -> Option<Self> {
        let words: Vec<&str> = value.splitn(5, ' ').collect();
        let [target, namespace, slug, rollback] = words.try_into().ok()?;
        let instance = parse_instance([target, namespace, slug])?;
        Some(Self { instance, rollback: DeployId::parse(rollback).ok()? })
    }
}

impl OfferedApproval {
    /// Returns the approval for which a rollout waits.
    fn of(news: &RolloutNews) -> Option<Self> {
        let waits = matches!(news.phase, RolloutPhase::Approval(_));
        waits.then(|| Self { rollout: news.id.clone(), step: news.index })
    }

    fn value(&self) -> String {
        let Self { rollout, step } = self;
        format!("{rollout} {step}")
    }

    fn parse(value: &str) -> Option<Self> {
        let (rollout, step) = value.split_once(' ')?;
        let is_number = (1..=4).contains(&step.len()) && step.bytes().all(|b| b.is_ascii_digit());
        let step = step.parse().ok().filter(|_| is_number)?;
        Some(Self { rollout: RolloutId::parse(rollout).ok()?, step })
    }
}

impl OfferedRollback {
    /// Returns the rollback that a message offers; `None` where the deployment is not live, is being taken back, or
    /// belongs to a rollout, which has an undo of its own, or to a fleet.
    fn of(news: &News<'_>) -> Option<Self> {
        let Deployment { id, request, app, pushed, rollback, rollout, .. } = news.deployment;
        let is_offered = news.acts
            && pushed.as_ref().is_some_and(|pushed| pushed.changed)
            && rollback.is_none()
            && rollout.is_none()
            && !news.is_fleet
            && news.undo.is_none();
        let (app, to) = app.clone().zip(news.last_good.as_ref()).filter(|_| is_offered)?;
        let instance = AppInstance { target: request.target.clone(), app };
        Some(Self { instance, live: id.clone(), to: to.id.clone() })
    }

    fn value(&self) -> String {
        let Self { instance: AppInstance { target, app }, live, to } = self;
        format!("{target} {} {} {live} {to}", app.namespace, app.slug)
    }

    fn parse(value: &str) -> Option<Self> {
        let words: Vec<&str> = value.splitn(6, ' ').collect();
        let [target, namespace, slug, live, to] = words.try_into().ok()?;
        let instance = parse_instance([target, namespace, slug])?;
        Some(Self { instance, live: DeployId::parse(live).ok()?, to: DeployId::parse(to).ok()? })
    }
}

/// Builds the button that rolls back, where the message offers it.
pub(super) fn roll_back_button(news: &News<'_>) -> Option<Button> {
    let (offer, last_good) = OfferedRollback::of(news).zip(news.last_good.as_ref())?;
    let AppInstance { target, app } = &offer.instance;
    let tag = &news.deployment.request.release.tag;
    let hold = match news.holds {
        Holds::Off => "",
        Holds::Automation => " Then programs cannot deploy it until a person releases the hold.",
        Holds::Everybody => " Then nobody can deploy it until a person releases the hold.",
    };
    let effect = format!("On {target}, {} of {app} replaces {tag}.{hold}", last_good.tag);
    Button::acting(ROLL_BACK, &format!("Roll back to {}", last_good.tag), offer.value(), &effect)
}

/// Builds the button that ends the hold of a rollback, where the message offers it.
pub(super) fn end_hold_button(news: &News<'_>) -> Option<Button> {
    let offer = OfferedRelease::of(news)?;
    let AppInstance { target, app } = &offer.instance;
    let Rollback { away, .. } = news.deployment.rollback.as_ref()?;
    let away = away.as_ref().map_or_else(String::new, |away| {
        format!(" That can be {} again, which was rolled back.", away.tag)
    });
    let actors = match news.holds {
        Holds::Everybody => "everybody who may",
        Holds::Automation | Holds::Off => "programs",
    };
    let effect = format!("On {target}, {actors} can deploy {app} from now on.{away}");
    Button::acting(END_HOLD, "End the hold", offer.value(), &effect)
}

/// Builds the button that approves the gate at which a rollout waits.
pub(super) fn approve_button(news: &RolloutNews) -> Option<Button> {
    let offer = OfferedApproval::of(news)?;
    let RolloutNews { app, tag, next_targets, .. } = news;
    let names: Vec<&str> = next_targets.iter().take(MAX_TARGETS).map(TargetName::as_str).collect();
    let next = match (names.join(", "), next_targets.len() - names.len()) {
        (_, _) if names.is_empty() => "No target follows.".to_owned(),
        (names, 0) => format!("The next targets are {names}."),
        (names, more) => format!("The next targets are {names} and {more} more."),
    };
    let effect = format!("The rollout of {tag} of {app} goes on. {next}");
    Button::acting(APPROVE, "Approve", offer.value(), &effect)
}

fn parse_instance([target, namespace, slug]: [&str; 3]) -> Option<AppInstance> {
    let app =
        AppKey { namespace: Namespace::parse(namespace).ok()?, slug: Slug::parse(slug).ok()? };
    Some(AppInstance { target: TargetName::parse(target).ok()?, app })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: &str = "20261121-054812123-0a0b0c";
    const TO: &str = "20261120-101112131-0a0b0c";

    const ROLLOUT: &str = "r-20261121-054812123-3f9a2c";

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let text = format!("prod-cluster-1 devx shop {LIVE} {TO}");
        let Some(OfferedAct::RollBack(offer)) = OfferedAct::parse(ROLL_BACK, &text) else {
            panic!("{text}");
        };
        assert_eq!((offer.live.as_str(), offer.to.as_str()), (LIVE, TO));
        assert_eq!(offer.value(), text);
        let text = format!("prod-cluster-1 devx shop {LIVE}");
        let Some(OfferedAct::EndHold(offer)) = OfferedAct::parse(END_HOLD, &text) else {
            panic!("{text}");
        };
        assert_eq!((offer.rollback.as_str(), offer.value()), (LIVE, text));
        let text = format!("{ROLLOUT} 12");
        let Some(OfferedAct::Approve(offer)) = OfferedAct::parse(APPROVE, &text) else {
            panic!("{text}");
        };
        assert_eq!((offer.step, offer.value()), (12, text));
    }

    #[test]
    fn other_values_are_no_offers() {
        let rollback = format!("prod-cluster-1 devx shop {LIVE} {TO}");
        let release = format!("prod-cluster-1 devx shop {LIVE}");
        let approval = format!("{ROLLOUT} 1");
        for (name, good) in [(ROLL_BACK, &rollback), (END_HOLD, &release), (APPROVE, &approval)] {
            assert!(OfferedAct::parse(name, good).is_some(), "{good}");
            for value in [
                String::new(),
                good.replacen(' ', "  ", 1),
                format!("{good} more"),
                good.replace("devx", "../x").replace("r-", "../"),
                good.replace(LIVE, "latest").replace(" 1", " first"),
                good.replace("prod-cluster-1", "<!channel>").replace(" 1", " +1"),
                good.replace(LIVE, "").replace(" 1", " 99999999999999999999"),
                "🦀".repeat(3000),
            ] {
                assert_eq!(OfferedAct::parse(name, &value), None, "{name} {value}");
            }
        }
        for (name, value) in [("remove", &rollback), (END_HOLD, &rollback), (APPROVE, &release)] {
            assert_eq!(OfferedAct::parse(name, value), None, "{name} {value}");
        }
    }
}
