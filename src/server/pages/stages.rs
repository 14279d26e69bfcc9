//! How long each stage took, as bars one after the other.

use crate::model::deployment::{Stage, StageTime};
use crate::server::pages::words;

/// One stage's line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) time: String,
    /// Where the bar begins, in thousandths of the whole.
    pub(super) begin: u64,
    /// How long it is, in thousandths; at least so long that one sees it.
    pub(super) length: u64,
}

const WHOLE: u64 = 1000;
const SHORTEST: u64 = 6;

/// A bar for each stage.
pub(super) fn bars(stages: &[StageTime]) -> Vec<Bar> {
    let total = total(stages).max(1);
    let share = |micros: u64| {
        let share = u128::from(micros) * u128::from(WHOLE) / u128::from(total);
        u64::try_from(share).unwrap_or(WHOLE)
    };
    let mut before = 0_u64;
    let bar = |time: &StageTime| {
        let StageTime { stage, micros } = *time;
        let length = share(micros).clamp(SHORTEST, WHOLE);
        let begin = share(before).min(WHOLE - length);
        before = before.saturating_add(micros);
        Bar {
            name: stage.as_str(),
            what: what(stage),
            time: words::duration(micros),
            begin,
            length,
        }
    };
    stages.iter().map(bar).collect()
}

/// All of them together, in microseconds.
pub(super) fn total(stages: &[StageTime]) -> u64 {
    stages.iter().fold(0, |all, time| all.saturating_add(time.micros))
}

fn what(stage: Stage) -> &'static str {
    match stage {
        Stage::Queue => "waited for a worker",
        Stage::Fetch => "read the WAML",
        Stage::Facts => "asked what rules must know",
        Stage::Merge => "laid layers over one another",
        Stage::Default => "filled in defaults",
        Stage::Validate => "ran all rules",
        Stage::Render => "made the manifests",
        Stage::Push => "pushed them",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(micros: &[u64]) -> Vec<(u64, u64)> {
        let time = |micros: &u64| StageTime { stage: Stage::Fetch, micros: *micros };
        let stages: Vec<_> = micros.iter().map(time).collect();
        bars(&stages).iter().map(|bar| (bar.begin, bar.length)).collect()
    }

    #[test]
    fn bars_follow_one_another_and_none_leaves_the_frame() {
        assert_eq!(places(&[250, 750]), [(0, 250), (250, 750)]);
        assert_eq!(places(&[1_000_000, 0, 1]), [(0, 999), (994, 6), (994, 6)]);
        assert_eq!(places(&[0]), [(0, 6)]);
        assert_eq!(places(&[]), []);
        assert_eq!(places(&[u64::MAX, u64::MAX]), [(0, 1000), (0, 1000)]);
    }
}
