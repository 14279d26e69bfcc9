//! The acts of buttons, as the values of buttons carry them: what a person saw, so that an outdated button does nothing
//! else. Pure.

use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::model::rollback::Holds;
use crate::notify::message::News;
use crate::notify::message::block::Button;

/// The name of the button that rolls back.
pub const ROLL_BACK: &str = "roll-back";

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

impl OfferedRollback {
    /// Returns the rollback that a message offers; `None` where the deployment is not live, is being taken back, or
    /// belongs to a rollout, which has an undo of its own.
    pub(super) fn of(news: &News<'_>) -> Option<Self> {
        let Deployment { id, request, app, pushed, rollback, rollout, .. } = news.deployment;
        let is_offered = news.acts
            && pushed.is_some()
            && rollback.is_none()
            && rollout.is_none()
            && news.undo.is_none();
        let (app, to) = app.clone().zip(news.last_good.as_ref()).filter(|_| is_offered)?;
        let instance = AppInstance { target: request.target.clone(), app };
        Some(Self { instance, live: id.clone(), to: to.id.clone() })
    }

    /// Writes the value of the button.
    pub fn value(&self) -> String {
        let Self { instance: AppInstance { target, app }, live, to } = self;
        format!("{target} {} {} {live} {to}", app.namespace, app.slug)
    }

    /// Reads the value of a button; `None` if no button of this service has it.
    pub fn parse(value: &str) -> Option<Self> {
        let words: Vec<&str> = value.splitn(6, ' ').collect();
        let [target, namespace, slug, live, to] = words.try_into().ok()?;
        let app =
            AppKey { namespace: Namespace::parse(namespace).ok()?, slug: Slug::parse(slug).ok()? };
        let instance = AppInstance { target: TargetName::parse(target).ok()?, app };
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: &str = "20261121-054812123-0a0b0c";
    const TO: &str = "20261120-101112131-0a0b0c";

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let text = format!("prod-cluster-1 devx shop {LIVE} {TO}");
        let offer = OfferedRollback::parse(&text).unwrap();
        assert_eq!((offer.live.as_str(), offer.to.as_str()), (LIVE, TO));
        assert_eq!(offer.value(), text);
    }

    #[test]
    fn other_values_are_no_offers() {
        let good = format!("prod-cluster-1 devx shop {LIVE} {TO}");
        for value in [
            String::new(),
            good.replace(' ', "  "),
            format!("{good} more"),
            good.replace("devx", "../x"),
            good.replace(LIVE, "latest"),
            good.replace("prod-cluster-1", "<!channel>"),
            "🦀".repeat(3000),
        ] {
            assert_eq!(OfferedRollback::parse(&value), None, "{value}");
        }
    }
}
