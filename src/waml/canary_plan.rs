//! Works out what a canary's settings mean: its steps, and formulas 3.1 and 3.2 of the source document.
//!
//! Flagger looks once in each interval. Its first look at ready pods takes the first step, each good look after that the
//! next one, and the good look after the last step promotes. So a run of n steps takes n intervals from the first step
//! to the promotion. A look counts a failed check, and the look after the last one that is allowed takes all back.

use jiff::SignedDuration;

use crate::model::canary::{CanaryForecast, CanaryStep, CanaryStrategy};
use crate::waml::section_canary::Canary;

/// All of the traffic, in percent.
const FULL_WEIGHT: u32 = 100;

/// Forecasts a run; `None` where the settings lack a part of it, or have one that cannot be read.
pub fn forecast(canary: &Canary) -> Option<CanaryForecast> {
    let interval = canary.interval.as_deref().and_then(read_time)?;
    let interval_seconds = u64::try_from(interval.as_secs()).ok().filter(|seconds| *seconds > 0)?;
    let threshold = canary.threshold.filter(|threshold| *threshold > 0)?;
    let mirror = canary.mirror.unwrap_or(false);
    let (strategy, weights) = plan_weights(canary)?;
    let looks_before = u64::from(mirror && strategy == CanaryStrategy::Weights);
    let steps = (looks_before..).zip(&weights).map(|(look, weight)| CanaryStep {
        after_seconds: interval_seconds.saturating_mul(look),
        weight: *weight,
    });
    let steps: Vec<CanaryStep> = steps.collect();
    let looks = looks_before + steps.len() as u64;
    Some(CanaryForecast {
        strategy,
        interval_seconds,
        threshold,
        mirror,
        minimum_seconds: interval_seconds.saturating_mul(looks),
        rollback_seconds: interval_seconds.saturating_mul(threshold.into()),
        steps,
    })
}

/// Lists the share of the traffic at each look, as Flagger chooses the strategy: iterations come before weights.
fn plan_weights(canary: &Canary) -> Option<(CanaryStrategy, Vec<u32>)> {
    if let Some(iterations) = canary.iterations.filter(|iterations| *iterations > 0) {
        let iterations = usize::try_from(iterations).ok()?;
        let has_match = canary.match_.as_ref().is_some_and(|list| !list.is_empty());
        return Some(if has_match {
            (CanaryStrategy::AbTest, vec![FULL_WEIGHT; iterations])
        } else {
            // After the last iteration all traffic goes to the new release for one more look.
            let weights = std::iter::repeat_n(0, iterations).chain([FULL_WEIGHT]);
            (CanaryStrategy::BlueGreen, weights.collect())
        });
    }
    let weights = match &canary.step_weights {
        Some(weights) if !weights.is_empty() => {
            weights.iter().map(|weight| (*weight).min(FULL_WEIGHT)).collect()
        }
        _ => even_weights(canary.step_weight?, canary.max_weight.unwrap_or(FULL_WEIGHT)),
    };
    (!weights.is_empty()).then_some((CanaryStrategy::Weights, weights))
}

/// Lists `step`, 2 × `step` and so on, up to the first one that reaches `max`.
fn even_weights(step: u32, max: u32) -> Vec<u32> {
    let (step, max) = (step.min(FULL_WEIGHT), max.min(FULL_WEIGHT));
    let count = if step == 0 { 0 } else { max.div_ceil(step) };
    (1..=count).map(|n| (step * n).min(FULL_WEIGHT)).collect()
}

/// Reads `90s`, `1m`, `1h30m`: whole numbers of seconds, minutes and hours.
pub fn read_time(text: &str) -> Option<SignedDuration> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b's' | b'm' | b'h'));
    text.parse::<SignedDuration>().ok().filter(|_| is_plain)
}

/// Writes a time as Flagger's schema takes it, in minutes or seconds; as it is where it cannot be read.
pub fn write_time(text: &str) -> String {
    match read_time(text).map(|time| time.as_secs()) {
        Some(seconds) if seconds > 0 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        Some(seconds) => format!("{seconds}s"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canary(text: &str) -> Canary {
        serde_yaml::from_str(text).unwrap()
    }

    fn numbers(text: &str) -> (Vec<(u64, u32)>, u64, u64) {
        let forecast = forecast(&canary(text)).unwrap();
        let steps = forecast.steps.iter().map(|step| (step.after_seconds, step.weight)).collect();
        (steps, forecast.minimum_seconds, forecast.rollback_seconds)
    }

    #[test]
    fn the_formulas_of_the_source_document_hold() {
        let document = "{interval: 1m, threshold: 3, maxWeight: 60, stepWeight: 20}";
        assert_eq!(numbers(document), (vec![(0, 20), (60, 40), (120, 60)], 180, 180));
        let long = "{interval: 30s, threshold: 10, maxWeight: 50, stepWeight: 5}";
        assert_eq!((numbers(long).1, numbers(long).2), (300, 300));
    }

    #[test]
    fn a_last_smaller_step_takes_its_time_too() {
        let uneven = "{interval: 1m, threshold: 1, maxWeight: 60, stepWeight: 25}";
        assert_eq!(numbers(uneven), (vec![(0, 25), (60, 50), (120, 75)], 180, 60));
        let over = "{interval: 1m, threshold: 1, maxWeight: 100, stepWeight: 60}";
        assert_eq!(numbers(over).0, [(0, 60), (60, 100)]);
    }

    #[test]
    fn other_strategies_have_their_own_steps() {
        let list =
            "{interval: 1m, threshold: 2, stepWeights: [1, 5, 50], stepWeight: 10, maxWeight: 60}";
        assert_eq!(numbers(list), (vec![(0, 1), (60, 5), (120, 50)], 180, 120));
        let mirrored = "{interval: 1m, threshold: 2, mirror: true, stepWeight: 50, maxWeight: 50}";
        assert_eq!(numbers(mirrored), (vec![(60, 50)], 120, 120));
        let test =
            "{interval: 1m, threshold: 2, iterations: 3, match: [{headers: {a: {exact: b}}}]}";
        assert_eq!(numbers(test), (vec![(0, 100), (60, 100), (120, 100)], 180, 120));
        let switch = "{interval: 1m, threshold: 2, iterations: 2, stepWeight: 10, maxWeight: 50}";
        assert_eq!(numbers(switch), (vec![(0, 0), (60, 0), (120, 100)], 180, 120));
    }

    #[test]
    fn what_lacks_a_part_has_no_forecast() {
        for text in [
            "{}",
            "{interval: 1m, threshold: 3}",
            "{threshold: 3, stepWeight: 10, maxWeight: 50}",
            "{interval: 1m, stepWeight: 10, maxWeight: 50}",
            "{interval: soon, threshold: 3, stepWeight: 10, maxWeight: 50}",
        ] {
            assert_eq!(forecast(&canary(text)), None, "{text}");
        }
    }

    #[test]
    fn a_forecast_is_one_sentence() {
        let document =
            forecast(&canary("{interval: 1m, threshold: 3, maxWeight: 60, stepWeight: 20}"));
        assert_eq!(
            document.unwrap().to_string(),
            "20, 40, 60 % of the traffic, a check each 1m; promoted after 3m at the earliest (t_min), all \
             traffic back after 3m of failed checks (t_rollback)"
        );
        let small = forecast(&canary("{interval: 1m, threshold: 3, stepWeight: 1}")).unwrap();
        assert!(small.to_string().starts_with("1, 2, 3, … 100 % of the traffic"), "{small}");
    }

    #[test]
    fn times_are_written_as_flaggers_schema_takes_them() {
        for (text, written) in
            [("1m", "1m"), ("90s", "90s"), ("1h", "60m"), ("1h30m", "90m"), ("1m30s", "90s")]
        {
            assert_eq!(write_time(text), written);
        }
    }
}
