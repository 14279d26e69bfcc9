//! Whom this installation tells, and how fast each may be told. Pure.

use std::time::Duration;

use crate::config::forge::{ForgeSettings, GitHubCredentials};
use crate::config::settings::Settings;
use crate::controller::outbox::rates::{Hourly, Rates};
use crate::model::notice::Audience;
use crate::support::rate_limit::Rate;

/// GitHub wants a second between writes, takes bursts, and no more than 80 calls a minute that make
/// something: <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>. An
/// Enterprise Server may be set to the same, and statuses that are behind are left out anyway. Two of
/// the eighty are left for rollbacks, which take a call more than the one that was waited for.
const GITHUB: Rate = Rate { burst: 18, every: Duration::from_secs(1) };

/// The same page: 500 an hour. Twenty are left for previews and what is repeated.
const GITHUB_HOURLY: u32 = 480;

/// Whom the settings name. The local forge has nobody to show a commit to; check runs are for Apps.
pub(super) fn audience(settings: &Settings) -> Audience {
    let (commits, checks) = match &settings.forge {
        ForgeSettings::Local { .. } => (false, false),
        ForgeSettings::GitHub { credentials: GitHubCredentials::Token(_), .. } => (true, false),
        ForgeSettings::GitHub { credentials: GitHubCredentials::App(_), .. } => (true, true),
    };
    let events = settings.event_webhooks.iter().map(|one| one.name.clone()).collect();
    let argocd = settings.argocd.keys().cloned().collect();
    Audience { commits, checks, slack: settings.slack.is_some(), events, argocd }
}

/// How fast they are told.
pub(super) fn rates(settings: &Settings) -> Rates {
    let (forge, forge_hourly) = match &settings.forge {
        ForgeSettings::Local { .. } => (Rate::FREE, None),
        ForgeSettings::GitHub { credentials, .. } => {
            let by_owner = matches!(credentials, GitHubCredentials::App(_));
            (GITHUB, Some(Hourly { most: GITHUB_HOURLY, by_owner }))
        }
    };
    Rates { forge, forge_hourly, ..Rates::default() }
}
