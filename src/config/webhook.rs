//! The filter of the code host's events, previews, and the search for missed events.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::resolver::{LONGEST, Resolver};
use crate::forge::github::webhook::environments::Environments;
use crate::forge::github::webhook::rules::{PreviewRules, Repositories, Rules, TagRule};
use crate::support::globs::check_glob;

/// The default time between searches for missed events.
const SWEEP: Duration = Duration::from_mins(5);

/// The shortest time between searches: more often loads the host for nothing.
const SHORTEST_SWEEP: Duration = Duration::from_secs(1);

/// Previews of pull requests: a check run that shows what merging would change.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Previews {
    /// Preview pull requests. Default: yes with a GitHub App; with a token there are no previews, because only Apps can
    /// write check runs.
    enabled: Option<bool>,
    /// Preview pull requests from forks, too: everybody who opens one can then read rendered manifests. Default: no.
    forks: Option<bool>,
    /// Write the check run on every pull request, even if there is nothing to preview; needed if branch protection
    /// requires the check. Default: no.
    always: Option<bool>,
}

/// The webhook's secret and the filter of events.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The secret that signs events.
    pub secret: WebhookSecret,
    /// The former secret, which is accepted too.
    pub previous: Option<SecretString>,
    /// The rules by which events are selected.
    pub rules: Rules,
    /// The time between searches for missed events; `None` for never.
    pub sweep: Option<Duration>,
}

/// The source of the webhook's secret.
#[derive(Debug, Clone)]
pub enum WebhookSecret {
    /// The configuration.
    Given(SecretString),
    /// A file, made at first start: see `secret::keep`.
    Kept(PathBuf),
}

impl Resolver<'_> {
    /// Reads the repositories that may deploy: all if neither they nor organizations are named.
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
        let repositories = Repositories::matching(globs.iter().map(String::as_str));
        repositories.unwrap_or_else(|error| {
            self.bad_globs("forge.github.repositories", &globs, &error);
            Repositories::any()
        })
    }

    fn repository_globs(&mut self, globs: &[String]) {
        for (n, glob) in globs.iter().enumerate() {
            let path = format!("forge.github.repositories[{n}]");
            if let Err(error) = check_glob(glob) {
                self.report_bad_glob(&path, &error);
            } else if !glob.contains('/') && glob != "**" {
                let message = "this matches no repository: their names are owner/name";
                let help = "write it like acme/* or acme/shop, or name `organizations`";
                self.report.error(&path, message, help);
            }
        }
    }

    /// Turns organizations into globs over repositories.
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
            self.report.error(&path, message, "write it as in addresses: `acme`");
        }
        globs
    }

    /// Reads the environments whose deployments the service takes.
    pub(super) fn environments(&mut self, globs: Option<Vec<String>>) -> Environments {
        let Some(globs) = globs else { return Environments::any() };
        if globs.is_empty() {
            let message = "with no environment, the service would ignore every deployment";
            self.report.error("forge.github.environments", message, "name some, or leave it out");
        }
        self.check_globs("forge.github.environments", &globs);
        let environments = Environments::matching(globs.iter().map(String::as_str));
        environments.unwrap_or_else(|error| {
            self.bad_globs("forge.github.environments", &globs, &error);
            Environments::any()
        })
    }

    pub(super) fn tasks(&mut self, tasks: Option<Vec<String>>) -> Vec<String> {
        let tasks = tasks.unwrap_or_else(|| Rules::default().tasks);
        if tasks.is_empty() {
            let message = "with no task, the service would ignore every deployment";
            self.report.error("forge.github.tasks", message, "write [deploy], or leave it out");
        }
        tasks
    }

    pub(super) fn tag(&mut self, tag: Option<String>) -> TagRule {
        let Some(tag) = tag else { return TagRule::default() };
        TagRule::parse(&tag).unwrap_or_else(|error| {
            let help = "write it like `{sha}` or `v-{short_sha}`";
            self.report.error("forge.github.tag", error.to_string(), help);
            TagRule::default()
        })
    }

    /// Reads the previews; `None` if there are none. `app` says whether the service is a GitHub App.
    pub(super) fn previews(
        &mut self,
        previews: Option<Previews>,
        app: bool,
    ) -> Option<PreviewRules> {
        let Previews { enabled, forks, always } = previews.unwrap_or_default();
        if enabled == Some(true) && !app {
            let message = "previews are check runs, and only GitHub Apps may make those";
            let help = "set `forge.github.app` in place of a token, or leave this out";
            self.report.error("forge.github.previews.enabled", message, help);
        }
        let rules = PreviewRules { forks: forks.unwrap_or(false), always: always.unwrap_or(false) };
        enabled.unwrap_or(app).then_some(rules)
    }

    /// Reads the time between searches for missed events; `None` for never.
    pub(super) fn sweep(&mut self, text: Option<String>) -> Option<Duration> {
        let path = "forge.github.sweep";
        let Some(text) = text else { return Some(SWEEP) };
        if matches!(text.as_str(), "off" | "0" | "0s") {
            return None;
        }
        let interval =
            text.parse().ok().and_then(|time: jiff::SignedDuration| time.try_into().ok());
        match interval {
            Some(interval) if (SHORTEST_SWEEP..=LONGEST).contains(&interval) => Some(interval),
            Some(_) | None => {
                let message = "this is not a time between a second and a day";
                self.report.error(path, message, "write it like `5m`, or `off`");
                Some(SWEEP)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{APP, github, loaded, refused, with_key};

    #[test]
    fn an_app_previews_pull_requests_unless_it_is_told_not_to() {
        let previews = |more: &str| {
            let text = github(&format!("{{id: 1, private_key: {{env: KEY}}}}{more}"));
            with_key(&text, APP).unwrap().settings.webhook.rules.previews
        };
        let rules = |forks, always| Some(PreviewRules { forks, always });
        assert_eq!(previews(""), rules(false, false));
        assert_eq!(previews("\n    previews: {forks: true}"), rules(true, false));
        assert_eq!(previews("\n    previews: {always: true}"), rules(false, true));
        assert_eq!(previews("\n    previews: {enabled: false, always: true}"), None);
    }

    #[test]
    fn a_token_previews_nothing_and_says_so_where_it_should() {
        let text = "forge:\n  github:\n    token: {env: TOKEN}\n    webhook_secret: {env: HOOK}\n";
        assert_eq!(loaded(text).settings.webhook.rules.previews, None);
        let message = refused(&format!("{text}    previews: {{enabled: true}}\n"));
        assert!(
            message.contains("config.yaml:5:25: previews are check runs, and only GitHub Apps"),
            "{message}"
        );
    }
}
