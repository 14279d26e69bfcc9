//! What can go wrong on the way to a git server, and how an HTTP answer is judged. Pure but for
//! the types of the HTTP client it reads.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{StatusCode, Url};

use crate::git::error::WriteError;
use crate::git::ssh;
use crate::git::token::NoToken;
use crate::support::cause::innermost_cause;
use crate::support::http::retry_after::retry_after_seconds;

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    NoToken(#[from] NoToken),
    #[error("HTTP {status}: the token is not accepted")]
    Unauthorized { status: u16 },
    #[error("HTTP {status}: no repository there")]
    NotFound { status: u16 },
    #[error("HTTP {status}: the server asks us to wait")]
    Limited { status: u16, wait: Option<Duration> },
    #[error("the server answers with HTTP {status}")]
    Server { status: u16 },
    #[error("the repository has moved to {to}: write the new address into the configuration")]
    Moved { to: String },
    #[error("the answer is not git's ({content_type}): is the address a git repository's?")]
    NotGit { content_type: String },
    #[error("the answer is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("{0}")]
    Broken(String),
    #[error("it was cut off: its lease had ended")]
    LeaseOver,
    /// Not HTTP at all.
    #[error(transparent)]
    Ssh(#[from] ssh::Failure),
}

impl Failure {
    /// Of the HTTP client's error: the innermost cause says most, and the address is left out.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let what = match error {
            error if error.is_connect() => "no connection",
            error if error.is_timeout() => "no answer in time",
            error if error.is_body() || error.is_decode() => "the connection was cut",
            _ => "the request failed",
        };
        let cause = innermost_cause(error);
        let inner =
            if std::ptr::addr_eq(cause, error) { String::new() } else { format!(" ({cause})") };
        Self::Broken(clean(&format!("{what}{inner}")))
    }

    pub(super) fn silent(after: Duration) -> Self {
        Self::Broken(format!("the server said nothing for {} s", after.as_secs_f32()))
    }

    /// Of an answer to a push that only says something else.
    pub(super) fn unreported(words: &str) -> Self {
        Self::Broken(clean(&unreported(words)))
    }

    pub(super) fn cut(error: &std::io::Error) -> Self {
        Self::Broken(clean(&format!("the connection was cut ({error})")))
    }

    /// Whether the server surely did nothing with what was sent.
    pub(super) fn is_definite(&self) -> bool {
        match self {
            Self::NoToken(_)
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Limited { .. } => true,
            Self::Server { .. }
            | Self::Moved { .. }
            | Self::NotGit { .. }
            | Self::TooLarge { .. }
            | Self::Broken(_)
            | Self::LeaseOver
            | Self::Ssh(_) => false,
        }
    }

    /// The same, as the writer's error; `help` is what to do about a token that is not accepted.
    pub(super) fn into_error(self, repository: String, help: &str) -> WriteError {
        let cause = self.to_string();
        match self {
            Self::NoToken(why) => WriteError::NoToken { repository, why },
            Self::Unauthorized { status } => {
                WriteError::Unauthorized { repository, status, help: help.to_owned() }
            }
            Self::NotFound { .. } => WriteError::NotFound { repository },
            Self::LeaseOver => WriteError::LeaseOver { repository },
            Self::Limited { wait, .. } => WriteError::Unreachable { repository, cause, wait },
            Self::Moved { .. } | Self::NotGit { .. } | Self::TooLarge { .. } => {
                WriteError::Invalid(format!("{repository}: {cause}"))
            }
            Self::Server { .. } | Self::Broken(_) => {
                WriteError::Unreachable { repository, cause, wait: None }
            }
            Self::Ssh(failure) => failure.into_error(repository, help),
        }
    }
}

/// Judges an answer by its head alone.
pub(super) fn check(
    response: &reqwest::Response,
    base: &Url,
    expected: &str,
) -> Result<(), Failure> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    // Before the status: a push that is sent on arrives there as a question, without our token, and
    // what is answered to that says nothing about the repository.
    if let Some(to) = moved(response.url(), base) {
        return Err(Failure::Moved { to });
    }
    judge(response.status(), retry_after_seconds(response.headers()))?;
    let content_type = header(CONTENT_TYPE).unwrap_or("no content type");
    if content_type.split(';').next().map(str::trim) != Some(expected) {
        return Err(Failure::NotGit { content_type: clean(content_type) });
    }
    Ok(())
}

/// The repository that we were sent on to, if the answer came from elsewhere.
fn moved(from: &Url, base: &Url) -> Option<String> {
    if from.origin() == base.origin() && from.path().starts_with(base.path()) {
        return None;
    }
    let tails = ["/info/refs", "/git-receive-pack", "/git-upload-pack"];
    let path = tails.iter().find_map(|tail| from.path().strip_suffix(tail));
    let path = path.unwrap_or_else(|| from.path());
    Some(clean(&format!("{}{path}", from.origin().ascii_serialization())))
}

/// What to say of a push whose answer is only these words.
pub(super) fn unreported(words: &str) -> String {
    let said = words.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("the server did not report what became of the push, but said: {said}")
}

fn judge(status: StatusCode, wait: Option<Duration>) -> Result<(), Failure> {
    let number = status.as_u16();
    match number {
        200 => Ok(()),
        // GitHub's limits come as 403 or 429; of the 403s only a limit says how long to wait.
        403 | 503 if wait.is_some() => Err(Failure::Limited { status: number, wait }),
        429 => Err(Failure::Limited { status: number, wait }),
        401 | 403 => Err(Failure::Unauthorized { status: number }),
        404 | 410 => Err(Failure::NotFound { status: number }),
        _ => Err(Failure::Server { status: number }),
    }
}

/// Text of others for our messages: one line, bounded, and no NUL for libgit2 to trip over.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, wait: Option<u64>) -> Option<Failure> {
        let status = StatusCode::from_u16(status).unwrap();
        judge(status, wait.map(Duration::from_secs)).err()
    }

    #[test]
    fn a_status_says_what_to_do_next() {
        assert_eq!(judged(200, None), None);
        assert_eq!(judged(401, None), Some(Failure::Unauthorized { status: 401 }));
        assert_eq!(judged(403, None), Some(Failure::Unauthorized { status: 403 }));
        assert_eq!(judged(404, None), Some(Failure::NotFound { status: 404 }));
        assert_eq!(judged(502, None), Some(Failure::Server { status: 502 }));
        let wait = Some(Duration::from_mins(1));
        assert_eq!(judged(403, Some(60)), Some(Failure::Limited { status: 403, wait }));
        assert_eq!(judged(429, None), Some(Failure::Limited { status: 429, wait: None }));
    }

    #[test]
    fn who_is_sent_on_is_told_the_repositorys_address() {
        let url = |text: &str| Url::parse(text).unwrap();
        let base = url("https://git.example.com/o/n.git");
        let to = |from: &str| moved(&url(from), &base);
        assert_eq!(to("https://git.example.com/o/n.git/git-receive-pack"), None);
        for tail in ["/info/refs?service=git-receive-pack", "/git-receive-pack", "/git-upload-pack"]
        {
            let from = format!("https://git.example.com/p/m.git{tail}");
            assert_eq!(to(&from).as_deref(), Some("https://git.example.com/p/m.git"));
        }
        let elsewhere = to("https://example.net/o/n.git/info/refs");
        assert_eq!(elsewhere.as_deref(), Some("https://example.net/o/n.git"));
    }

    #[test]
    fn only_an_answer_of_the_door_is_definite() {
        assert!(Failure::Unauthorized { status: 401 }.is_definite());
        assert!(!Failure::Server { status: 502 }.is_definite());
        assert!(!Failure::silent(Duration::from_secs(1)).is_definite());
    }
}
