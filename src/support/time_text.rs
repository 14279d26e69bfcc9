//! Parses times and durations as people write them: `2026-11-21T08:00:00Z`, `2026-11-21`, `2h`, `2d`; formats short
//! durations.
//!
//! A time without a zone is in UTC, and a day means its beginning. A duration has minutes, hours, days and weeks; a day
//! has 24 hours. The caller explains a mistake: people see no message of the parser.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// The help for a wrong duration.
pub const DURATIONS: &str = "write it like 90m, 2h or 2d";
/// The help for a wrong moment.
pub const MOMENTS: &str = "write it like 2026-11-22 or 2026-11-22T08:00:00Z";

/// Parses a moment, or the beginning of a day.
pub fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let day = || text.parse::<Date>().ok().map(|day| day.to_datetime(Time::midnight()));
    let civil = || text.parse::<DateTime>().ok().or_else(day);
    let utc = || Some(civil()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    text.parse::<Timestamp>().ok().or_else(utc)
}

/// Parses a duration; without months and years, which have no fixed length. It may be negative.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let text = text.trim();
    let span = || {
        let span: Span = text.parse().ok()?;
        span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
    };
    // More hours than a calendar has are a duration all the same.
    span().or_else(|| text.parse().ok())
}

/// Formats a duration in microseconds with three digits: `61.2 ms`.
pub fn format_micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => {
            format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000)
        }
        60_000_000..3_600_000_000 => {
            format!("{} min {} s", micros / 60_000_000, micros / 1_000_000 % 60)
        }
        _ => format!("{} h {} min", micros / 3_600_000_000, micros / 60_000_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_days_are_read_in_utc() {
        for (text, expected) in [
            ("2026-11-21T05:48:12Z", "2026-11-21T05:48:12Z"),
            ("2026-11-21T05:48:12+01:00", "2026-11-21T04:48:12Z"),
            ("2026-11-21T05:48", "2026-11-21T05:48:00Z"),
            (" 2026-11-21 05:48 ", "2026-11-21T05:48:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
        ] {
            assert_eq!(moment(text), Some(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "x", "2h", "2026-13-01", "2026-11-21T25:00", "-"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_days_and_weeks_and_nothing_without_a_length() {
        for (text, hours) in
            [("2h", 2), ("2d", 48), ("1w", 168), ("1d 12h", 36), ("PT2H", 2), ("2 days ago", -48)]
        {
            assert_eq!(duration(text), Some(SignedDuration::from_hours(hours)), "{text}");
        }
        for text in ["", "2", "1y", "2months", "two hours", "99999999999999d"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        for (micros, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (61_290, "61.2 ms"),
            (123_456, "123 ms"),
            (4_650_000, "4.6 s"),
            (61_000_000, "1 min 1 s"),
            (7_260_000_000, "2 h 1 min"),
            (u64::MAX, "5124095576 h 1 min"),
        ] {
            assert_eq!(format_micros(micros), text);
        }
    }
}
