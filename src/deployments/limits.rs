//! What people are told while the code host limits us: what waits, and until when.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

use crate::forge::delivery::Limited;

/// Until when the code host's hour is used up, as it was counted last.
#[derive(Debug)]
pub struct ForgeHour(AtomicI64);

/// In milliseconds since the epoch: the hour has room.
const HAS_ROOM: i64 = 0;

impl Default for ForgeHour {
    fn default() -> Self {
        Self(AtomicI64::new(HAS_ROOM))
    }
}

impl ForgeHour {
    /// Remembers a count.
    pub(crate) fn set(&self, until: Option<Timestamp>) {
        self.0.store(until.map_or(HAS_ROOM, Timestamp::as_millisecond), Ordering::Relaxed);
    }

    /// Until when it is used up, if it is.
    pub(crate) fn used_up_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millisecond(self.0.load(Ordering::Relaxed));
        until.ok().filter(|until| *until > now)
    }
}

/// One sentence; none while nothing is limited. What holds up most is said.
pub(crate) fn sentence(limited: Limited, hour_used_up: Option<Timestamp>) -> Option<String> {
    let Limited { everything, writes } = limited;
    let time = |at: Timestamp| at.strftime("%H:%M:%S UTC");
    match (everything, writes, hour_used_up) {
        (Some(until), _, _) => Some(format!(
            "GitHub limits us: it takes no requests until {}. Deployments that have to read there wait, \
             and what it shows comes late",
            time(until)
        )),
        (None, Some(until), _) => Some(format!(
            "GitHub limits us: it takes no statuses until {}. Deployments go on, and what it shows comes \
             late",
            time(until)
        )),
        (None, None, Some(until)) => Some(format!(
            "GitHub limits us: as many statuses as it takes an hour are told, the next at {}. Deployments \
             go on, and what it shows comes late",
            time(until)
        )),
        (None, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_up_most_is_said_with_its_end() {
        let at = |second| Timestamp::from_second(second).ok();
        let said = |everything, writes, hour| {
            sentence(Limited { everything, writes }, hour).unwrap_or_default()
        };
        assert!(said(at(60), at(120), at(180)).contains("no requests until 00:01:00 UTC"));
        assert!(said(None, at(120), at(180)).contains("no statuses until 00:02:00 UTC"));
        assert!(said(None, None, at(180)).contains("the next at 00:03:00 UTC"));
        assert_eq!(said(None, None, None), "");
    }
}
