//! What an answer of GitHub's that is no success means. Pure.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::client::call::About;
use crate::model::id::RepoName;

/// GitHub's advice when it limits without saying for how long.
const LIMITED_WAIT: Duration = Duration::from_mins(1);
/// The primary limit is counted by the hour; nothing needs a longer wait.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// GitHub's own words are for people; a page of HTML from a proxy is not.
const MESSAGE_CHARACTERS: usize = 200;

/// An answer whose status is no success.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) message: String,
}

impl Answer {
    pub(super) fn new(status: StatusCode, headers: HeaderMap, body: &[u8]) -> Self {
        Self { status, headers, message: message(body) }
    }

    /// What any caller makes of it; what 404 means depends on the question and is asked before.
    pub(super) fn error(self, host: &str, about: About<'_>) -> ForgeError {
        let (host, named) = (host.to_owned(), about.to_string());
        let limited = self.retry_after();
        match (self.status, limited) {
            (StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS, Some(retry_after)) => {
                ForgeError::RateLimited { host, retry_after }
            }
            (StatusCode::UNAUTHORIZED, _) => ForgeError::Unauthorized {
                host,
                about: named,
                help: "the token is wrong, expired or revoked; set forge.github.token".into(),
            },
            (StatusCode::FORBIDDEN, None) => ForgeError::Unauthorized {
                host,
                about: named,
                help: "the token needs to read contents and to write deployments".into(),
            },
            (StatusCode::NOT_FOUND, _) => match about {
                About::Repository(repository) => no_repository(repository.clone()),
                About::Anything(_) => self.refused(host, named),
            },
            (StatusCode::REQUEST_TIMEOUT, _) => self.unreachable(host),
            (status, _) if status.is_server_error() => self.unreachable(host),
            (_, _) => self.refused(host, named),
        }
    }

    fn refused(self, host: String, about: String) -> ForgeError {
        let Self { status, message, .. } = self;
        ForgeError::Refused { host, about, status: status.as_u16(), message }
    }

    /// Whether GitHub says that the commit, and not the file, is missing.
    pub(super) fn says_no_commit(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        message.contains("no commit found") || message.contains("repository is empty")
    }

    fn unreachable(&self, host: String) -> ForgeError {
        ForgeError::Unreachable { host, problem: format!("it answers {}", self.status) }
    }

    /// How long to wait, if this is a limit: its own word, else until the limit is reset.
    fn retry_after(&self) -> Option<Duration> {
        let says_so = self.message.to_ascii_lowercase().contains("rate limit");
        let limited = says_so || self.status == StatusCode::TOO_MANY_REQUESTS;
        self.number(RETRY_AFTER.as_str())
            .map(Duration::from_secs)
            .or_else(|| self.until_reset())
            .or(limited.then_some(LIMITED_WAIT))
            .map(|wait| wait.min(LONGEST_WAIT))
    }

    /// By the answer's own date, so that our clock does not matter.
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

/// GitHub answers 404 for what a token may not see, too.
pub(super) fn no_repository(repository: RepoName) -> ForgeError {
    let help = "check the name, and that the token may read it".to_owned();
    ForgeError::NoRepository { repository, help }
}

fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        message: String,
        #[serde(default)]
        errors: serde_json::Value,
    }
    let Ok(Body { message, errors }) = serde_json::from_slice(body) else {
        return "no further explanation".to_owned();
    };
    let message = if errors.is_null() { message } else { format!("{message} {errors}") };
    message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
        });
        Answer::new(StatusCode::from_u16(status).unwrap(), headers.collect(), body.as_bytes())
    }

    fn wait(answer: Answer) -> Option<u64> {
        match answer.error("github", About::Repository(&RepoName::parse("a/b").unwrap())) {
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

    #[test]
    fn githubs_words_are_kept_and_a_proxys_page_is_not() {
        let long = r#"{"message": "Validation Failed", "errors": [{"code": "custom"}]}"#;
        assert_eq!(message(long.as_bytes()), r#"Validation Failed [{"code":"custom"}]"#);
        assert_eq!(message(b"<html>secret</html>"), "no further explanation");
    }
}
