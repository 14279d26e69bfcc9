//! A Redis has a version and a size that exist, on a target that has any.

use super::quantity::Quantity;
use super::resources::not_a_quantity;
use super::{Report, Subject};
use crate::model::platform::cloud::RedisKind;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::typed::quoted;

/// Less than this, and Redis is busy with itself.
const SMALLEST: u64 = 32 << 20;

/// More than this fits on few nodes, and nobody means it for a pod beside the app.
const LARGEST: u64 = 64 << 30;

/// Memorystore has instances of 1 to 300 whole GB.
const MEMORYSTORE: std::ops::RangeInclusive<u64> = (1 << 30)..=(300 << 30);

/// Of Redis and of Valkey there are versions 3 to 9; the next major version comes with a release of ours.
const MAJORS: std::ops::RangeInclusive<u32> = 3..=9;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(redis) = &subject.section.redis else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if !subject.template.uses("redis") {
        return;
    }
    let kind = target.platform.cloud.redis;
    let here = Path::root().key("redis");
    if kind == RedisKind::None {
        let message = format!("there is nothing on `{}` that makes a Redis", target.name);
        let violation = Violation::error("redis", message).expected("cannot be had here");
        let help = "set `redis: null` for this target and give the app another one by `env`; or ask the operator for `platform.cloud.redis`";
        report.add(&here, violation.help(help));
        return;
    }
    version(redis.version.as_deref(), kind, &here.key("version"), report);
    memory(redis.memory.as_deref(), kind, &here.key("memory"), report);
}

fn version(text: Option<&str>, kind: RedisKind, path: &Path, report: &mut Report<'_>) {
    if text.is_some_and(|text| is_version(kind, text)) {
        return;
    }
    let message = text.map_or_else(
        || "the Redis has no version".to_owned(),
        |text| format!("{} is not a version of Redis that can be had here", quoted(text)),
    );
    let violation = Violation::error("redis", message).expected("needs a version");
    report.add(path, violation.help("write it like `7.2`"));
}

fn memory(text: Option<&str>, kind: RedisKind, path: &Path, report: &mut Report<'_>) {
    let text = text.unwrap_or_default();
    let Some(bytes) = Quantity::parse(text).and_then(Quantity::whole) else {
        report.add(path, not_a_quantity("redis", text, "memory"));
        return;
    };
    let (fits, expected) = match kind {
        RedisKind::Memorystore => {
            let whole = bytes % (1 << 30) == 0;
            (whole && MEMORYSTORE.contains(&bytes), "whole Gi, 1Gi to 300Gi")
        }
        RedisKind::None | RedisKind::InCluster => {
            ((SMALLEST..=LARGEST).contains(&bytes), "32Mi to 64Gi")
        }
    };
    if !fits {
        let violation = Violation::error("redis", format!("a Redis here cannot have {text}"));
        report.add(path, violation.expected(expected).help("write it like `1Gi`"));
    }
}

/// Tags of the image: `7`, `7.2`, `7.2.4`; Memorystore's: `7.2`, and for 6 `6.x`.
fn is_version(kind: RedisKind, text: &str) -> bool {
    let number =
        |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    let major = parts.first().and_then(|major| major.parse().ok());
    if !major.is_some_and(|major: u32| MAJORS.contains(&major)) {
        return false;
    }
    match (kind, &parts[..]) {
        (RedisKind::Memorystore, [major, minor]) => {
            number(major) && (number(minor) || *minor == "x")
        }
        (RedisKind::Memorystore, _) => false,
        (RedisKind::None | RedisKind::InCluster, parts) => {
            (1..=3).contains(&parts.len()) && parts.iter().all(|part| number(part))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_can_be_had() {
        for (text, in_cluster, memorystore) in [
            ("7", true, false),
            ("7.2", true, true),
            ("7.2.4", true, false),
            ("6.x", false, true),
            ("", false, false),
            ("latest", false, false),
            ("7.", false, false),
            ("7.2\n", false, false),
            ("99.1", false, false),
            ("0", false, false),
        ] {
            assert_eq!(is_version(RedisKind::InCluster, text), in_cluster, "{text:?}");
            assert_eq!(is_version(RedisKind::Memorystore, text), memorystore, "{text:?}");
        }
    }
}
