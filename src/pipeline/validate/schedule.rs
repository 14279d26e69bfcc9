//! Schedules, read as Kubernetes reads them: with the standard parser of `robfig/cron` version 3.
//!
//! Five fields, each `*` or `?`, numbers, names, ranges `a-b`, steps `/n`, and lists of those; or one
//! of the words that begin with `@`. The day of the week goes from 0 to 6: other programs take 7.

use crate::waml::quote::quote;

/// The fault of a schedule, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScheduleError {
    pub(super) message: String,
    pub(super) help: &'static str,
}

/// The bounds of a field.
struct Bounds {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
    help: &'static str,
}

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Bounds; 5] = [
    Bounds { name: "minute", least: 0, most: 59, names: &[], help: "minutes go from 0 to 59" },
    Bounds { name: "hour", least: 0, most: 23, names: &[], help: "hours go from 0 to 23" },
    Bounds {
        name: "day of the month",
        least: 1,
        most: 31,
        names: &[],
        help: "days of the month go from 1 to 31",
    },
    Bounds {
        name: "month",
        least: 1,
        most: 12,
        names: MONTHS,
        help: "months go from 1 to 12, or from JAN to DEC",
    },
    Bounds {
        name: "day of the week",
        least: 0,
        most: 6,
        names: DAYS,
        help: "days of the week go from 0 (Sunday) to 6, or from SUN to SAT",
    },
];

const HELP: &str = "write minute, hour, day of the month, month and day of the week: `30 4 * * *` is each day at 4:30";

/// The words for whole schedules.
const WORDS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks that Kubernetes accepts the schedule, and that some day matches it.
pub(super) fn check(text: &str) -> Result<(), ScheduleError> {
    if text.contains("TZ") {
        let message = "a schedule cannot say its time zone".to_owned();
        return Err(ScheduleError { message, help: "leave `TZ=` out, and set `timeZone`" });
    }
    if text.starts_with('@') {
        return word(text);
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    let Ok(parts) = <[&str; 5]>::try_from(parts.as_slice()) else {
        let message = format!("a schedule has 5 fields, and this has {}", parts.len());
        return Err(ScheduleError { message, help: HELP });
    };
    let mut fields = [Field { bits: 0, any: false }; 5];
    for ((parsed, part), bounds) in fields.iter_mut().zip(parts).zip(&FIELDS) {
        *parsed = field(part, bounds)?;
    }
    check_some_day_matches(fields)
}

fn word(text: &str) -> Result<(), ScheduleError> {
    let is_every = text.strip_prefix("@every ").is_some_and(is_duration);
    if is_every || WORDS.contains(&text) {
        return Ok(());
    }
    let message = format!("{} is no schedule", quote(text));
    let help =
        "use `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`, `@every 90m`, or five fields";
    Err(ScheduleError { message, help })
}

/// Checks for a duration as Go reads durations: `1h30m`, `1.5h`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    while !rest.is_empty() {
        let Some((number, behind)) = rest.find(|c| !is_number(c)).map(|end| rest.split_at(end))
        else {
            return false;
        };
        let legal = number.matches('.').count() < 2 && number.bytes().any(|b| b.is_ascii_digit());
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        match unit.iter().find_map(|unit| behind.strip_prefix(unit)) {
            Some(behind) if legal && number.len() <= 12 => rest = behind,
            _ => return false,
        }
    }
    !text.is_empty() && text != "+" && text != "-"
}

/// The values of a field, one bit each, and true if a part of it is `*` or `?`.
#[derive(Debug, Clone, Copy)]
struct Field {
    bits: u64,
    any: bool,
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let mut total = Field { bits: 0, any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let Field { bits, any } = range(part, bounds)?;
        total = Field { bits: total.bits | bits, any: total.any || any };
    }
    Ok(total)
}

/// Parses `*`, `?`, `a`, `a-b`, each with `/n`; `a/n` is from `a` on.
fn range(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let fault = |what: String| ScheduleError {
        message: format!("{} is no {}: {what}", quote(text), bounds.name),
        help: bounds.help,
    };
    let (values, step) = match text.split_once('/') {
        None => (text, None),
        Some((values, step)) => (values, Some(step)),
    };
    let step_width = step.map_or(Ok(1), |step| number(step, &[], 0)).map_err(fault)?;
    let (first, last, is_every) = ends(values, step.is_some(), bounds).map_err(fault)?;
    let Some(step_width) = usize::try_from(step_width).ok().filter(|step_width| *step_width > 0)
    else {
        return Err(fault("a step of 0 leads nowhere".to_owned()));
    };
    let bits = (first..=last).step_by(step_width).fold(0, |bits, n| bits | 1 << n);
    Ok(Field { bits, any: is_every && step_width == 1 })
}

/// Parses the first value and the last, and whether it is all.
fn ends(values: &str, steps: bool, bounds: &Bounds) -> Result<(u32, u32, bool), String> {
    let value = |text: &str| number(text, bounds.names, bounds.least);
    let (low, high) = match values.split_once('-') {
        None => (values, None),
        Some((low, high)) => (low, Some(high)),
    };
    if matches!(low, "*" | "?") {
        return Ok((bounds.least, bounds.most, true));
    }
    let first = value(low)?;
    let last = match high {
        Some(high) => value(high)?,
        None if steps => bounds.most,
        None => first,
    };
    match (first, last) {
        _ if first < bounds.least => Err(format!("{first} is out of range")),
        _ if last > bounds.most => Err(format!("{last} is out of range")),
        _ if first > last => Err(format!("{first} is after {last}")),
        _ => Ok((first, last, false)),
    }
}

/// Parses a number, or a name in any case.
fn number(text: &str, names: &[&str], least: u32) -> Result<u32, String> {
    let by_name = names.iter().zip(least..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, number)) = by_name {
        return Ok(number);
    }
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = is_number.then(|| digits.parse().ok()).flatten();
    number.ok_or_else(|| format!("{} is no number", quote(text)))
}

/// The lengths of months; February has its leap day.
const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Checks that some time matches. When both kinds of day are set, either will do.
fn check_some_day_matches(
    [minute, hour, day, month, weekday]: [Field; 5],
) -> Result<(), ScheduleError> {
    let never = |message: &str, help| Err(ScheduleError { message: message.to_owned(), help });
    if [minute, hour, day, month, weekday].iter().any(|field| field.bits == 0) {
        return never("a field of the schedule is empty", HELP);
    }
    let by_weekday = !day.any && !weekday.any;
    let is_date = |(number, length): (u32, u32)| {
        month.bits & 1 << number != 0 && (1..=length).any(|n| day.bits & 1 << n != 0)
    };
    if by_weekday || (1..).zip(LENGTHS).any(is_date) {
        return Ok(());
    }
    never("this day never comes: no such month has that many days", "correct the day or the month")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_takes_is_a_schedule() {
        for text in [
            "* * * * *",
            "*/10 * * * *",
            "0 4 * * 1-5",
            "0 0 1,15 * ?",
            "5/15 0-23/2 * JAN-mar,dec SUN",
            "  30  4\t* * *  ",
            "1,,2 * * * *",
            "+5 * * * *",
            "*-3 * * * *",
            "0 0 29 2 *",
            "0 0 30 2 MON",
            "0 0 31 1-2 *",
            "@hourly",
            "@midnight",
            "@every 1h30m",
            "@every 1.5h",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_told_with_its_field() {
        for (text, message) in [
            ("", "a schedule has 5 fields, and this has 0"),
            ("0 0 4 * * *", "a schedule has 5 fields, and this has 6"),
            ("TZ=UTC 0 4 * * *", "a schedule cannot say its time zone"),
            ("60 * * * *", "`60` is no minute: 60 is out of range"),
            ("* 24 * * *", "`24` is no hour: 24 is out of range"),
            ("* * 0 * *", "`0` is no day of the month: 0 is out of range"),
            ("* * * 13 *", "`13` is no month: 13 is out of range"),
            ("* * * * 7", "`7` is no day of the week: 7 is out of range"),
            ("* * * * MO", "`MO` is no day of the week: `MO` is no number"),
            ("5-3 * * * *", "`5-3` is no minute: 5 is after 3"),
            ("1-2-3 * * * *", "`1-2-3` is no minute: `2-3` is no number"),
            ("*/0 * * * *", "`*/0` is no minute: a step of 0 leads nowhere"),
            ("*/1/2 * * * *", "`*/1/2` is no minute: `1/2` is no number"),
            ("-5 * * * *", "`-5` is no minute: `` is no number"),
            ("9999999999999 * * * *", "`9999999999999` is no minute: `9999999999999` is no number"),
            (", * * * *", "a field of the schedule is empty"),
            ("@Daily", "`@Daily` is no schedule"),
            ("@every 5", "`@every 5` is no schedule"),
            ("@every ", "`@every ` is no schedule"),
            ("@reboot", "`@reboot` is no schedule"),
        ] {
            assert_eq!(check(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn a_day_that_no_month_has_never_comes() {
        for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB ?", "0 0 30 2 */1"] {
            let message = check(text).unwrap_err().message;
            assert!(message.starts_with("this day never comes"), "{text}: {message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_schedule_or_not(text in "[-*/,0-9A-Z@a-z .?+]{0,40}|\\PC{0,40}") {
            let _ = check(&text);
        }
    }
}
