//! The app's databases and caches exist in the requested form, on a target that can create them.

use super::resources::not_a_quantity;
use super::{RuleReport, Subject};
use crate::manifests::quantity::Quantity;
use crate::model::platform::cloud::{DatabaseKind, RedisKind};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_operations::{Database, Engine};
use crate::waml::suggest;

/// Cloud SQL's disks have 10 to 65,536 GB.
const SIZES: std::ops::RangeInclusive<u64> = (10 << 30)..=(65_536 << 30);

/// The existing major versions, and the next one: later ones come with a release of the-deployer.
const POSTGRES: std::ops::RangeInclusive<u32> = 10..=20;
const MYSQL: std::ops::RangeInclusive<u32> = 5..=9;

/// Checks that a database has a version, a size and a tier that exist, on a target that can create one.
pub(super) fn database(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(database) = &subject.section.database else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if !subject.template.uses("database") {
        return;
    }
    let database_path = Path::root().key("database");
    match target.platform.cloud.database {
        DatabaseKind::None => {
            let message = format!("`{}` cannot create databases", target.name);
            let violation = Violation::error("database", message).expected("not available here");
            let help = "set `database: null` for this target and give the app another one by `env`; or ask the operator for `platform.cloud.database`";
            report.add(&database_path, violation.help(help));
        }
        DatabaseKind::CloudSql => cloud_sql(database, &database_path, report),
    }
}

fn cloud_sql(database: &Database, path: &Path, report: &mut RuleReport<'_>) {
    let Database { engine, version, tier, storage, high_availability: _ } = database;
    let engine = engine.unwrap_or(Engine::Postgres);
    let form = match engine {
        Engine::Postgres => "write it like `16`",
        Engine::Mysql => "write it like `8.0`",
    };
    let is_version = |text: &str| is_version(engine, text);
    check_setting("version", version.as_deref(), is_version, form, path, report);
    let help = "write it like `db-custom-1-3840`: 1 CPU, 3840 MB";
    check_setting("tier", tier.as_deref(), is_tier, help, path, report);
    match storage.as_deref().map(|text| (text, Quantity::parse(text).and_then(Quantity::whole))) {
        Some((text, None)) => {
            report.add(&path.key("storage"), not_a_quantity("database", text, "memory"));
        }
        Some((_, Some(bytes))) if SIZES.contains(&bytes) => {}
        storage => {
            let size_text =
                storage.map_or("no size".to_owned(), |(text, _)| format!("the size {text}"));
            let violation =
                Violation::error("database", format!("a database cannot have {size_text}"));
            let violation = violation.expected("10Gi to 64Ti").help("write it like `10Gi`");
            report.add(&path.key("storage"), violation);
        }
    }
}

fn check_setting(
    key: &'static str,
    text: Option<&str>,
    legal: impl Fn(&str) -> bool,
    help: &'static str,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    if text.is_some_and(legal) {
        return;
    }
    let message = text.map_or_else(
        || format!("the database has no {key}"),
        |text| format!("{} is not a {key} of this kind of database", quote(text)),
    );
    let violation = Violation::error("database", message).expected(format!("needs a {key}"));
    report.add(&path.key(key), violation.help(help));
}

/// Checks for a version as Cloud SQL names them: `POSTGRES_9_6`, `POSTGRES_16`, `MYSQL_8_0`,
/// `MYSQL_8_0_36`.
fn is_version(engine: Engine, text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let number =
        |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let numbers = parts.iter().all(number);
    let major: u32 = parts.first().and_then(|major| major.parse().ok()).unwrap_or_default();
    match engine {
        Engine::Postgres => {
            let is_major_only = numbers && parts.len() == 1 && text.len() == 2;
            text == "9.6" || (is_major_only && POSTGRES.contains(&major))
        }
        Engine::Mysql => numbers && (2..=3).contains(&parts.len()) && MYSQL.contains(&major),
    }
}

fn is_tier(text: &str) -> bool {
    text.len() <= 63
        && text.strip_prefix("db-").is_some_and(|rest| !rest.is_empty())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The bytes below which Redis is busy with itself.
const SMALLEST: u64 = 32 << 20;

/// The largest Redis beside the app: a larger one fits on few nodes, and nobody means it.
const LARGEST: u64 = 64 << 30;

/// Memorystore has instances of 1 to 300 whole GB.
const MEMORYSTORE: std::ops::RangeInclusive<u64> = (1 << 30)..=(300 << 30);

/// The existing versions of Redis and of Valkey, without patches. The two last majors still get new minors, and the
/// next major comes with a release of the-deployer.
const VERSIONS: [(u32, &[u32]); 7] = [
    (3, &[0, 2]),
    (4, &[0]),
    (5, &[0]),
    (6, &[0, 2]),
    (7, &[0, 2, 4]),
    (8, &[0, 1, 2, 4, 6]),
    (9, &[0, 1]),
];

/// The limit of patches: no version of either has had so many.
const MAX_PATCHES: u32 = 40;

/// Memorystore's: there are no others, and there will be none.
const MEMORYSTORE_VERSIONS: [&str; 6] = ["3.2", "4.0", "5.0", "6.x", "7.0", "7.2"];

/// Checks that a Redis has a version and a size that exist, on a target that can create one.
pub(super) fn redis(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(redis) = &subject.section.redis else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if !subject.template.uses("redis") {
        return;
    }
    let kind = target.platform.cloud.redis;
    let redis_path = Path::root().key("redis");
    if kind == RedisKind::None {
        let message = format!("`{}` cannot create a Redis", target.name);
        let violation = Violation::error("redis", message).expected("not available here");
        let help = "set `redis: null` for this target and give the app another one by `env`; or ask the operator for `platform.cloud.redis`";
        report.add(&redis_path, violation.help(help));
        return;
    }
    version(redis.version.as_deref(), kind, &redis_path.key("version"), report);
    memory(redis.memory.as_deref(), kind, &redis_path.key("memory"), report);
}

fn version(text: Option<&str>, kind: RedisKind, path: &Path, report: &mut RuleReport<'_>) {
    let Some(text) = text else {
        let violation = Violation::error("redis", "the Redis has no version");
        return report.add(path, violation.expected("needs a version").help("write it like `7.2`"));
    };
    match classify_version(kind, text) {
        Availability::Yes => {}
        Availability::No => {
            let message =
                format!("{} is not a version of Redis that is available here", quote(text));
            let violation = Violation::error("redis", message).expected("needs a version");
            report.add(path, violation.help(ways_out(kind, text)));
        }
        Availability::Doubtful => {
            let message = format!("no version {} of Redis is known", quote(text));
            let violation = Violation::warning("redis", message).expected("may not exist");
            let help = format!("{}, unless the image has a tag of that name", ways_out(kind, text));
            report.add(path, violation.help(help));
        }
    }
}

/// Lists the versions to write instead: those of the same major, or the usual one.
fn ways_out(kind: RedisKind, text: &str) -> String {
    let minors = |major: u32| VERSIONS.iter().find(|(version, _)| *version == major);
    let major = text.split('.').next().and_then(|major| major.parse().ok());
    let version_texts: Vec<String> = match (kind, major.and_then(minors)) {
        (RedisKind::Memorystore, _) => MEMORYSTORE_VERSIONS.map(str::to_owned).to_vec(),
        (_, Some((major, minors))) => {
            minors.iter().map(|minor| format!("{major}.{minor}")).collect()
        }
        (_, None) => return "write it like `7.2`".to_owned(),
    };
    match version_texts.as_slice() {
        [only] => format!("write `version: \"{only}\"`"),
        _ => format!("write one of {}", suggest::list(version_texts.iter().map(String::as_str))),
    }
}

fn memory(text: Option<&str>, kind: RedisKind, path: &Path, report: &mut RuleReport<'_>) {
    let text = text.unwrap_or_default();
    let Some(bytes) = Quantity::parse(text).and_then(Quantity::whole) else {
        report.add(path, not_a_quantity("redis", text, "memory"));
        return;
    };
    let (fits, expected) = match kind {
        RedisKind::Memorystore => {
            let is_whole_gi = bytes % (1 << 30) == 0;
            (is_whole_gi && MEMORYSTORE.contains(&bytes), "whole Gi, 1Gi to 300Gi")
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

/// The result of a lookup of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Availability {
    Yes,
    No,
    /// It has the form of a version, and no such number is known.
    Doubtful,
}

/// Classifies tags of the image: `7`, `7.2`, `7.2.4`; Memorystore's: `7.2`, and for 6 `6.x`.
fn classify_version(kind: RedisKind, text: &str) -> Availability {
    if kind == RedisKind::Memorystore {
        return if MEMORYSTORE_VERSIONS.contains(&text) {
            Availability::Yes
        } else {
            Availability::No
        };
    }
    let number = |part: &str| -> Option<u32> {
        let digits = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        let padded = part.len() > 1 && part.starts_with('0');
        if digits && !padded { part.parse().ok() } else { None }
    };
    let Some(parts) = text.split('.').map(number).collect::<Option<Vec<u32>>>() else {
        return Availability::No;
    };
    let [major, rest @ ..] = parts.as_slice() else { return Availability::No };
    let Some((_, minors)) = VERSIONS.iter().find(|(version, _)| version == major) else {
        return Availability::No;
    };
    match rest {
        [] => Availability::Yes,
        [minor] if minors.contains(minor) => Availability::Yes,
        [minor, patch] if minors.contains(minor) && *patch < MAX_PATCHES => Availability::Yes,
        [_] | [_, _] => Availability::Doubtful,
        _ => Availability::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_their_engine() {
        for text in ["9.6", "13", "16", "18"] {
            assert!(is_version(Engine::Postgres, text), "{text}");
        }
        for text in ["", "9", "16.1", "8.0", "x", "1_6", "016", "99"] {
            assert!(!is_version(Engine::Postgres, text), "{text}");
        }
        for text in ["5.7", "8.0", "8.4", "8.0.36"] {
            assert!(is_version(Engine::Mysql, text), "{text}");
        }
        for text in ["", "8", "16", "8.", "8.0.36.1", "8.x", "99.1"] {
            assert!(!is_version(Engine::Mysql, text), "{text}");
        }
    }

    #[test]
    fn versions_are_those_that_can_be_had() {
        use Availability::{Doubtful, No, Yes};
        for (text, in_cluster, memorystore) in [
            ("7", Yes, No),
            ("7.2", Yes, Yes),
            ("7.2.4", Yes, No),
            ("6.x", No, Yes),
            ("", No, No),
            ("latest", No, No),
            ("7.", No, No),
            ("7.2\n", No, No),
            ("99.1", No, No),
            ("0", No, No),
            ("7.10", Doubtful, No),
            ("7.4", Yes, No),
            ("8.0.5", Yes, No),
            ("8.0.99", Doubtful, No),
            ("8.9", Doubtful, No),
            ("7.02", No, No),
            ("7.2.4.1", No, No),
        ] {
            assert_eq!(classify_version(RedisKind::InCluster, text), in_cluster, "{text:?}");
            assert_eq!(classify_version(RedisKind::Memorystore, text), memorystore, "{text:?}");
        }
        assert_eq!(ways_out(RedisKind::InCluster, "7.10"), "write one of `7.0`, `7.2` and `7.4`");
        assert_eq!(ways_out(RedisKind::InCluster, "5.1"), "write `version: \"5.0\"`");
    }
}
