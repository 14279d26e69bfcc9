//! Who somebody is.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call, Outcome};
use crate::forge::github::client::text::escaped_part;

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
        let call = Call::get(about, format!("/users/{}", escaped_part(login))).at_most(LIMIT);
        match self.call(call).await? {
            Outcome::Success(body, _) => {
                let User { email } = self.parsed(&body)?;
                Ok(email.filter(|email| email.contains('@')))
            }
            Outcome::TooLong => Ok(None),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Outcome::Failure(answer) => Err(self.refused(answer, about)),
        }
    }
}
