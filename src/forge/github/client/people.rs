//! Who somebody is.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::text::escaped_part;
use crate::forge::github::client::wire::Outcome;

/// A page about one person.
const LIMIT: usize = 256 * 1024;

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    email: Option<String>,
}

impl GitHub {
    /// Somebody's public e-mail address; `None` where there is none, or no such person.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn email_of(&self, login: &str) -> Result<Option<String>, ForgeError> {
        let about = About::Anything("a person's e-mail address");
        let route = format!("/users/{}", escaped_part(login));
        let call = Call::get(about, Permission::METADATA, route);
        match self.call(call.at_most(LIMIT)).await? {
            Outcome::Success(success) => {
                let User { email } = self.wire.parsed(&success.body)?;
                Ok(email.filter(|email| email.contains('@')))
            }
            Outcome::TooLong => Ok(None),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }
}
