//! What is asked of callers, and how much of everybody is taken, as the settings say.

use std::collections::BTreeMap;

use crate::app::StartError;
use crate::config::limits::LimitSettings;
use crate::config::settings::Settings;
use crate::model::id::{TargetName, TeamName};
use crate::model::target::Clusters;
use crate::server::Limits;
use crate::server::auth::{Admission, FingerprintKey, Proxies, Site};
use crate::server::connections::ConnectionLimits;
use crate::server::descriptors::room_for_connections;

/// What is asked of callers.
pub(super) fn of(settings: &Settings) -> Result<Admission, StartError> {
    Ok(Admission {
        tokens: settings.tokens.clone(),
        github: settings.people.clone(),
        deploy_teams: deploy_teams(&settings.clusters),
        repositories: settings.webhook.rules.repositories.clone(),
        proxies: proxies(settings),
        site: Site::of(&settings.server.external_url),
        requests_per_minute: settings.limits.requests_per_minute,
        key: key()?,
    })
}

/// Bounds on requests.
pub(super) fn limits(settings: &Settings) -> Limits {
    let LimitSettings { body, body_timeout, .. } = settings.limits;
    Limits { body_bytes: body, body_timeout, ..Limits::default() }
}

/// Bounds on connections, of which each is an open file.
pub(super) fn connections(settings: &Settings, open_files: Option<u64>) -> ConnectionLimits {
    let LimitSettings {
        header_timeout,
        idle_timeout,
        write_timeout,
        connections,
        connections_per_address,
        ..
    } = settings.limits;
    ConnectionLimits {
        most: room_for_connections(connections, open_files),
        per_address: connections_per_address,
        header_timeout,
        idle_timeout,
        write_timeout,
        proxies: proxies(settings),
    }
}

fn proxies(settings: &Settings) -> Proxies {
    Proxies(settings.server.trusted_proxies.clone())
}

/// The targets that ask for teams; the settings are made of names that can be read.
fn deploy_teams(clusters: &Clusters) -> BTreeMap<TargetName, Vec<TeamName>> {
    let Clusters::Known(targets) = clusters else { return BTreeMap::new() };
    let asking = targets.iter().filter_map(|(name, target)| {
        let teams = target.policies.deploy_teams.iter();
        let teams: Vec<_> = teams.filter_map(|name| TeamName::parse(name.as_str()).ok()).collect();
        (!teams.is_empty()).then(|| (name.clone(), teams))
    });
    asking.collect()
}

fn key() -> Result<FingerprintKey, StartError> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| StartError::Part {
        part: "the system's random numbers",
        cause: "it has none".to_owned(),
    })?;
    Ok(FingerprintKey::new(bytes))
}
