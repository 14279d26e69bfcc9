//! From the file to settings: what every area does. Defaults are filled in, every value becomes its own type, and what
//! contradicts itself is told at its place. Reads secrets, and nothing else from outside.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::config::mask::has_credentials;
use crate::config::report::ConfigReport;
use crate::support::globs::{GlobError, Globs, check_glob};

/// The longest time that may be set; a longer one is a mistake.
pub(super) const LONGEST: Duration = Duration::from_hours(24);

/// Each is looked at for every deployment.
const MOST: usize = 100;

/// What the settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The service.
    Serve,
    /// Acts on the database: where it is, and which clusters there are.
    Record,
    /// Making the database again of what the manifest repositories and the code host know.
    Rebuild,
}

/// What settings are made with.
pub(super) struct Resolver<'a> {
    /// Where violations go.
    pub(super) report: ConfigReport<'a>,
    /// For secrets.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The storage folder where none is configured.
    pub(super) home: &'a Path,
    /// What the settings are for.
    pub(super) purpose: Purpose,
}

impl Resolver<'_> {
    /// A time such as `30s`; the default where none is set or it cannot be read.
    pub(super) fn duration(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let default = Duration::from_secs(default);
        let Some(text) = text else { return default };
        let read = text.parse::<jiff::SignedDuration>().ok();
        match read.and_then(|signed| Duration::try_from(signed).ok()) {
            Some(duration) if duration <= LONGEST => duration,
            Some(_) | None => {
                let message = "this is not a duration of at most a day";
                self.report.error(path, message, "write it like `30s` or `5m`");
                default
            }
        }
    }

    /// Reports a list that is longer than can be looked at for every deployment.
    pub(super) fn few(&mut self, path: &str, count: usize) {
        if count > MOST {
            let message = format!("these are {count}, more than the limit of {MOST}");
            self.report.error(path, message, "join those that belong together");
        }
    }

    /// A token in an address ends in logs.
    pub(super) fn without_credentials(&mut self, path: &str, url: &str) {
        if has_credentials(url) {
            let message = "the address has a user name or a password in it, which logs would show";
            self.report.error(path, message, "remove it, and give the secret under `token`");
        }
    }

    pub(super) fn check_globs(&mut self, path: &str, globs: &[String]) {
        for (n, glob) in globs.iter().enumerate() {
            if let Err(error) = check_glob(glob) {
                self.bad_glob(&format!("{path}[{n}]"), &error);
            }
        }
    }

    /// The globs, compiled; of those that cannot be, which is told, what they would match is not known.
    pub(super) fn parse_globs(&mut self, path: &str, globs: &[String]) -> Globs {
        self.check_globs(path, globs);
        Globs::parse(globs).unwrap_or_else(|error| {
            self.bad_globs(path, globs, &error);
            Globs::default()
        })
    }

    /// Globs that can be compiled one by one may be too many together.
    pub(super) fn bad_globs(&mut self, path: &str, globs: &[String], error: &GlobError) {
        if globs.iter().all(|glob| check_glob(glob).is_ok()) {
            self.bad_glob(path, error);
        }
    }

    pub(super) fn bad_glob(&mut self, path: &str, error: &GlobError) {
        let message = format!("this glob cannot be read: {}", error.kind());
        self.report.error(path, message, "use `*`, `?`, `[a-z]` and `{one,two}`");
    }
}
