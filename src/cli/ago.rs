//! Times as people at a terminal read them: how long ago.

use jiff::{SignedDuration, Timestamp};

/// `3 h ago`; a day where it is longer ago than anybody counts.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> String {
    let passed = now.duration_since(at).max(SignedDuration::ZERO);
    let seconds = passed.as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..172_800 => "yesterday".to_owned(),
        172_800..2_592_000 => format!("{} days ago", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_ago_the_less_exact() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        for (at, text) in [
            ("2026-11-21T12:00:30Z", "just now"),
            ("2026-11-21T11:59:30Z", "just now"),
            ("2026-11-21T11:58:59Z", "1 min ago"),
            ("2026-11-21T09:10:00Z", "2 h ago"),
            ("2026-11-20T11:00:00Z", "yesterday"),
            ("2026-11-11T12:00:00Z", "10 days ago"),
            ("2026-06-01T12:00:00Z", "2026-06-01"),
        ] {
            assert_eq!(ago(now, at.parse().unwrap()), text, "{at}");
        }
    }
}
