//! Times as people write them in arguments, so that all commands take them alike.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::support::time_text::{self, DURATIONS, MOMENTS};

/// What a wrong time in the past is answered with.
const PAST: &str = "write it like 2h, 2d, 2026-11-21 or 2026-11-21T08:00:00Z";
/// Nobody waits longer for a deployment.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// Reads a moment that may be written as so long before now.
///
/// # Errors
/// What may be written.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    past_from(text, Clock::system().now())
}

fn past_from(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let before = || now.checked_sub(time_text::duration(text)?.abs()).ok();
    time_text::moment(text).or_else(before).ok_or_else(|| PAST.to_owned())
}

/// Reads a moment at which something is to end.
///
/// # Errors
/// What may be written.
pub(super) fn end(text: &str) -> Result<Timestamp, String> {
    time_text::moment(text).ok_or_else(|| match time_text::duration(text) {
        Some(_) => format!("{MOMENTS}; how long is said with --for"),
        None => MOMENTS.to_owned(),
    })
}

/// Reads a duration that is not nothing.
///
/// # Errors
/// What may be written.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let long = time_text::duration(text).filter(|long| long.is_positive());
    long.ok_or_else(|| DURATIONS.to_owned())
}

/// Reads how long to wait.
///
/// # Errors
/// What may be written.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    let wait = time_text::duration(text).and_then(|long| Duration::try_from(long).ok());
    let wait = wait.ok_or_else(|| DURATIONS.to_owned())?;
    if wait > LONGEST_WAIT { Err("at most a day".to_owned()) } else { Ok(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_moment_is_written_as_a_time_a_day_or_how_long_ago() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-21T12:00:00Z");
        for (text, wanted) in [
            ("2026-11-21T05:48:12Z", "2026-11-21T05:48:12Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("2h", "2026-11-21T10:00:00Z"),
            ("2d", "2026-11-19T12:00:00Z"),
            ("1h30m", "2026-11-21T10:30:00Z"),
            ("2 days ago", "2026-11-19T12:00:00Z"),
        ] {
            assert_eq!(past_from(text, now), Ok(at(wanted)), "{text}");
        }
        for text in ["", "x", "2", "2months", "2026-13-01", "999999999d"] {
            assert_eq!(past_from(text, now), Err(PAST.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_end_is_a_moment_and_a_duration_has_days() {
        assert_eq!(end("2026-11-22"), Ok("2026-11-22T00:00:00Z".parse().unwrap()));
        assert!(end("2d").unwrap_err().ends_with("--for"));
        assert_eq!(end("soon"), Err(MOMENTS.to_owned()));
        assert_eq!(duration("2d"), Ok(SignedDuration::from_hours(48)));
        for text in ["", "2", "0s", "-2h", "1y", "2h ago", "two hours"] {
            assert_eq!(duration(text), Err(DURATIONS.to_owned()), "{text}");
        }
        assert_eq!(patience("15m"), Ok(Duration::from_mins(15)));
        assert_eq!(patience("2d"), Err("at most a day".to_owned()));
        assert_eq!(patience("-1s"), Err(DURATIONS.to_owned()));
    }
}
