//! The page of locks, holds and windows, with a calendar of the week. Pure.

use std::collections::BTreeSet;

use askama::Template;
use jiff::{SignedDuration, Timestamp};

use crate::deployments::checks::Notice;
use crate::model::id::{LockId, TargetName};
use crate::model::lock::{Lock, Window};
use crate::model::rollback::Hold;
use crate::model::window::{OpeningSpan, list_spans};
use crate::server::pages::acts::links::ActLinks;
use crate::server::pages::acts::offers::{LockOffers, TargetChoice};
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::words::{self, RelativeTime};

/// The days of the calendar.
const DAYS: i64 = 7;
/// The minutes for which one unit of the calendar's picture stands.
const UNIT_MINUTES: i64 = 10;
/// The most targets in the calendar.
const MAX_TARGETS: usize = 500;

#[derive(Template)]
#[template(path = "locks.html")]
struct LocksPage {
    frame: Frame,
    acts: ActLinks,
    targets: Option<TargetChoice>,
    locks: Vec<LockRow>,
    holds: Vec<HoldRow>,
    days: Vec<String>,
    calendars: Vec<CalendarRow>,
}

struct LockRow {
    id: String,
    scope: String,
    reason: String,
    by: String,
    since: RelativeTime,
    until: Option<RelativeTime>,
    /// True if the reader may remove it.
    is_removable: bool,
}

struct HoldRow {
    path: String,
    title: String,
    away: String,
    reason: String,
    by: String,
    since: RelativeTime,
}

/// The week of a target.
struct CalendarRow {
    target: String,
    state: &'static str,
    look: &'static str,
    label: String,
    spans: Vec<ClosedSpan>,
}

/// A time in which a target is closed.
#[derive(Debug, PartialEq, Eq)]
struct ClosedSpan {
    begin: i64,
    length: i64,
    text: String,
}

/// Renders the page. Targets without windows are not among them.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    locks: Vec<(LockId, Lock)>,
    holds: Vec<Hold>,
    windows: &[(TargetName, Vec<Window>)],
    offers: LockOffers,
    now: Timestamp,
    notices: Vec<Notice>,
) -> Result<String, PageError> {
    let LockOffers { acts, targets, removable } = offers;
    let today = begin_of_day(now);
    let day = |n: i64| add(today, n * 24 * 60).strftime("%a %d %b").to_string();
    let calendars = windows.iter().take(MAX_TARGETS);
    let page = LocksPage {
        frame: Frame {
            title: "locks and windows".to_owned(),
            section: PageSection::Locks,
            notices,
            ..Frame::default()
        },
        acts,
        targets,
        locks: locks.into_iter().map(|one| lock(one, &removable)).collect(),
        holds: holds.into_iter().map(hold).collect(),
        days: (0..DAYS).map(day).collect(),
        calendars: calendars
            .filter_map(|(target, windows)| calendar(target, windows, today, now))
            .collect(),
    };
    Ok(page.render()?)
}

fn lock((id, lock): (LockId, Lock), removable: &BTreeSet<LockId>) -> LockRow {
    let Lock { scope, reason, by, since, until } = lock;
    LockRow {
        id: id.to_string(),
        scope: scope.to_string(),
        reason,
        by,
        since: words::moment(since),
        until: until.map(words::moment),
        is_removable: removable.contains(&id),
    }
}

fn hold(hold: Hold) -> HoldRow {
    let Hold { target, app, by, reason, since, rollback: _, away, to } = hold;
    let to = to.map(|tag| format!(" to {tag}")).unwrap_or_default();
    HoldRow {
        path: format!("/apps/{target}/{app}"),
        title: format!("{app} on {target}"),
        away: away
            .map(|release| format!("rolled back from {}{to}", release.tag))
            .unwrap_or_default(),
        reason,
        by,
        since: words::moment(since),
    }
}

/// Makes the week of a target; `None` if its windows cannot be read, which the configuration refuses.
fn calendar(
    target: &TargetName,
    windows: &[Window],
    today: Timestamp,
    now: Timestamp,
) -> Option<CalendarRow> {
    let end = add(today, DAYS * 24 * 60);
    let spans = list_spans(windows, today, end).ok()?;
    let is_open = spans.iter().any(|span| span.is_open && span.from <= now && now < span.to);
    let closed: Vec<ClosedSpan> =
        spans.iter().filter(|span| !span.is_open).map(|span| closed_span(span, today)).collect();
    let (state, look) = if is_open { ("open", "good") } else { ("closed", "gone") };
    let times = words::count(closed.len(), "time");
    let label = format!("{target} is {state} now, and closed {times} in these seven days");
    Some(CalendarRow { target: target.to_string(), state, look, label, spans: closed })
}

fn closed_span(span: &OpeningSpan, today: Timestamp) -> ClosedSpan {
    let units = |at: Timestamp| at.duration_since(today).as_mins() / UNIT_MINUTES;
    let (begin, end) = (units(span.from), units(span.to));
    let time = |at: Timestamp| at.strftime("%a %H:%M").to_string();
    let reason = span.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    ClosedSpan {
        begin,
        length: (end - begin).max(1),
        text: format!("{} to {}{reason}", time(span.from), time(span.to)),
    }
}

fn begin_of_day(now: Timestamp) -> Timestamp {
    const DAY: i64 = 24 * 60 * 60;
    Timestamp::from_second(now.as_second().div_euclid(DAY) * DAY).unwrap_or(now)
}

fn add(at: Timestamp, minutes: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_mins(minutes)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_of_a_target_has_what_is_closed() {
        let window = Window {
            days: "mon-fri".to_owned(),
            from: "09:00".to_owned(),
            to: "17:00".to_owned(),
            time_zone: None,
            closed: false,
            reason: None,
        };
        // A Saturday.
        let now = "2026-11-21T10:00:00Z".parse().unwrap();
        let target = "prod".parse().unwrap();
        let row = calendar(&target, &[window], begin_of_day(now), now).unwrap();
        assert_eq!((row.state, row.spans.len()), ("closed", 6));
        let first = &row.spans[0];
        assert_eq!((first.begin, first.length), (0, (48 + 9) * 6));
        assert_eq!(first.text, "Sat 00:00 to Mon 09:00");
    }
}
