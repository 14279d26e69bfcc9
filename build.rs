//! Says which commit the programs are made of, for `--version`: the variable `THE_DEPLOYER_BUILD` of the compiler.
//!
//! The commit is that of the variable `THE_DEPLOYER_COMMIT`, or of the checkout; the date is that of `SOURCE_DATE_EPOCH`,
//! or of the commit. Neither is the clock's, so that the same commit gives the same programs. Both are `unknown` where
//! there is no git and no variable. Only what inherits the profile `release` looks: a development build would compile
//! everything anew after each commit.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script by variables")]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=THE_DEPLOYER_COMMIT");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let given = variable("THE_DEPLOYER_COMMIT");
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let build = if is_release || given.is_some() {
        let checkout = given.is_none();
        if checkout {
            rerun_after_commits();
        }
        let commit = given.or_else(|| git(&["rev-parse", "HEAD"]));
        let seconds = variable("SOURCE_DATE_EPOCH")
            .or_else(|| git(&["show", "-s", "--format=%ct", "HEAD"]).filter(|_| checkout))
            .and_then(|text| text.parse().ok());
        let commit = commit.map_or("unknown".to_owned(), |id| id.chars().take(12).collect());
        let date = seconds.map_or("unknown".to_owned(), date);
        format!("commit {commit}, {date}")
    } else {
        "development build".to_owned()
    };
    println!("cargo:rustc-env=THE_DEPLOYER_BUILD={build}");
}

/// Returns the variable if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns what git prints of the checkout that has this file, and of no other one around it.
fn git(arguments: &[&str]) -> Option<String> {
    let root = variable("CARGO_MANIFEST_DIR")?;
    let above = std::path::Path::new(&root).parent()?.to_owned();
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .env("GIT_CEILING_DIRECTORIES", above)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Asks cargo to look again when a commit or a checkout has moved `HEAD`, which its log records.
fn rerun_after_commits() {
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}

/// Returns the day of that second in UTC, as `2026-11-28` (the proleptic Gregorian calendar, counted in eras of 400
/// years that begin in March).
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
