//! Who may call the API, and see the pages, as the settings say. Pure.

use crate::config::file::auth;
use crate::config::settings::{ApiToken, Settings};
use crate::server::auth::{Pages, Token, Tokens};

pub(super) fn tokens(settings: &Settings) -> Tokens {
    let token = |token: &ApiToken| Token { name: token.name.clone(), sha256: token.sha256 };
    Tokens(settings.tokens.iter().map(token).collect())
}

pub(super) fn pages(settings: &Settings) -> Pages {
    match settings.pages {
        auth::Pages::Token => Pages::Token,
        auth::Pages::Open => Pages::Open,
    }
}
