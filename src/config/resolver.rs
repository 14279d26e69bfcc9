//! Turns the file into settings: fills in defaults, parses every value into its own type, and reports contradictions at
//! their places. Reads secrets, and nothing else from outside.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::config::report::ConfigReport;
use crate::support::globs::{GlobError, Globs, check_glob};
use crate::support::secret_text::has_credentials;

/// The longest duration that may be set; a longer one is a mistake.
pub(super) const LONGEST: Duration = Duration::from_hours(24);

/// The longest list: every deployment reads each element.
const MAX: usize = 100;

/// The purpose of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The settings are for running the service.
    Serve,
    /// The settings are for acting on the database: its location, and the clusters.
    Record,
    /// The settings are for rebuilding the database from the manifest repositories and the code host.
    Rebuild,
}

/// The context in which settings are made.
pub(super) struct Resolver<'a> {
    /// Collects violations.
    pub(super) report: ConfigReport<'a>,
    /// The environment, for secrets.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The default storage folder.
    pub(super) home: &'a Path,
    /// The purpose of the settings.
    pub(super) purpose: Purpose,
}

impl Resolver<'_> {
    /// Parses a duration such as `30s`; the default if none is set or it cannot be parsed.
    pub(super) fn duration(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let default = Duration::from_secs(default);
        let Some(text) = text else { return default };
        let signed = text.parse::<jiff::SignedDuration>().ok();
        match signed.and_then(|signed| Duration::try_from(signed).ok()) {
            Some(duration) if duration <= LONGEST => duration,
            Some(_) | None => {
                let message = "this is not a duration of at most a day";
                self.report.error(path, message, "write it like `30s` or `5m`");
                default
            }
        }
    }

    /// Reports a list that is too long to read for every deployment.
    pub(super) fn limit_length(&mut self, path: &str, count: usize) {
        if count > MAX {
            let message = format!("these are {count}, more than the limit of {MAX}");
            self.report.error(path, message, "join those that belong together");
        }
    }

    /// Reports an address with credentials, which logs would show.
    pub(super) fn without_credentials(&mut self, path: &str, url: &str) {
        if has_credentials(url) {
            let message = "the address has a user name or a password in it, which logs would show";
            self.report.error(path, message, "remove it, and give the secret under `token`");
        }
    }

    pub(super) fn check_globs(&mut self, path: &str, globs: &[String]) {
        for (n, glob) in globs.iter().enumerate() {
            if let Err(error) = check_glob(glob) {
                self.report_bad_glob(&format!("{path}[{n}]"), &error);
            }
        }
    }

    /// Compiles globs; reports those that cannot be compiled, and then returns globs that match everything.
    pub(super) fn parse_globs(&mut self, path: &str, globs: &[String]) -> Globs {
        self.check_globs(path, globs);
        Globs::parse(globs).unwrap_or_else(|error| {
            self.bad_globs(path, globs, &error);
            Globs::default()
        })
    }

    /// Reports globs that can be compiled one by one and are too many together.
    pub(super) fn bad_globs(&mut self, path: &str, globs: &[String], error: &GlobError) {
        if globs.iter().all(|glob| check_glob(glob).is_ok()) {
            self.report_bad_glob(path, error);
        }
    }

    pub(super) fn report_bad_glob(&mut self, path: &str, error: &GlobError) {
        let message = format!("this glob cannot be read: {}", error.kind());
        self.report.error(path, message, "use `*`, `?`, `[a-z]` and `{one,two}`");
    }
}
