//! Whom this installation tells, and how fast each may be told. Pure.

use std::time::Duration;

use crate::config::settings::{self, Settings};
use crate::controller::outbox::pace::{Rate, Rates};
use crate::model::notice::Audience;

/// GitHub wants a second between writes, takes bursts, and no more than 80 calls a minute that make
/// something: <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>.
const GITHUB: Rate = Rate { burst: 20, every: Duration::from_secs(1) };

/// An Enterprise Server has no limits unless its operator sets some; then it says so when they are
/// reached.
const ENTERPRISE_SERVER: Rate = Rate { burst: 50, every: Duration::from_millis(100) };

/// Whom the settings name. The local forge takes statuses of deployments only, and shows none.
pub(super) fn audience(settings: &Settings) -> Audience {
    let github = matches!(settings.forge, settings::Forge::GitHub { .. });
    Audience { commits: github, ..Audience::default() }
}

/// How fast they are told.
pub(super) fn rates(settings: &Settings) -> Rates {
    let forge = match &settings.forge {
        settings::Forge::Local { .. } => Rate::FREE,
        settings::Forge::GitHub { api_url, .. } if is_enterprise_server(api_url) => {
            ENTERPRISE_SERVER
        }
        settings::Forge::GitHub { .. } => GITHUB,
    };
    Rates { forge, ..Rates::default() }
}

/// github.com and its relatives have a host for the API; an Enterprise Server has a path.
fn is_enterprise_server(api_url: &str) -> bool {
    api_url.trim_end_matches('/').ends_with("/api/v3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enterprise_server_is_known_by_its_path() {
        assert!(is_enterprise_server("https://github.example.com/api/v3/"));
        for url in ["https://api.github.com", "https://api.acme.ghe.com"] {
            assert!(!is_enterprise_server(url), "{url}");
        }
    }
}
