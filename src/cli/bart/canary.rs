//! The forecast of a canary as `bart plan` and `bart render --explain-canary` show it.

use jiff::SignedDuration;

use crate::cli::output::BOLD;
use crate::model::canary::{CanaryForecast, CanaryStrategy};

/// The most steps that are listed.
const MAX_LISTED: usize = 20;

/// Lists the steps with their times, and the two times that count.
pub(super) fn describe(forecast: &CanaryForecast) -> String {
    let CanaryForecast { strategy, threshold, mirror, steps, .. } = forecast;
    let (interval, minimum, rollback) =
        (forecast.interval(), forecast.minimum(), forecast.rollback());
    let what = match strategy {
        CanaryStrategy::Weights => "a growing share of the traffic",
        CanaryStrategy::AbTest => "the requests that match",
        CanaryStrategy::BlueGreen => "no traffic before the switch",
    };
    let mut text = format!("\n{BOLD}canary{BOLD:#}: {what}, a check each {interval:#}\n");
    if *mirror {
        text += "     0s  copies of requests\n";
    }
    for step in steps.iter().take(MAX_LISTED) {
        let after =
            SignedDuration::from_secs(i64::try_from(step.after_seconds).unwrap_or(i64::MAX));
        let share = match strategy {
            CanaryStrategy::Weights | CanaryStrategy::BlueGreen => format!("{} %", step.weight),
            CanaryStrategy::AbTest => "what matches".to_owned(),
        };
        text += &format!("{:>7}  {share}\n", format!("{after:#}"));
    }
    if let Some(hidden) = steps.len().checked_sub(MAX_LISTED).filter(|hidden| *hidden > 0) {
        text += &format!("         and {hidden} more steps\n");
    }
    text += &format!("{:>7}  promoted, at the earliest (t_min)\n", format!("{minimum:#}"));
    text + &format!(
        "  after {threshold} failed checks all traffic goes back: {rollback:#} from the first (t_rollback)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::canary::CanaryStep;

    #[test]
    fn steps_are_listed_with_their_times() {
        let step = |after_seconds, weight| CanaryStep { after_seconds, weight };
        let forecast = CanaryForecast {
            strategy: CanaryStrategy::Weights,
            interval_seconds: 60,
            threshold: 3,
            mirror: false,
            steps: vec![step(0, 20), step(60, 40), step(120, 60)],
            minimum_seconds: 180,
            rollback_seconds: 180,
        };
        let text = anstream::adapter::strip_str(&describe(&forecast)).to_string();
        assert_eq!(
            text,
            "\ncanary: a growing share of the traffic, a check each 1m\n     0s  20 %\n     1m  40 %\n     2m  60 %\n     \
             3m  promoted, at the earliest (t_min)\n  after 3 failed checks all traffic goes back: 3m from the first (t_rollback)\n"
        );
    }
}
