//! Formats states, times and durations for people.

use jiff::Timestamp;

use crate::model::deploy_clock::Lapse;
use crate::model::deployment::State;
use crate::model::id::RepoName;
use crate::support::time_text::format_micros;

/// A time, for machines and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelativeTime {
    pub(super) machine: String,
    pub(super) people: String,
    /// The time since then, in one unit: `3 h`.
    pub(super) age: String,
}

/// Formats a time in UTC: the service does not know the reader's time zone. The page's script makes it local.
pub(super) fn moment(at: Timestamp) -> RelativeTime {
    RelativeTime {
        machine: at.to_string(),
        people: at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        age: String::new(),
    }
}

/// Formats a time by its age. Minutes will do, as there are many of them on a page.
pub(super) fn age(at: Timestamp, now: Timestamp) -> RelativeTime {
    let seconds = now.duration_since(at).as_secs().max(0);
    let units =
        [(31_536_000, "y"), (2_592_000, "mo"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1, "s"));
    RelativeTime {
        machine: at.strftime("%Y-%m-%dT%H:%MZ").to_string(),
        people: at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        age: format!("{} {unit}", seconds / size),
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

/// A text that may be a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageLink {
    pub(super) text: String,
    pub(super) url: Option<String>,
}

/// Makes the link to a part of a repository at the code host, if that has pages.
pub(super) fn link_to(
    text: String,
    forge: Option<&str>,
    repository: &RepoName,
    rest: &str,
) -> PageLink {
    PageLink { text, url: forge.map(|forge| format!("{forge}/{repository}{rest}")) }
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

/// Writes a word of the API as people read it: `rolling_out` is `rolling out`.
pub(super) fn plain(word: &str) -> String {
    word.replace('_', " ")
}

/// Formats a number with its noun: `1 violation`, `2 violations`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let now = "2026-11-21T05:48:12Z".parse().unwrap();
        for (seconds, text) in [
            (-5, "0 s"),
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min"),
            (7_200, "2 h"),
            (90_000, "1 d"),
            (2_600_000, "1 mo"),
            (70_000_000, "2 y"),
        ] {
            assert_eq!(age(now - jiff::SignedDuration::from_secs(seconds), now).age, text);
        }
        assert_eq!(age(now, now).machine, "2026-11-21T05:48Z");
    }

    #[test]
    fn code_stands_between_backticks() {
        let show = |part: Part| if part.code { format!("[{}]", part.text) } else { part.text };
        let pieces = |text: &str| parts(text).into_iter().map(show).collect::<Vec<_>>();
        assert_eq!(pieces("`a` has no `b`"), ["[a]", " has no ", "[b]"]);
        assert_eq!(pieces("it's 5` long"), ["it's 5` long"]);
        assert_eq!(pieces(""), Vec::<String>::new());
    }
}
