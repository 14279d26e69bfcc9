//! Parses times in arguments and formats them in results, the same way for all commands.

use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::table::Column;
use crate::support::clock::Clock;
use crate::support::time_text::{self, DURATIONS, MOMENTS};

/// The help for a wrong time in the past.
const PAST: &str = "write it like 2h, 2d, 2026-11-21 or 2026-11-21T08:00:00Z";
/// The longest timeout.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// Parses a moment in the past, which may be written as a duration before now.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    past_from(text, Clock::system().now())
}

fn past_from(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let before = || now.checked_sub(time_text::duration(text)?.abs()).ok();
    time_text::moment(text).or_else(before).ok_or_else(|| PAST.to_owned())
}

/// Parses a moment at which something ends.
pub(super) fn end(text: &str) -> Result<Timestamp, String> {
    time_text::moment(text).ok_or_else(|| match time_text::duration(text) {
        Some(_) => format!("{MOMENTS}; for a duration use --for"),
        None => MOMENTS.to_owned(),
    })
}

/// Parses a duration above zero.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let long = time_text::duration(text).filter(SignedDuration::is_positive);
    long.ok_or_else(|| DURATIONS.to_owned())
}

/// Parses a timeout.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    let wait = time_text::duration(text).and_then(|long| Duration::try_from(long).ok());
    let wait = wait.ok_or_else(|| DURATIONS.to_owned())?;
    if wait > LONGEST_WAIT { Err("at most a day".to_owned()) } else { Ok(wait) }
}

/// The style of times in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum TimeStyle {
    /// The time since then: `3 h ago`.
    #[default]
    Relative,
    /// The moment, in UTC: `2026-11-21 08:00:00 UTC`.
    Absolute,
}

/// The style of this process; like colour, there is one for all output.
static STYLE: OnceLock<TimeStyle> = OnceLock::new();

/// The headers of a column of times, in either style.
pub(super) const WHEN: [&str; 2] = ["WHEN", "WHEN (UTC)"];
pub(super) const SINCE: [&str; 2] = ["SINCE", "SINCE (UTC)"];
pub(super) const UNTIL: [&str; 2] = ["UNTIL", "UNTIL (UTC)"];

/// The argument of every command with the style of times.
#[derive(Debug, Args)]
pub(super) struct TimesArgument {
    /// The style of times: how long ago, or the moment in UTC
    #[arg(
        long,
        global = true,
        value_name = "STYLE",
        value_enum,
        default_value_t,
        hide_short_help = true
    )]
    times: TimeStyle,
}

impl TimesArgument {
    /// Sets the style of this process; only the first call counts.
    pub(super) fn set(&self) {
        let _was_set_before = STYLE.set(self.times);
    }
}

/// A formatter of times for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeFormatter {
    pub(super) now: Timestamp,
    pub(super) style: TimeStyle,
}

impl TimeFormatter {
    /// Makes the formatter with the system's time and the style of the arguments.
    pub(super) fn system() -> Self {
        let style = STYLE.get().copied().unwrap_or_default();
        Self { now: Clock::system().now(), style }
    }

    /// Formats a past time: `3 h ago`, or the date if it is long ago. The service's clock may be ahead of this
    /// machine's.
    pub(super) fn ago(&self, at: Timestamp) -> String {
        match self.style {
            TimeStyle::Absolute => absolute(at),
            TimeStyle::Relative => match self.now.duration_since(at).as_secs() {
                ..60 => "just now".to_owned(),
                seconds => long(seconds).map_or_else(|| day(at), |long| format!("{long} ago")),
            },
        }
    }

    /// Formats a future time: `in 3 h`.
    pub(super) fn ahead(&self, at: Timestamp) -> String {
        match self.style {
            TimeStyle::Absolute => absolute(at),
            TimeStyle::Relative => match at.duration_since(self.now).as_secs() {
                ..0 => "over".to_owned(),
                left => {
                    // To the nearest: two hours must not be shown as one.
                    let half = match left {
                        ..60 => 0,
                        60..3_600 => 30,
                        3_600..86_400 => 1_800,
                        _ => 43_200,
                    };
                    long(left + half).map_or_else(|| day(at), |long| format!("in {long}"))
                }
            },
        }
    }

    /// Formats a past time, if it is known.
    pub(super) fn maybe_ago(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "-".to_owned(), |at| self.ago(at))
    }

    /// Makes the column of a table with times; the header has what the cells leave out.
    pub(super) fn column(&self, [relative, absolute]: [&'static str; 2]) -> Column {
        Column::whole(match self.style {
            TimeStyle::Relative => relative,
            TimeStyle::Absolute => absolute,
        })
    }

    /// Formats a past time for a table, if it is known: to the minute, so that it fits 80 columns.
    pub(super) fn past_cell(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "-".to_owned(), |at| self.cell(at, Self::ago))
    }

    /// Formats a future time for a table, if there is one.
    pub(super) fn future_cell(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "-".to_owned(), |at| self.cell(at, Self::ahead))
    }

    fn cell(&self, at: Timestamp, relative: impl Fn(&Self, Timestamp) -> String) -> String {
        match self.style {
            TimeStyle::Relative => relative(self, at),
            TimeStyle::Absolute => at.strftime("%Y-%m-%d %H:%M").to_string(),
        }
    }
}

fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// Formats a duration in its largest unit; `None` if it is too long for that.
fn long(seconds: i64) -> Option<String> {
    Some(match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        86_400..172_800 => "1 day".to_owned(),
        172_800..2_592_000 => format!("{} days", seconds / 86_400),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farther_away_the_less_exact() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let times = TimeFormatter { now: at("2026-11-21T12:00:00Z"), style: TimeStyle::Relative };
        for (moment, text) in [
            ("2026-11-21T12:00:30Z", "just now"),
            ("2026-11-21T11:59:30Z", "just now"),
            ("2026-11-21T11:58:59Z", "1 min ago"),
            ("2026-11-21T09:10:00Z", "2 h ago"),
            ("2026-11-20T11:00:00Z", "1 day ago"),
            ("2026-11-11T12:00:00Z", "10 days ago"),
            ("2026-06-01T12:00:00Z", "2026-06-01"),
        ] {
            assert_eq!(times.ago(at(moment)), text, "{moment}");
        }
        for (moment, text) in [
            ("2026-11-21T11:59:30Z", "over"),
            ("2026-11-21T12:00:30Z", "in 30 s"),
            ("2026-11-21T13:59:59Z", "in 2 h"),
            ("2026-11-21T14:20:00Z", "in 2 h"),
            ("2026-11-24T12:00:00Z", "in 3 days"),
            ("2027-11-24T12:00:00Z", "2027-11-24"),
        ] {
            assert_eq!(times.ahead(at(moment)), text, "{moment}");
        }
        let absolute = TimeFormatter { style: TimeStyle::Absolute, ..times };
        let moment = at("2026-11-21T05:48:12.5Z");
        for text in [absolute.ago(moment), absolute.ahead(moment)] {
            assert_eq!(text, "2026-11-21 05:48:12 UTC");
        }
        assert_eq!(times.maybe_ago(None), "-");
    }

    #[test]
    fn a_past_moment_is_written_as_a_time_a_day_or_how_long_ago() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-21T12:00:00Z");
        for (text, expected) in [
            ("2026-11-21T05:48:12Z", "2026-11-21T05:48:12Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("2h", "2026-11-21T10:00:00Z"),
            ("2d", "2026-11-19T12:00:00Z"),
            ("1h30m", "2026-11-21T10:30:00Z"),
            ("2 days ago", "2026-11-19T12:00:00Z"),
        ] {
            assert_eq!(past_from(text, now), Ok(at(expected)), "{text}");
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
