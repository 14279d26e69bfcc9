//! The text of a deployment's marks, as their column has it.

use jiff::Timestamp;

use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkClock, MarkTime};

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
    fn what_cannot_be_read_is_left_out() {
        let text =
            "received=5s;approved=7s;synced=xc;pushed=9;;planned=8q;synced=-3c;finished=4s+x";
        let marks: Vec<_> =
            decode(text).iter().map(|time| (time.mark, time.at.as_millisecond())).collect();
        assert_eq!(marks, [(DeployMark::Received, 5), (DeployMark::Synced, -3)]);
    }
}
