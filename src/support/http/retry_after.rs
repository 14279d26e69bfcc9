//! Parses `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). Pure.

use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;

/// Returns the time until the server accepts requests again; `None` without the header, or if that time is over.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if let Some(seconds) = retry_after_seconds(headers) {
        return Some(seconds);
    }
    let at = jiff::fmt::rfc2822::parse(text(headers)?).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

/// Does the same for a server that always sends seconds.
pub fn retry_after_seconds(headers: &HeaderMap) -> Option<Duration> {
    text(headers)?.parse().ok().map(Duration::from_secs)
}

fn text(headers: &HeaderMap) -> Option<&str> {
    Some(headers.get(RETRY_AFTER)?.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_seconds_or_a_date_and_nonsense_is_none() {
        let seconds_of = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            let seconds = |wait: Option<Duration>| wait.map(|wait| wait.as_secs());
            let from_any = retry_after(&headers, Timestamp::UNIX_EPOCH);
            (seconds(from_any), seconds(retry_after_seconds(&headers)))
        };
        assert_eq!(seconds_of(" 120 "), (Some(120), Some(120)));
        assert_eq!(seconds_of("Thu, 01 Jan 1970 00:10:00 GMT"), (Some(600), None));
        for nonsense in ["Wed, 31 Dec 1969 23:00:00 GMT", "soon", "-1", ""] {
            assert_eq!(seconds_of(nonsense), (None, None), "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::UNIX_EPOCH), None);
    }
}
