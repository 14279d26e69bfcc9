//! Parsed windows: the times of the week at which a target takes deployments.
//!
//! Every edge is a time of day in the window's own time zone, so a window keeps its hours when
//! clocks change. A closed window wins over an open one; while there is no open one, all that is
//! not closed is open.

use jiff::civil::{Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp, Zoned};

use crate::model::lock::Window;

/// A week, and a day for windows that end tomorrow and clocks that change: what comes, comes
/// within it.
const HORIZON_DAYS: i64 = 9;

/// The error of a window that cannot be read: its key, the fault, and the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {message}; {help}")]
pub struct WindowError {
    /// The window's key: `days`.
    pub key: &'static str,
    /// The fault.
    pub message: String,
    /// The right form.
    pub help: &'static str,
}

/// A window that was read.
#[derive(Debug, Clone)]
pub struct Weekly {
    days: [bool; 7],
    from: Time,
    to: Time,
    /// True if `to` is on the next day.
    overnight: bool,
    zone: TimeZone,
    closed: bool,
    reason: Option<String>,
}

impl Weekly {
    /// Reads a window of the configuration.
    ///
    /// # Errors
    /// The first key that cannot be read.
    pub fn parse(window: &Window) -> Result<Self, WindowError> {
        let Window { days, from, to, time_zone, closed, reason } = window;
        let from = time("from", from)?;
        let to = if to == "24:00" { Time::midnight() } else { time("to", to)? };
        Ok(Self {
            days: parse_days(days)?,
            from,
            to,
            overnight: to <= from,
            zone: zone(time_zone.as_deref())?,
            closed: *closed,
            reason: reason.clone(),
        })
    }

    /// Finds the end of the window, if the time is within it.
    fn holds(&self, now: Timestamp) -> Option<Timestamp> {
        let today = now.to_zoned(self.zone.clone());
        // Yesterday's may end today.
        [-1, 0]
            .into_iter()
            .filter_map(|day| self.on(&today, day))
            .find_map(|(from, to)| (from <= now && now < to).then_some(to))
    }

    /// Finds when it begins and ends so many days from a time, if it is on that day of the week.
    fn on(&self, today: &Zoned, days: i64) -> Option<(Timestamp, Timestamp)> {
        let date = today.date().checked_add(Span::new().days(days)).ok()?;
        let is_on =
            *self.days.get(usize::try_from(date.weekday().to_monday_zero_offset()).ok()?)?;
        let end = if self.overnight { date.tomorrow().ok()? } else { date };
        let at = |date: jiff::civil::Date, time| {
            date.to_datetime(time).to_zoned(self.zone.clone()).ok().map(|zoned| zoned.timestamp())
        };
        if is_on { Some((at(date, self.from)?, at(end, self.to)?)) } else { None }
    }
}

/// The answer for one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The target takes deployments.
    Open,
    /// The target takes no deployments.
    Closed {
        /// The reason of the window that stops them, if it has one.
        reason: Option<String>,
        /// The time at which it opens, in the zone of the window that stops it; `None`: never.
        next: Option<Zoned>,
    },
}

/// Finds whether a target with these windows may be deployed to at that time.
pub fn at(windows: &[Weekly], now: Timestamp) -> Opening {
    of_all(&[windows], now)
}

/// Finds whether all of some targets may be deployed to at that time, such as the clusters of a fleet. The windows are
/// those of each.
fn of_all(targets: &[&[Weekly]], now: Timestamp) -> Opening {
    let blocking = |at| targets.iter().find_map(|windows| blocking(windows, at));
    let Some(blocking_now) = blocking(now) else { return Opening::Open };
    let mut edges: Vec<Timestamp> =
        targets.iter().flat_map(|windows| edges(windows, now)).collect();
    edges.sort_unstable();
    edges.dedup();
    let next = edges.into_iter().find(|edge| blocking(*edge).is_none());
    Opening::Closed {
        reason: blocking_now.reason.clone(),
        next: next.map(|next| next.to_zoned(blocking_now.zone.clone())),
    }
}

/// Finds the same for windows as they were written.
///
/// # Errors
/// The first window that cannot be read.
pub fn at_written(windows: &[Window], now: Timestamp) -> Result<Opening, WindowError> {
    let windows = windows.iter().map(Weekly::parse).collect::<Result<Vec<_>, _>>()?;
    Ok(at(&windows, now))
}

/// Finds whether all of some targets are open, for windows as they were written, those of each target.
///
/// # Errors
/// The first window that cannot be read.
pub fn of_all_written(targets: &[&[Window]], now: Timestamp) -> Result<Opening, WindowError> {
    // Clusters have the same windows, mostly.
    let mut different: Vec<&[Window]> = Vec::new();
    for windows in targets {
        if !different.contains(windows) {
            different.push(windows);
        }
    }
    let read = |windows: &&[Window]| windows.iter().map(Weekly::parse).collect();
    let windows = different.iter().map(read).collect::<Result<Vec<Vec<_>>, _>>()?;
    Ok(of_all(&windows.iter().map(Vec::as_slice).collect::<Vec<_>>(), now))
}

/// A time in which a target is open, or closed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningSpan {
    /// The begin.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
    /// True if the target takes deployments.
    pub is_open: bool,
    /// The reason of the window that stops them, if it has one.
    pub reason: Option<String>,
}

/// Lists when a target with these windows is open and closed from one time to another, at most nine days later.
///
/// # Errors
/// The first window that cannot be read.
pub fn list_spans(
    windows: &[Window],
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<OpeningSpan>, WindowError> {
    let windows = windows.iter().map(Weekly::parse).collect::<Result<Vec<_>, _>>()?;
    let edges = edges(&windows, from);
    let begins = std::iter::once(from).chain(edges.into_iter().filter(|edge| *edge < to));
    let mut spans: Vec<OpeningSpan> = Vec::new();
    for begin in begins {
        let blocking = blocking(&windows, begin);
        let reason = blocking.and_then(|window| window.reason.clone());
        let is_open = blocking.is_none();
        match spans.last_mut() {
            Some(last) if last.is_open == is_open && last.reason == reason => {}
            last => {
                if let Some(last) = last {
                    last.to = begin;
                }
                spans.push(OpeningSpan { from: begin, to, is_open, reason });
            }
        }
    }
    Ok(spans)
}

/// Finds the window that keeps it closed: a closed one that holds, else, where there are open ones
/// and none of them holds, the first of those.
fn blocking(windows: &[Weekly], now: Timestamp) -> Option<&Weekly> {
    let closed = windows.iter().find(|window| window.closed && window.holds(now).is_some());
    let mut open = windows.iter().filter(|window| !window.closed);
    let none_holds = || {
        let holds = open.clone().any(|window| window.holds(now).is_some());
        open.next().filter(|_| !holds)
    };
    closed.or_else(none_holds)
}

/// Lists all times after this one at which something may change, in order.
fn edges(windows: &[Weekly], now: Timestamp) -> Vec<Timestamp> {
    let mut edges: Vec<Timestamp> = windows
        .iter()
        .flat_map(|window| {
            let today = now.to_zoned(window.zone.clone());
            let days = (-1..=HORIZON_DAYS).filter_map(move |day| window.on(&today, day));
            days.flat_map(|(from, to)| [from, to])
        })
        .filter(|edge| *edge > now)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn time(key: &'static str, text: &str) -> Result<Time, WindowError> {
    let bad = || WindowError {
        key,
        message: format!("{text:?} is not a time of day"),
        help: "write it like 09:00 or 17:30, from 00:00 to 23:59 (`to` also 24:00)",
    };
    let (hours, minutes) = text.split_once(':').ok_or_else(bad)?;
    let number = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<i8>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours).ok_or_else(bad)?, number(minutes).ok_or_else(bad)?);
    Time::new(hours, minutes, 0, 0).map_err(|_| bad())
}

/// Looks a time zone up in the program's own list of zones, so that the answer is the same on every
/// machine.
fn zone(name: Option<&str>) -> Result<TimeZone, WindowError> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    TimeZoneDatabase::bundled().get(name).map_err(|_| WindowError {
        key: "time_zone",
        message: format!("{name:?} is not a time zone"),
        help: "write its name in the IANA database: Europe/Berlin, America/New_York, UTC",
    })
}

/// Parses days of the week: `mon-fri`, `sat,sun`, `fri-mon`, `*`.
fn parse_days(text: &str) -> Result<[bool; 7], WindowError> {
    let bad = || WindowError {
        key: "days",
        message: format!("{text:?} are not days of the week"),
        help: "write mon-fri, or sat,sun, or * for all",
    };
    if text.trim() == "*" {
        return Ok([true; 7]);
    }
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last = weekday(last).ok_or_else(bad)?;
        let mut day = weekday(first).ok_or_else(bad)?;
        loop {
            let index = usize::try_from(day.to_monday_zero_offset()).unwrap_or_default();
            if let Some(is_day) = days.get_mut(index) {
                *is_day = true;
            }
            if day == last {
                break;
            }
            day = day.next();
        }
    }
    Ok(days)
}

fn weekday(text: &str) -> Option<Weekday> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "mon" | "monday" => Weekday::Monday,
        "tue" | "tuesday" => Weekday::Tuesday,
        "wed" | "wednesday" => Weekday::Wednesday,
        "thu" | "thursday" => Weekday::Thursday,
        "fri" | "friday" => Weekday::Friday,
        "sat" | "saturday" => Weekday::Saturday,
        "sun" | "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_is_cut_where_it_opens_and_closes() {
        let windows = [window("mon-fri 09:00 17:00 - open"), window("wed 12:00 13:00 - closed")];
        let at = |text: &str| format!("2026-11-{text}Z").parse::<Timestamp>().unwrap();
        // A Tuesday.
        let spans = list_spans(&windows, at("24T10:00:00"), at("25T18:00:00")).unwrap();
        let spans: Vec<_> = spans
            .iter()
            .map(|span| (span.from, span.to, span.is_open, span.reason.as_deref()))
            .collect();
        let expected = [
            (at("24T10:00:00"), at("24T17:00:00"), true, None),
            (at("24T17:00:00"), at("25T09:00:00"), false, None),
            (at("25T09:00:00"), at("25T12:00:00"), true, None),
            (at("25T12:00:00"), at("25T13:00:00"), false, Some("because")),
            (at("25T13:00:00"), at("25T17:00:00"), true, None),
            (at("25T17:00:00"), at("25T18:00:00"), false, None),
        ];
        assert_eq!(spans, expected);
        assert_eq!(list_spans(&[], at("24T10:00:00"), at("25T10:00:00")).unwrap().len(), 1);
    }

    fn window(text: &str) -> Window {
        let parts: Vec<&str> = text.split(' ').collect();
        let [days, from, to, zone, kind] = parts[..] else { panic!("{text}") };
        Window {
            days: days.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            time_zone: (zone != "-").then(|| zone.to_owned()),
            closed: kind == "closed",
            reason: (kind == "closed").then(|| "because".to_owned()),
        }
    }

    /// Returns `open`, or the time at which the target opens.
    fn opens(windows: &[&str], now: &str) -> String {
        let windows: Vec<Weekly> =
            windows.iter().map(|text| Weekly::parse(&window(text)).unwrap()).collect();
        match at(&windows, now.parse().unwrap()) {
            Opening::Open => "open".to_owned(),
            Opening::Closed { next: None, .. } => "never".to_owned(),
            Opening::Closed { next: Some(next), .. } => next.strftime("%a %F %H:%M %Z").to_string(),
        }
    }

    #[test]
    fn a_window_is_open_in_its_hours_and_says_when_it_opens() {
        let office = ["mon-fri 09:00 17:00 Europe/Berlin open"];
        for (now, then) in [
            ("2026-08-21T07:00:00Z", "open"), // Friday, 09:00 summer time
            ("2026-08-21T06:59:59Z", "Fri 2026-08-21 09:00 CEST"),
            ("2026-08-21T15:00:00Z", "Mon 2026-08-24 09:00 CEST"),
            ("2026-01-09T07:30:00Z", "Fri 2026-01-09 09:00 CET"),
            ("2026-01-09T08:00:00Z", "open"),
        ] {
            assert_eq!(opens(&office, now), then, "{now}");
        }
    }

    #[test]
    fn closed_windows_win_and_alone_close_only_themselves() {
        let freeze = ["* 00:00 24:00 - open", "fri-sun 15:00 15:00 - closed"];
        assert_eq!(opens(&freeze, "2026-08-21T14:59:00Z"), "open");
        assert_eq!(opens(&freeze, "2026-08-21T15:00:00Z"), "Mon 2026-08-24 15:00 UTC");
        assert_eq!(opens(&freeze[1..], "2026-08-24T15:00:00Z"), "open");
        assert_eq!(opens(&["* 00:00 00:00 - closed"], "2026-08-21T15:00:00Z"), "never");
        assert_eq!(opens(&[], "2026-08-21T15:00:00Z"), "open");
    }

    #[test]
    fn a_fleet_is_open_while_all_of_its_clusters_are() {
        let windows = |texts: &[&str]| texts.iter().map(|text| window(text)).collect::<Vec<_>>();
        let early = windows(&["* 08:00 12:00 - open"]);
        let late = windows(&["* 10:00 16:00 - open", "fri 10:00 11:00 - closed"]);
        let all =
            |targets: &[&[Window]], now: &str| match of_all_written(targets, now.parse().unwrap())
                .unwrap()
            {
                Opening::Open => "open".to_owned(),
                Opening::Closed { reason, next } => {
                    let next = next.map(|next| next.strftime("%a %H:%M").to_string());
                    format!("{} {}", next.unwrap_or_default(), reason.unwrap_or_default())
                }
            };
        // A Friday.
        for (now, then) in [
            ("2026-08-21T09:00:00Z", "Fri 11:00 "),
            ("2026-08-21T10:30:00Z", "Fri 11:00 because"),
            ("2026-08-21T11:30:00Z", "open"),
            ("2026-08-21T13:00:00Z", "Sat 10:00 "),
        ] {
            assert_eq!(all(&[&early, &late, &early, &[]], now), then, "{now}");
        }
        let night = windows(&["* 20:00 22:00 - open"]);
        assert_eq!(all(&[&early, &night], "2026-08-21T09:00:00Z"), " ", "never at the same time");
        assert_eq!(all(&[], "2026-08-21T09:00:00Z"), "open");
    }

    #[test]
    fn a_window_may_end_on_the_next_day() {
        let night = ["sun 22:00 06:00 - open"];
        assert_eq!(opens(&night, "2026-08-24T05:59:00Z"), "open"); // Monday
        assert_eq!(opens(&night, "2026-08-24T06:00:00Z"), "Sun 2026-08-30 22:00 UTC");
        assert_eq!(opens(&night, "2026-08-23T21:00:00Z"), "Sun 2026-08-23 22:00 UTC");
    }

    #[test]
    fn it_keeps_its_hours_when_clocks_change() {
        // 2026-03-29: 02:00 becomes 03:00 in Berlin. 02:30 does not exist and is 03:30.
        let early = ["sun 02:30 05:00 Europe/Berlin open"];
        assert_eq!(opens(&early, "2026-03-29T00:59:00Z"), "Sun 2026-03-29 03:30 CEST");
        assert_eq!(opens(&early, "2026-03-29T02:59:00Z"), "open");
        assert_eq!(opens(&early, "2026-03-29T03:00:00Z"), "Sun 2026-04-05 02:30 CEST");
    }

    #[test]
    fn what_cannot_be_read_says_which_key() {
        for (text, message) in [
            (
                "mo-fri 09:00 17:00 - open",
                "`days`: \"mo-fri\" are not days of the week; write mon-fri, or sat,sun, or * for all",
            ),
            (
                "* 9:00 17:00 - open",
                "`from`: \"9:00\" is not a time of day; write it like 09:00 or 17:30, from 00:00 to 23:59 (`to` also 24:00)",
            ),
            (
                "* 09:00 25:00 - open",
                "`to`: \"25:00\" is not a time of day; write it like 09:00 or 17:30, from 00:00 to 23:59 (`to` also 24:00)",
            ),
            (
                "* 09:00 17:00 Berlin open",
                "`time_zone`: \"Berlin\" is not a time zone; write its name in the IANA database: Europe/Berlin, America/New_York, UTC",
            ),
        ] {
            assert_eq!(Weekly::parse(&window(text)).unwrap_err().to_string(), message);
        }
    }
}
