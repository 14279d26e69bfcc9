//! Who may call the API, and see the pages, and how much of everybody is taken, as the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::app::StartError;
use crate::config::auth::{self, ApiToken, People};
use crate::config::limits::LimitSettings;
use crate::config::settings::Settings;
use crate::model::id::{TargetName, TeamName};
use crate::model::target::Clusters;
use crate::server::Limits;
use crate::server::auth::{
    Admission, GitHubCallers, Pages, PrintKey, Proxies, Rights, Scope, Site, Token, Tokens,
};
use crate::server::connections::ConnectionLimits;
use crate::server::descriptors::room_for_connections;
use crate::support::globs::{GlobError, Globs};

pub(super) fn tokens(settings: &Settings) -> Result<Tokens, StartError> {
    settings.tokens.iter().map(token).collect::<Result<_, _>>().map(Tokens)
}

pub(super) fn pages(settings: &Settings) -> Pages {
    match settings.pages {
        auth::Pages::Token => Pages::Token,
        auth::Pages::Open => Pages::Open,
    }
}

/// What else is asked of callers.
pub(super) fn others(settings: &Settings) -> Result<Admission, StartError> {
    let github = settings.people.clone().map(|people| {
        let People { admins, readers } = people;
        GitHubCallers { admins, readers }
    });
    Ok(Admission {
        github,
        deploy_teams: deploy_teams(&settings.clusters),
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
    let proxies = settings.server.trusted_proxies.iter();
    Proxies(proxies.map(|network| (network.address, network.bits)).collect())
}

fn token(token: &ApiToken) -> Result<Token, StartError> {
    let ApiToken { name, sha256, scope, targets, apps } = token;
    let scope = match scope {
        auth::Scope::Read => Scope::Read,
        auth::Scope::Deploy => Scope::Deploy,
        auth::Scope::Admin => Scope::Admin,
    };
    let rights =
        Rights { scope, targets: globs(targets.as_deref())?, apps: globs(apps.as_deref())? };
    Ok(Token { name: name.clone(), sha256: *sha256, rights: Arc::new(rights) })
}

fn globs(texts: Option<&[String]>) -> Result<Globs, StartError> {
    let part = "the tokens of the configuration";
    let failed = |error: GlobError| StartError::Part { part, cause: error.to_string() };
    texts.map_or_else(|| Ok(Globs::default()), |texts| Globs::parse(texts).map_err(failed))
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

fn key() -> Result<PrintKey, StartError> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| StartError::Part {
        part: "the system's random numbers",
        cause: "it has none".to_owned(),
    })?;
    Ok(PrintKey::new(bytes))
}
