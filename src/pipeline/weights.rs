//! Edits the weights of a WAML in place: the numbers change, and nothing else does. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::str::FromStr;

use crate::model::id::TargetName;
use crate::pipeline::merge;
use crate::rollout::plan::VersionWeights;
use crate::waml::Waml;
use crate::waml::node::{Node, Path};

/// A version with the percent that it should get: `v1=90`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionWeight {
    /// The version.
    pub version: String,
    /// The percent.
    pub percent: u32,
}

impl FromStr for VersionWeight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(version, _)| !version.is_empty());
        let percent = parts.and_then(|(_, percent)| percent.trim_end_matches('%').parse().ok());
        match (parts, percent.filter(|percent| *percent <= 100)) {
            (Some((version, _)), Some(percent)) => {
                Ok(Self { version: version.to_owned(), percent })
            }
            _ => Err("write VERSION=PERCENT with a whole number up to 100: v1=90".to_owned()),
        }
    }
}

/// The edited text, and the lines that differ.
#[derive(Debug)]
pub struct WeightEdit {
    /// The text.
    pub text: String,
    /// The lines.
    pub lines: Vec<EditedLine>,
}

/// A line that differs.
#[derive(Debug, PartialEq, Eq)]
pub struct EditedLine {
    /// Its number, from 1.
    pub number: u32,
    /// What stands there.
    pub before: String,
    /// What should.
    pub after: String,
}

/// The reason why the weights cannot be set, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{message}: {help}")]
pub struct EditError {
    /// The reason.
    pub message: String,
    /// The way out.
    pub help: String,
}

fn error<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, EditError> {
    Err(EditError { message: message.into(), help: help.into() })
}

/// The numbers to write: line and column, from 1, with what stands there and what should.
type Numbers = BTreeMap<(u32, u32), (String, u32)>;

/// Sets the weights of a target's versions.
///
/// # Errors
/// Weights that do not sum to 100, versions that are not there, and weights that are not written for this target alone.
pub fn set_weights(
    text: &str,
    waml: &Waml,
    target: &TargetName,
    weights: &[VersionWeight],
) -> Result<WeightEdit, EditError> {
    let mut percents: BTreeMap<&str, u32> = BTreeMap::new();
    for weight in weights {
        if percents.insert(&weight.version, weight.percent).is_some() {
            return error(format!("{} is named twice", weight.version), "name each version once");
        }
    }
    let sum: u32 = percents.values().sum();
    if sum != 100 {
        let help = "name every version that gets requests; the others get 0";
        return error(format!("the weights add up to {sum}, not 100"), help);
    }
    let Ok(merged) = merge::layers(waml, target) else {
        return error(format!("{target} is no target of this file"), "`bart validate` lists them");
    };
    let tree = &merged.tree;
    let versions = tree.get("versions").and_then(Node::as_list).unwrap_or_default();
    let names: Vec<&str> =
        versions.iter().filter_map(|one| one.get("name").and_then(Node::as_text)).collect();
    if let Some(unknown) = percents.keys().find(|name| !names.contains(*name)) {
        let help = format!("the versions of {target} are: {}", names.join(", "));
        return error(format!("there is no version {unknown}"), help);
    }
    let mut numbers = Numbers::new();
    let rules = tree.at(&Path::root().key("traffic").key("http")).and_then(Node::as_list);
    match rules {
        None => collect(versions, "name", &percents, target, &mut numbers)?,
        Some(rules) => {
            let mut is_any = false;
            for rule in rules {
                let targets = rule.get("targets").and_then(Node::as_list).unwrap_or_default();
                if leads_to(targets, &percents) {
                    is_any = true;
                    collect(targets, "version", &percents, target, &mut numbers)?;
                }
            }
            if !is_any {
                let help = "add them to the `targets` of a rule, with `weight: 0`";
                return error("no rule of `traffic` leads to all of these versions", help);
            }
        }
    }
    replace(text, &numbers)
}

/// Sets the weights of a target's versions in the bytes of a WAML.
///
/// # Errors
/// As [`set_weights`], and a WAML that cannot be read.
pub fn apply_weights(
    bytes: &[u8],
    waml: &Waml,
    target: &TargetName,
    weights: &VersionWeights,
) -> Result<WeightEdit, EditError> {
    let Ok(text) = str::from_utf8(bytes) else {
        return error("the WAML is not UTF-8 text", "write it as UTF-8");
    };
    let weights = weights
        .iter()
        .map(|(version, percent)| VersionWeight { version: version.clone(), percent: *percent });
    set_weights(text, waml, target, &weights.collect::<Vec<_>>())
}

/// Gives a version a percent, and shares the rest between the others in proportion to what they have. The sum is 100;
/// what rounding leaves goes to the largest remainders, and to the first name among equal ones. `None` where no other
/// version has a share to give the rest to.
pub fn shift_weights(live: &VersionWeights, to: &str, percent: u32) -> Option<VersionWeights> {
    let rest = 100_u32.checked_sub(percent)?;
    let others = || live.iter().filter(|(name, _)| name.as_str() != to);
    let whole: u64 = others().map(|(_, share)| u64::from(*share)).sum();
    if whole == 0 && rest > 0 {
        return None;
    }
    let mut shared = VersionWeights::from([(to.to_owned(), percent)]);
    let mut remainders: Vec<(u64, &String)> = Vec::new();
    let mut left = rest;
    for (name, share) in others() {
        let exact = u64::from(*share) * u64::from(rest);
        let floor = exact.checked_div(whole).and_then(|floor| u32::try_from(floor).ok());
        let floor = floor.unwrap_or_default();
        left = left.saturating_sub(floor);
        remainders.push((exact.checked_rem(whole).unwrap_or_default(), name));
        shared.insert(name.clone(), floor);
    }
    // Stable: names stay in their order.
    remainders.sort_by_key(|(remainder, _)| Reverse(*remainder));
    for (_, name) in remainders.into_iter().take(left as usize) {
        *shared.entry(name.clone()).or_default() += 1;
    }
    Some(shared)
}

/// Writes weights as a person does: `v1=90 v2=10`.
pub fn weights_text(weights: &VersionWeights) -> String {
    let one = |(version, percent): (&String, &u32)| format!("{version}={percent}");
    weights.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Checks that a rule leads to every version that gets requests.
fn leads_to(targets: &[Node], percents: &BTreeMap<&str, u32>) -> bool {
    let has = |name: &str| {
        targets.iter().any(|one| one.get("version").and_then(Node::as_text) == Some(name))
    };
    percents.iter().filter(|(_, percent)| **percent > 0).all(|(name, _)| has(name))
}

/// Collects the numbers of a list of versions or of a rule's targets.
fn collect(
    list: &[Node],
    key: &str,
    percents: &BTreeMap<&str, u32>,
    target: &TargetName,
    numbers: &mut Numbers,
) -> Result<(), EditError> {
    let section = format!("deploy.{target}");
    for one in list {
        let name = one.get(key).and_then(Node::as_text).unwrap_or_default();
        let percent = percents.get(name).copied().unwrap_or(0);
        let Some(weight) = one.get("weight") else {
            // A list of one needs no weight.
            if list.len() == 1 && percent == 100 {
                continue;
            }
            let place = &one.origin.position;
            return error(format!("{place}: {name} has no `weight`"), "add `weight: 0`");
        };
        let place = &weight.origin.position;
        if *weight.origin.layer != *section {
            let message =
                format!("{place}: this weight is for other targets, too ({})", weight.origin.layer);
            return error(message, format!("write `versions` and `traffic` under `{section}`"));
        }
        let former = weight.as_text().unwrap_or_default().to_owned();
        let number = numbers.insert((place.line, place.column), (former, percent));
        if number.is_some_and(|(_, other)| other != percent) {
            let message = format!("{place}: two weights are written here once, by an alias");
            return error(message, "write them apart");
        }
    }
    Ok(())
}

/// Replaces numbers, the last one first, so that places stay.
fn replace(text: &str, numbers: &Numbers) -> Result<WeightEdit, EditError> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut edited: BTreeMap<u32, EditedLine> = BTreeMap::new();
    for ((number, column), (former, percent)) in numbers.iter().rev() {
        let next = percent.to_string();
        let line = number.checked_sub(1).and_then(|index| lines.get_mut(index as usize));
        let start = column.checked_sub(1).map_or(0, |skipped| skipped as usize);
        let Some(line) = line else { continue };
        let offset = line.char_indices().nth(start).map_or(line.len(), |(offset, _)| offset);
        if !line.get(offset..).is_some_and(|rest| rest.starts_with(former.as_str())) {
            let message = format!("the weight in line {number} is not a plain number");
            return error(message, "write it without quotes");
        }
        if *former == next {
            continue;
        }
        let before = line.trim().to_owned();
        line.replace_range(offset..offset + former.len(), &next);
        let after = line.trim().to_owned();
        let entry = edited.entry(*number);
        let one = entry.or_insert(EditedLine { number: *number, before, after: String::new() });
        one.after = after;
    }
    Ok(WeightEdit { text: lines.join("\n"), lines: edited.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n";

    fn set(section: &str, wanted: &[&str]) -> Result<String, String> {
        let text = format!("{HEAD}{section}");
        let waml = Waml::parse("w", text.as_bytes()).unwrap();
        let weights: Vec<VersionWeight> = wanted.iter().map(|one| one.parse().unwrap()).collect();
        let target = TargetName::parse("t").unwrap();
        match set_weights(&text, &waml, &target, &weights) {
            Ok(edit) => Ok(edit.text.strip_prefix(HEAD).unwrap().to_owned()),
            Err(error) => Err(error.message),
        }
    }

    #[test]
    fn only_the_numbers_change() {
        let section = "  # one ü\n  t:\n    versions: [{name: v1, weight: 100}, {weight: 0, name: v2}] # two\n    labels: {a: b}\n";
        let expected =
            section.replace("weight: 100", "weight: 90").replace("weight: 0,", "weight: 10,");
        assert_eq!(set(section, &["v1=90", "v2=10%"]), Ok(expected));
        assert_eq!(set(section, &["v1=100"]), Ok(section.to_owned()));
    }

    #[test]
    fn rules_of_other_versions_stay() {
        let section = "  t:
    versions: [{name: v1}, {name: v2}, {name: v3}]
    traffic:
      http:
      - match: [{prefix: /new}]
        targets: [{version: v3, weight: 100}]
      - targets:
        - {version: v1, weight: 100}
        - {version: v2, weight: 0}
";
        let expected = section
            .replace("{version: v1, weight: 100}", "{version: v1, weight: 25}")
            .replace("{version: v2, weight: 0}", "{version: v2, weight: 75}");
        assert_eq!(set(section, &["v2=75", "v1=25"]), Ok(expected));
        let error = set(section, &["v2=75", "v3=25"]).unwrap_err();
        assert_eq!(error, "no rule of `traffic` leads to all of these versions");
    }

    #[test]
    fn what_cannot_be_set_is_told() {
        let section = "  t: {versions: [{name: v1, weight: 100}, {name: v2}]}\n";
        for (wanted, message) in [
            (&["v1=90"][..], "the weights add up to 90, not 100"),
            (&["v1=50", "v1=50"][..], "v1 is named twice"),
            (&["v1=50", "v3=50"][..], "there is no version v3"),
            (&["v1=50", "v2=50"][..], "w:7:43: v2 has no `weight`"),
        ] {
            assert_eq!(set(section, wanted), Err(message.to_owned()));
        }
        let shared = "  t: {}\ndefaults: [{match: '*', versions: [{name: v1, weight: 50}, {name: v2, weight: 50}]}]\n";
        let error = set(shared, &["v1=100"]).unwrap_err();
        assert!(error.contains("this weight is for other targets, too"), "{error}");
        for text in ["v1", "=5", "v1=101", "v1=-1", "v1=x"] {
            assert!(text.parse::<VersionWeight>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_rest_is_shared_in_proportion() {
        let of = |pairs: &[(&str, u32)]| -> VersionWeights {
            pairs.iter().map(|(name, percent)| ((*name).to_owned(), *percent)).collect()
        };
        let live = of(&[("v1", 100), ("v2", 0)]);
        assert_eq!(shift_weights(&live, "v2", 10), Some(of(&[("v1", 90), ("v2", 10)])));
        let live = of(&[("a", 1), ("b", 1), ("c", 1), ("d", 97)]);
        let shared = shift_weights(&live, "d", 0);
        assert_eq!(shared, Some(of(&[("a", 34), ("b", 33), ("c", 33), ("d", 0)])));
        assert_eq!(shift_weights(&of(&[("a", 100)]), "b", 100), Some(of(&[("a", 0), ("b", 100)])));
        assert_eq!(shift_weights(&of(&[("a", 100)]), "a", 50), None, "nobody gets the rest");
        assert_eq!(shift_weights(&live, "d", 101), None);
        assert_eq!(weights_text(&of(&[("v1", 90), ("v2", 10)])), "v1=90 v2=10");
    }

    proptest::proptest! {
        #[test]
        fn shifted_weights_are_all_the_requests(
            shares in proptest::collection::vec(0_u32..=100, 1..8), percent in 0_u32..=100, to in 0_usize..9,
        ) {
            let live: VersionWeights =
                shares.iter().enumerate().map(|(number, share)| (format!("v{number}"), *share)).collect();
            let to = format!("v{to}");
            let whole: u32 = live.iter().filter(|(name, _)| **name != to).map(|(_, share)| share).sum();
            let Some(shifted) = shift_weights(&live, &to, percent) else {
                proptest::prop_assert!(whole == 0 && percent < 100);
                return Ok(());
            };
            proptest::prop_assert_eq!(shifted.values().sum::<u32>(), 100);
            proptest::prop_assert_eq!(shifted[&to], percent);
            for (name, share) in live.iter().filter(|(name, _)| **name != to) {
                let exact = share.saturating_mul(100 - percent).checked_div(whole).unwrap_or(0);
                proptest::prop_assert!((exact..=exact + 1).contains(&shifted[name]), "{}", name);
            }
        }
    }
}
