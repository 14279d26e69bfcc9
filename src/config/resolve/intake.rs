//! Whose events are for us, and how often lost ones are looked for.

use std::time::Duration;

use crate::config::resolve::{LONGEST, Resolver};
use crate::forge::github::webhook::environments::Environments;
use crate::forge::github::webhook::rules::Repositories;
use crate::support::globs::check_glob;

/// How often lost events are looked for where nothing is set.
const SWEEP: Duration = Duration::from_mins(5);
/// More often is a load on the host for nothing.
const SHORTEST_SWEEP: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// Which repositories may deploy: all where neither they nor organizations are named.
    pub(super) fn repositories(
        &mut self,
        globs: Option<Vec<String>>,
        organizations: Option<Vec<String>>,
    ) -> Repositories {
        if globs.is_none() && organizations.is_none() {
            return Repositories::any();
        }
        let mut globs = globs.unwrap_or_default();
        self.repository_globs(&globs);
        globs.extend(self.organizations(&organizations.unwrap_or_default()));
        let all = Repositories::matching(globs.iter().map(String::as_str));
        all.unwrap_or_else(|error| {
            self.bad_globs("forge.github.repositories", &globs, &error);
            Repositories::any()
        })
    }

    fn repository_globs(&mut self, globs: &[String]) {
        for (n, glob) in globs.iter().enumerate() {
            let path = format!("forge.github.repositories[{n}]");
            if let Err(error) = check_glob(glob) {
                self.bad_glob(&path, &error);
            } else if !glob.contains('/') && glob != "**" {
                let message = "this matches no repository: their names are owner/name";
                let help = "write it like acme/* or acme/shop, or name `organizations`";
                self.report.wrong(&path, message, help);
            }
        }
    }

    /// As globs over repositories.
    fn organizations(&mut self, names: &[String]) -> Vec<String> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let mut globs = Vec::new();
        for (n, name) in names.iter().enumerate() {
            if !name.is_empty() && name.chars().all(legal) {
                globs.push(format!("{name}/*"));
                continue;
            }
            let path = format!("forge.github.organizations[{n}]");
            let message = "this is not the name of an organization";
            self.report.wrong(&path, message, "write it as in addresses: `acme`");
        }
        globs
    }

    /// Which environments are for us.
    pub(super) fn environments(&mut self, globs: Option<Vec<String>>) -> Environments {
        let Some(globs) = globs else { return Environments::any() };
        if globs.is_empty() {
            let message = "with no environment, no deployment is for us";
            self.report.wrong("forge.github.environments", message, "name some, or leave it out");
        }
        self.check_globs("forge.github.environments", &globs);
        let all = Environments::matching(globs.iter().map(String::as_str));
        all.unwrap_or_else(|error| {
            self.bad_globs("forge.github.environments", &globs, &error);
            Environments::any()
        })
    }

    /// How often lost events are looked for; `None` for never.
    pub(super) fn sweep(&mut self, text: Option<String>) -> Option<Duration> {
        let path = "forge.github.sweep";
        let Some(text) = text else { return Some(SWEEP) };
        if matches!(text.as_str(), "off" | "0" | "0s") {
            return None;
        }
        let every = text.parse().ok().and_then(|time: jiff::SignedDuration| time.try_into().ok());
        match every {
            Some(every) if (SHORTEST_SWEEP..=LONGEST).contains(&every) => Some(every),
            Some(_) | None => {
                let message = "this is not a time between a second and a day";
                self.report.wrong(path, message, "write it like `5m`, or `off`");
                Some(SWEEP)
            }
        }
    }
}
