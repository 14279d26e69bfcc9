//! Which pull requests are previewed.

use crate::config::file;
use crate::config::resolve::Resolver;
use crate::forge::github::webhook::rules::PreviewRules;

impl Resolver<'_> {
    /// `None` where there are no previews; `app` says whether we are a GitHub App.
    pub(super) fn previews(
        &mut self,
        previews: Option<file::Previews>,
        app: bool,
    ) -> Option<PreviewRules> {
        let file::Previews { enabled, forks, always } = previews.unwrap_or_default();
        if enabled == Some(true) && !app {
            let message = "previews are check runs, and only GitHub Apps may make those";
            let help = "set `forge.github.app` in place of a token, or leave this out";
            self.report.wrong("forge.github.previews.enabled", message, help);
        }
        let rules = PreviewRules { forks: forks.unwrap_or(false), always: always.unwrap_or(false) };
        enabled.unwrap_or(app).then_some(rules)
    }
}
