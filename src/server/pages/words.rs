//! Formats states, times and durations for people.

use jiff::Timestamp;

use crate::model::deploy_clock::Lapse;
use crate::model::deployment::State;
use crate::support::time_text::format_micros;

/// A time, for machines and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelativeTime {
    pub(super) machine: String,
    pub(super) people: String,
}

/// Formats a time in UTC: the service does not know the reader's time zone.
pub(super) fn moment(at: Timestamp) -> RelativeTime {
    RelativeTime {
        machine: at.to_string(),
        people: at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    }
}

/// Returns the CSS class of a state.
pub(super) fn pick_css_class(state: State) -> &'static str {
    match state {
        State::Queued | State::Running | State::Pushing | State::Syncing | State::Progressing => {
            "going"
        }
        State::Succeeded => "good",
        State::Failed => "bad",
        State::Superseded | State::Cancelled => "gone",
    }
}

/// Formats the time between two marks: `4.6 s`, or `clock skew of 1 h 0 min`.
pub(super) fn lapse(lapse: Lapse) -> String {
    match lapse {
        Lapse::Millis(millis) => format_micros(millis.saturating_mul(1000)),
        Lapse::Skew(millis) => {
            format!("clock skew of {}", format_micros(millis.saturating_mul(1000)))
        }
    }
}

/// A piece of a sentence; code stands between backticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) code: bool,
}

/// Splits a sentence into pieces. A backtick without a second one is only a backtick.
pub(super) fn parts(sentence: &str) -> Vec<Part> {
    let pieces: Vec<&str> = sentence.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return vec![Part { text: sentence.to_owned(), code: false }];
    }
    let part = |(n, text): (usize, &&str)| Part { text: (*text).to_owned(), code: n % 2 == 1 };
    pieces.iter().enumerate().map(part).filter(|part| !part.text.is_empty()).collect()
}

/// Formats a number with its noun: `1 violation`, `2 violations`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        let show = |part: Part| if part.code { format!("[{}]", part.text) } else { part.text };
        let pieces = |text: &str| parts(text).into_iter().map(show).collect::<Vec<_>>();
        assert_eq!(pieces("`a` has no `b`"), ["[a]", " has no ", "[b]"]);
        assert_eq!(pieces("it's 5` long"), ["it's 5` long"]);
        assert_eq!(pieces(""), Vec::<String>::new());
    }
}
