//! A database has a version, a size and a tier that exist, on a target that has databases.

use super::resources::not_a_quantity;
use super::{Report, Subject};
use crate::manifests::quantity::Quantity;
use crate::model::platform::cloud::DatabaseKind;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_operations::{Database, Engine};
use crate::waml::typed::quoted;

/// Cloud SQL's disks have 10 to 65,536 GB.
const SIZES: std::ops::RangeInclusive<u64> = (10 << 30)..=(65_536 << 30);

/// The major versions that there are, and the next: what comes later comes with a release of ours.
const POSTGRES: std::ops::RangeInclusive<u32> = 10..=20;
const MYSQL: std::ops::RangeInclusive<u32> = 5..=9;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(database) = &subject.section.database else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if !subject.template.uses("database") {
        return;
    }
    let here = Path::root().key("database");
    match target.platform.cloud.database {
        DatabaseKind::None => {
            let message = format!("there is nothing on `{}` that makes databases", target.name);
            let violation = Violation::error("database", message).expected("cannot be had here");
            let help = "set `database: null` for this target and give the app another one by `env`; or ask the operator for `platform.cloud.database`";
            report.add(&here, violation.help(help));
        }
        DatabaseKind::CloudSql => cloud_sql(database, &here, report),
    }
}

fn cloud_sql(database: &Database, here: &Path, report: &mut Report<'_>) {
    let Database { engine, version, tier, storage, high_availability: _ } = database;
    let engine = engine.unwrap_or(Engine::Postgres);
    let form = match engine {
        Engine::Postgres => "write it like `16`",
        Engine::Mysql => "write it like `8.0`",
    };
    let is_version = |text: &str| is_version(engine, text);
    named("version", version.as_deref(), is_version, form, here, report);
    let help = "write it like `db-custom-1-3840`: 1 CPU, 3840 MB";
    named("tier", tier.as_deref(), is_tier, help, here, report);
    match storage.as_deref().map(|text| (text, Quantity::parse(text).and_then(Quantity::whole))) {
        Some((text, None)) => {
            report.add(&here.key("storage"), not_a_quantity("database", text, "memory"));
        }
        Some((_, Some(bytes))) if SIZES.contains(&bytes) => {}
        found => {
            let shown = found.map_or("no size".to_owned(), |(text, _)| format!("the size {text}"));
            let violation = Violation::error("database", format!("a database cannot have {shown}"));
            let violation = violation.expected("10Gi to 64Ti").help("write it like `10Gi`");
            report.add(&here.key("storage"), violation);
        }
    }
}

fn named(
    key: &'static str,
    text: Option<&str>,
    legal: impl Fn(&str) -> bool,
    help: &'static str,
    here: &Path,
    report: &mut Report<'_>,
) {
    if text.is_some_and(legal) {
        return;
    }
    let message = text.map_or_else(
        || format!("the database has no {key}"),
        |text| format!("{} is not a {key} of this kind of database", quoted(text)),
    );
    let violation = Violation::error("database", message).expected(format!("needs a {key}"));
    report.add(&here.key(key), violation.help(help));
}

/// As Cloud SQL names them: `POSTGRES_9_6`, `POSTGRES_16`, `MYSQL_8_0`, `MYSQL_8_0_36`.
fn is_version(engine: Engine, text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let number =
        |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let numbers = parts.iter().all(number);
    let major: u32 = parts.first().and_then(|major| major.parse().ok()).unwrap_or_default();
    match engine {
        Engine::Postgres => {
            let whole = numbers && parts.len() == 1 && text.len() == 2;
            text == "9.6" || (whole && POSTGRES.contains(&major))
        }
        Engine::Mysql => numbers && (2..=3).contains(&parts.len()) && MYSQL.contains(&major),
    }
}

fn is_tier(text: &str) -> bool {
    text.len() <= 63
        && text.strip_prefix("db-").is_some_and(|rest| !rest.is_empty())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
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
}
