//! How fast each family of sinks may be told.

use crate::support::rate_limit::Rate;

/// How many calls within an hour a forge takes that make something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hourly {
    /// Of one account.
    pub most: u32,
    /// Whether each owner of repositories is an account of its own, as installations of an App are.
    pub by_owner: bool,
}

/// How each family is told. What is right for a host is said where the host is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// The forge.
    pub forge: Rate,
    /// The forge within an hour; no bound where there is none.
    pub forge_hourly: Option<Hourly>,
    /// Slack as a whole; what a channel takes is its client's business.
    pub slack: Rate,
    /// Each webhook for events.
    pub events: Rate,
    /// Each cluster's Argo CD.
    pub argocd: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        let (forge, slack, events, argocd) = (Rate::FREE, Rate::FREE, Rate::FREE, Rate::FREE);
        Self { forge, forge_hourly: None, slack, events, argocd }
    }
}
