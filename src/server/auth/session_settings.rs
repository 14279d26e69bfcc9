//! The configuration of sessions of browsers: their key, their times, and the OAuth client for sign-ins.

use crate::forge::github::client::sign_in::OAuthClient;
use crate::model::callers::SessionTimes;
use crate::server::auth::cookies::{CookieJar, CookieKey};

/// The configuration of sessions.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The key of cookies.
    pub key: CookieKey,
    /// The times for which people stay signed in.
    pub times: SessionTimes,
    /// The public address of the service.
    pub external_url: String,
    /// The service as an OAuth client, if people sign in with the code host.
    pub client: Option<OAuthClient>,
}

/// What sessions need.
pub(super) struct BrowserSessions {
    pub(super) jar: CookieJar,
    pub(super) client: Option<OAuthClient>,
    pub(super) times: SessionTimes,
    pub(super) external_url: String,
}

impl BrowserSessions {
    pub(super) fn new(settings: SessionSettings) -> Self {
        let SessionSettings { key, times, external_url, client } = settings;
        let is_secure = external_url.starts_with("https://");
        Self { jar: CookieJar::new(key, is_secure), client, times, external_url }
    }
}
