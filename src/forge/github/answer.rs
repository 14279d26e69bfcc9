//! Answers of GitHub that are no success, as errors. Pure.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::forge::error::ForgeError;
use crate::forge::github::limits::is_core;
use crate::forge::github::permission::Permission;
use crate::forge::github::request::RequestSubject;
use crate::model::id::RepoName;
use crate::support::http::retry_after::retry_after_seconds;

/// GitHub's advice when it limits without saying for how long.
const LIMITED_WAIT: Duration = Duration::from_mins(1);
/// The primary limit is counted by the hour; nothing needs a longer wait.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// GitHub's own words are for people; a page of HTML from a proxy is not.
const MESSAGE_CHARACTERS: usize = 200;

/// An answer whose status is no success.
#[derive(Debug)]
pub(super) struct ErrorAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) message: String,
    /// GitHub's list of what is wrong, as it sends it; null if there is none.
    pub(super) errors: Json,
    /// The permission that the request needs.
    permission: Permission,
}

/// The credentials of the request, for the way out in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requester {
    /// The owner of the service's token.
    Token,
    /// An installation of the service's App, and the page where it is changed, if that is known.
    Installation(Option<String>),
    /// The service's App itself.
    App,
}

impl ErrorAnswer {
    pub(super) fn new(
        status: StatusCode,
        headers: HeaderMap,
        body: &[u8],
        permission: Permission,
    ) -> Self {
        let AnswerBody { message, errors } = AnswerBody::read(body);
        Self { status, headers, message, errors, permission }
    }

    /// Converts the answer into the error for any caller; the meaning of 404 depends on the request and is decided
    /// before.
    pub(super) fn error(
        self,
        host: &str,
        subject: RequestSubject<'_>,
        requester: &Requester,
    ) -> ForgeError {
        let limited = self.retry_after();
        match (self.status, limited) {
            (StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS, Some(retry_after)) => {
                ForgeError::RateLimited { host: host.to_owned(), retry_after }
            }
            (StatusCode::UNAUTHORIZED, _) => self.unauthorized(host, subject, requester),
            (StatusCode::FORBIDDEN, None) => match subject {
                RequestSubject::Repository(repository) if self.says_archived() => {
                    let (host, repository) = (host.to_owned(), repository.clone());
                    ForgeError::Archived { host, repository }
                }
                _ => self.forbidden(host, subject, requester),
            },
            (StatusCode::NOT_FOUND, _) => match subject {
                RequestSubject::Repository(repository) => {
                    no_repository(repository.clone(), requester)
                }
                RequestSubject::Installation(..)
                | RequestSubject::App(_)
                | RequestSubject::Anything(_) => self.refused(host, subject),
            },
            (status, _) if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                let problem = format!("it answers {status}");
                ForgeError::Unreachable { host: host.to_owned(), problem }
            }
            (_, _) => self.refused(host, subject),
        }
    }

    fn unauthorized(
        self,
        host: &str,
        subject: RequestSubject<'_>,
        requester: &Requester,
    ) -> ForgeError {
        let help = match requester {
            Requester::Token => {
                "the token is wrong, expired or revoked; set forge.github.token".to_owned()
            }
            Requester::Installation(page) => format!(
                "it does not take a token that it made for the App; look at the installation{}",
                at(page.as_deref())
            ),
            Requester::App => format!(
                "it does not take the App's signature ({}); check forge.github.app.id, that its \
                 private_key is one of that App's, and the clock of this machine",
                self.message
            ),
        };
        ForgeError::BadCredentials { host: host.to_owned(), about: subject.to_string(), help }
    }

    fn forbidden(
        self,
        host: &str,
        subject: RequestSubject<'_>,
        requester: &Requester,
    ) -> ForgeError {
        let (host, subject, permission) = (host.to_owned(), subject.to_string(), self.permission);
        let help = match (requester, self.sign_on()) {
            (Requester::Installation(page), _) if self.says_suspended() => {
                return suspension(subject, page.as_deref());
            }
            _ if self.says_suspended() => return suspension(subject, None),
            (Requester::Installation(page), _)
                if self.contains_words("not accessible by integration") =>
            {
                return missing_permission(subject, permission, page.as_deref());
            }
            (Requester::Token, _) if self.contains_words("authenticate via a github app") => {
                return ForgeError::NeedsApp { what: "a check run" };
            }
            (Requester::Token, Some(url)) => {
                format!("its organization wants the token authorized for single sign-on at {url}")
            }
            (Requester::Token, None) => {
                format!("the token needs {permission}; it says: {}", self.message)
            }
            (Requester::Installation(_) | Requester::App, _) => {
                format!("it says: {}", self.message)
            }
        };
        ForgeError::Unauthorized { host, about: subject, help }
    }

    /// Returns the page where a token is authorized for an organization that wants single sign-on.
    pub(super) fn sign_on(&self) -> Option<&str> {
        let value = self.headers.get("x-github-sso")?.to_str().ok()?;
        value.split_once("url=").map(|(_, url)| url)
    }

    fn refused(self, host: &str, subject: RequestSubject<'_>) -> ForgeError {
        let Self { status, message, .. } = self;
        let (host, subject) = (host.to_owned(), subject.to_string());
        ForgeError::Refused { host, about: subject, status: status.as_u16(), message }
    }

    /// Returns whether a token that was good may have become worthless.
    pub(super) fn is_of_credentials(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
            || (self.status == StatusCode::FORBIDDEN
                && (self.says_suspended() || self.contains_words("not accessible by integration")))
    }

    pub(super) fn says_suspended(&self) -> bool {
        self.contains_words("suspended") && self.status == StatusCode::FORBIDDEN
    }

    /// Checks for GitHub's words: `Repository was archived so is read-only.`
    fn says_archived(&self) -> bool {
        self.contains_words("archived") && self.contains_words("read-only")
    }

    fn contains_words(&self, words: &str) -> bool {
        self.message.to_ascii_lowercase().contains(words)
    }

    /// Returns whether GitHub says that the commit, and not the file, is missing.
    pub(super) fn says_no_commit(&self) -> bool {
        self.contains_words("no commit found") || self.contains_words("repository is empty")
    }

    /// Returns the time for which no further request may be sent, if the answer has it.
    pub(super) fn time_to_wait(&self) -> Option<Duration> {
        let status = matches!(self.status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        self.retry_after().filter(|_| status)
    }

    /// Returns true if the hour's requests are used up, which count for every kind. Searches and others have limits of
    /// their own, which the service does not use.
    pub(super) fn has_used_up(&self) -> bool {
        is_core(&self.headers) && self.number("x-ratelimit-remaining") == Some(0)
    }

    /// Returns how long to wait, if this is a limit: its own word, else until the limit is reset.
    fn retry_after(&self) -> Option<Duration> {
        let limited =
            self.contains_words("rate limit") || self.status == StatusCode::TOO_MANY_REQUESTS;
        retry_after_seconds(&self.headers)
            .or_else(|| self.until_reset())
            .or(limited.then_some(LIMITED_WAIT))
            .map(|wait| wait.min(LONGEST_WAIT))
    }

    /// Returns the time until the reset, by the answer's own date, so that this machine's clock does not matter.
    fn until_reset(&self) -> Option<Duration> {
        if self.number("x-ratelimit-remaining")? != 0 {
            return None;
        }
        let reset = self.number("x-ratelimit-reset")?;
        let date = self.headers.get(DATE)?.to_str().ok()?;
        let date: Timestamp = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
        let now = u64::try_from(date.as_second()).ok()?;
        Some(Duration::from_secs(reset.saturating_sub(now).max(1)))
    }

    fn number(&self, header: &str) -> Option<u64> {
        self.headers.get(header)?.to_str().ok()?.trim().parse().ok()
    }
}

/// Builds the error of a missing repository: GitHub answers 404 for a repository that the caller may not see, too.
fn no_repository(repository: RepoName, requester: &Requester) -> ForgeError {
    let help = match requester {
        Requester::Token => "check the name, and that the token may read it".to_owned(),
        Requester::Installation(page) => format!(
            "check the name, and that the App has it in its installation{}",
            at(page.as_deref())
        ),
        Requester::App => "check the name, and that the App is installed on it".to_owned(),
    };
    ForgeError::NoRepository { repository, help }
}

/// Builds the error of a suspended installation.
pub(super) fn suspension(subject: String, page: Option<&str>) -> ForgeError {
    let help = format!("an owner of the account can unsuspend it{}", at(page));
    ForgeError::Suspended { about: subject, help }
}

/// Builds the error of a permission that the service's App lacks.
pub(super) fn missing_permission(
    subject: String,
    permission: Permission,
    page: Option<&str>,
) -> ForgeError {
    let help = format!(
        "grant it in the App's settings under Permissions & events; then an owner of the account \
         accepts it{}",
        at(page)
    );
    ForgeError::MissingPermission { about: subject, permission: permission.to_string(), help }
}

fn at(page: Option<&str>) -> String {
    page.map(|page| format!(" at {page}")).unwrap_or_default()
}

/// The body of an error.
#[derive(Deserialize)]
struct AnswerBody {
    message: String,
    #[serde(default)]
    errors: Json,
}

impl AnswerBody {
    /// Reads a body; the message has the errors, too, and is cut.
    fn read(body: &[u8]) -> Self {
        let Ok(Self { message, errors }) = serde_json::from_slice(body) else {
            return Self { message: "no further explanation".to_owned(), errors: Json::Null };
        };
        let message = if errors.is_null() { message } else { format!("{message} {errors}") };
        let message = message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS);
        Self { message: message.collect(), errors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> ErrorAnswer {
        let headers = headers.iter().map(|(name, value)| {
            (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
        });
        let (status, permission) = (StatusCode::from_u16(status).unwrap(), Permission::METADATA);
        ErrorAnswer::new(status, headers.collect(), body.as_bytes(), permission)
    }

    fn wait(answer: ErrorAnswer) -> Option<u64> {
        match answer.error(
            "github",
            RequestSubject::Repository(&RepoName::parse("a/b").unwrap()),
            &Requester::Token,
        ) {
            ForgeError::RateLimited { retry_after, .. } => Some(retry_after.as_secs()),
            _ => None,
        }
    }

    #[test]
    fn a_limit_says_how_long_to_wait_in_one_of_three_ways() {
        assert_eq!(wait(answer(403, &[("retry-after", "30")], "")), Some(30));
        let reset = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1795255290"),
            ("date", "Sat, 21 Nov 2026 10:00:00 GMT"),
        ];
        assert_eq!(wait(answer(403, &reset, "")), Some(1_795_255_290 - 1_795_255_200));
        let words = r#"{"message": "You have exceeded a secondary rate limit."}"#;
        assert_eq!(wait(answer(403, &[], words)), Some(60));
        assert_eq!(wait(answer(429, &[], "")), Some(60));
        assert_eq!(wait(answer(429, &[("retry-after", "999999")], "")), Some(3600));
    }

    #[test]
    fn a_refusal_without_a_limit_is_no_limit() {
        let remaining = [("x-ratelimit-remaining", "4999"), ("x-ratelimit-reset", "1795255290")];
        assert_eq!(
            wait(answer(403, &remaining, r#"{"message": "Resource not accessible"}"#)),
            None
        );
        assert_eq!(wait(answer(502, &[("retry-after", "30")], "<html>")), None);
    }

    fn format_error(answer: ErrorAnswer, requester: &Requester) -> String {
        let repository = RepoName::parse("a/b").unwrap();
        answer.error("github.com", RequestSubject::Repository(&repository), requester).to_string()
    }

    #[test]
    fn each_refusal_says_what_to_do_to_who_can_do_it() {
        let page = "https://github.com/organizations/a/settings/installations/1";
        let app = Requester::Installation(Some(page.to_owned()));
        let words = |message: &str| format!(r#"{{"message": "{message}"}}"#);
        let integration = words("Resource not accessible by integration");
        let sso = [("x-github-sso", "required; url=https://github.com/orgs/a/sso?x=1")];
        for (answer, requester, expected) in [
            (answer(401, &[], ""), &Requester::Token, "set forge.github.token"),
            (answer(401, &[], ""), &app, page),
            (
                answer(401, &[], &words("exp is too far")),
                &Requester::App,
                "(exp is too far); check",
            ),
            (
                answer(403, &[], &words("archived")),
                &Requester::Token,
                "needs metadata: read; it says: arch",
            ),
            (answer(403, &[], &integration), &Requester::Token, "the token needs metadata: read"),
            (answer(403, &[], &integration), &app, "lacks the permission `metadata: read` for a/b"),
            (
                answer(403, &sso, &words("SAML")),
                &Requester::Token,
                "https://github.com/orgs/a/sso?x=1",
            ),
            (answer(403, &[], &words("It has been suspended")), &app, "unsuspend it at https"),
            (answer(403, &[], &words("IP allow list")), &app, "it says: IP allow list"),
            (answer(404, &[], ""), &Requester::Token, "that the token may read it"),
            (answer(404, &[], ""), &app, "that the App has it in its installation at https"),
            (
                answer(403, &[], &words("Repository was archived so is read-only.")),
                &app,
                "repository a/b is archived",
            ),
            (answer(422, &[], &words("no")), &app, "refuses the request for a/b (422): no"),
        ] {
            let message = format_error(answer, requester);
            assert!(message.contains(expected), "{expected} in {message}");
        }
    }

    #[test]
    fn githubs_words_are_kept_and_a_proxys_page_is_not() {
        let long = r#"{"message": "Validation Failed", "errors": [{"code": "custom"}]}"#;
        let message = |body: &[u8]| AnswerBody::read(body).message;
        assert_eq!(message(long.as_bytes()), r#"Validation Failed [{"code":"custom"}]"#);
        assert_eq!(message(b"<html>secret</html>"), "no further explanation");
    }
}
