//! Edits the weights of a WAML in place: the numbers change, and nothing else does. Pure.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::model::id::TargetName;
use crate::pipeline::merge;
use crate::waml::Waml;
use crate::waml::node::{Node, Path};

/// A version with the percent that it should get: `v1=90`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionWeight {
    version: String,
    percent: u32,
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
pub(super) struct WeightEdit {
    pub(super) text: String,
    pub(super) lines: Vec<EditedLine>,
}

/// A line that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditedLine {
    pub(super) number: u32,
    pub(super) before: String,
    pub(super) after: String,
}

/// The reason why the weights cannot be set, and the way out.
#[derive(Debug)]
pub(super) struct EditError {
    pub(super) message: String,
    pub(super) help: String,
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
pub(super) fn set_weights(
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
}
