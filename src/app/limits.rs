//! What people are told while the code host limits us: what waits, and until when. Pure.

use jiff::Timestamp;

use crate::forge::delivery::Limited;

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
