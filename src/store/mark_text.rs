//! The texts of a deployment's marks and of their lengths, as their columns have them.

use jiff::Timestamp;

use crate::model::deploy_clock::{
    DeployInterval, DeployLapses, DeployMark, DeployMarks, Lapse, MarkClock, MarkTime,
};

/// Writes marks as their column has them.
pub(super) fn encode(marks: &DeployMarks) -> String {
    let write = |time: &MarkTime| {
        let MarkTime { mark, at, clock, ahead_millis } = time;
        let (mark, at, letter) = (mark.as_str(), at.as_millisecond(), letter(*clock));
        let ahead = if *ahead_millis == 0 { String::new() } else { format!("+{ahead_millis}") };
        format!("{mark}={at}{letter}{ahead};")
    };
    marks.iter().map(write).collect()
}

/// Reads marks. One that cannot be read is left out: a later version may have written it.
pub(super) fn decode(text: &str) -> DeployMarks {
    text.split(';').filter_map(decode_one).collect()
}

/// Writes the lengths of marks as their column has them: milliseconds, with `~` where clocks contradict each other by so
/// many, and nothing for what is not known; the lead time comes last.
pub(super) fn encode_lapses(marks: &DeployMarks) -> String {
    let DeployLapses { intervals, lead_time } = marks.lapses();
    let write = |lapse: Option<Lapse>| match lapse {
        Some(Lapse::Millis(millis)) => millis.to_string(),
        Some(Lapse::Skew(millis)) => format!("~{millis}"),
        None => String::new(),
    };
    intervals.into_iter().chain([lead_time]).map(write).collect::<Vec<_>>().join(",")
}

/// Reads lengths.
pub(super) fn decode_lapses(text: &str) -> DeployLapses {
    let mut parts = text.split(',').map(decode_lapse);
    let mut next = || parts.next().flatten();
    let intervals = DeployInterval::ALL.map(|_| next());
    DeployLapses { intervals, lead_time: next() }
}

fn decode_lapse(text: &str) -> Option<Lapse> {
    match text.strip_prefix('~') {
        Some(skew) => skew.parse().ok().map(Lapse::Skew),
        None => text.parse().ok().map(Lapse::Millis),
    }
}

fn decode_one(text: &str) -> Option<MarkTime> {
    let (mark, rest) = text.split_once('=')?;
    let letter_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
    let (millis, rest) = rest.split_at(letter_at);
    let (letter, ahead) = rest.split_at(1);
    Some(MarkTime {
        mark: DeployMark::parse(mark)?,
        at: Timestamp::from_millisecond(millis.parse().ok()?).ok()?,
        clock: clock_of(letter)?,
        ahead_millis: ahead.strip_prefix('+').map_or(Some(0), |ahead| ahead.parse().ok())?,
    })
}

fn letter(clock: MarkClock) -> char {
    match clock {
        MarkClock::Service => 's',
        MarkClock::CodeHost => 'h',
        MarkClock::Cluster => 'c',
    }
}

fn clock_of(letter: &str) -> Option<MarkClock> {
    MarkClock::ALL.into_iter().find(|clock| letter.starts_with(self::letter(*clock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_read_as_it_was_written() {
        let times = DeployMark::ALL.into_iter().zip(1..).map(|(mark, n): (_, i64)| MarkTime {
            mark,
            at: Timestamp::from_millisecond(1_763_703_492_000 + n).unwrap(),
            clock: MarkClock::ALL[usize::try_from(n).unwrap() % 3],
            ahead_millis: u64::try_from(n).unwrap() % 2 * 86_400_000,
        });
        let marks: DeployMarks = times.collect();
        let text = encode(&marks);
        assert_eq!(decode(&text), marks, "{text}");
        assert!(text.len() < 1000, "{} bytes", text.len());
        assert!(text.starts_with("requested=1763703492001h+86400000;"), "{text}");
        assert_eq!(decode(""), DeployMarks::default());
    }

    #[test]
    fn lengths_are_read_as_they_were_written() {
        let marks = [
            (DeployMark::Requested, 0, MarkClock::CodeHost),
            (DeployMark::Received, 1_000, MarkClock::Service),
            (DeployMark::Pushed, 5_000, MarkClock::Service),
            (DeployMark::ArgocdNotified, 4_000, MarkClock::Service),
            (DeployMark::SyncBegan, -90_000, MarkClock::Cluster),
        ];
        let marks: DeployMarks = marks
            .into_iter()
            .map(|(mark, millis, clock)| MarkTime {
                mark,
                at: Timestamp::from_millisecond(1_763_703_492_000 + millis).unwrap(),
                clock,
                ahead_millis: 0,
            })
            .collect();
        let text = encode_lapses(&marks);
        assert_eq!(text, "4000,4000,~95000,,,");
        assert_eq!(decode_lapses(&text), marks.lapses());
        assert_eq!(encode_lapses(&DeployMarks::default()), ",,,,,");
        for unreadable in ["", ",,,,,", "x,~,-1,~x,1.5, 2", "~~1"] {
            assert_eq!(decode_lapses(unreadable), DeployLapses::default(), "{unreadable}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let text =
            "received=5s;approved=7s;synced=xc;pushed=9;;planned=8q;synced=-3c;finished=4s+x";
        let marks: Vec<_> =
            decode(text).iter().map(|time| (time.mark, time.at.as_millisecond())).collect();
        assert_eq!(marks, [(DeployMark::Received, 5), (DeployMark::Synced, -3)]);
    }
}
