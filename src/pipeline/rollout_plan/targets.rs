//! The choice among an app's targets: a pool from which names and globs take, each target once.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use crate::model::id::TargetName;
use crate::model::target::Clusters;
use crate::waml::Waml;
use crate::waml::document::compile_glob;
use crate::waml::node::{Map, Node};
use crate::waml::quote::quote;
use crate::waml::suggest;

/// The most globs of one rollout: each is compared with every target.
pub const MAX_GLOBS: usize = 100;
/// The longest regular expression, in bytes.
pub const MAX_REGEX: usize = 256;
/// The most memory of a compiled regular expression, in bytes.
const MAX_COMPILED_REGEX: usize = 1 << 18;

/// The targets under `deploy`, as far as no step has taken them.
#[derive(Debug, Clone)]
pub struct TargetPool<'a> {
    /// The WAML.
    pub waml: &'a Waml,
    /// The configured clusters; `None` where the file alone is looked at.
    clusters: Option<&'a Clusters>,
    /// The targets that a step has.
    selected: BTreeSet<TargetName>,
    /// The number of globs so far.
    globs: usize,
}

/// The error of a name or a glob that selects no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// The WAML does not deploy there.
    #[error("{} is not a target of this app", quote(name))]
    NotDeployed {
        /// The name.
        name: String,
        /// The targets that it deploys to.
        targets: Vec<TargetName>,
    },
    /// The service has no such cluster.
    #[error("`{name}` is not a cluster of this service")]
    NotConfigured {
        /// The name.
        name: TargetName,
        /// The clusters that it has.
        clusters: Vec<TargetName>,
    },
    /// A glob matches none of the targets.
    #[error("{} matches no target of this app", quote(glob))]
    NoMatch {
        /// The glob.
        glob: String,
        /// The targets that the WAML deploys to.
        targets: Vec<TargetName>,
    },
    /// A glob matches only targets that stand before it.
    #[error("{} matches only targets that stand before it", quote(glob))]
    NothingLeft {
        /// The glob.
        glob: String,
    },
    /// A name stands in two places.
    #[error("the rollout has the target `{name}` twice")]
    Repeated {
        /// The name.
        name: TargetName,
    },
    /// A glob cannot be read.
    #[error("{} is not a glob: {problem}", quote(glob))]
    Glob {
        /// The glob.
        glob: String,
        /// The problem.
        problem: String,
    },
    /// There are too many globs.
    #[error("the rollout has more than {MAX_GLOBS} globs")]
    TooManyGlobs,
}

impl TargetFault {
    /// Says what to do.
    pub fn help(&self) -> String {
        let list = |targets: &[TargetName]| suggest::list(targets.iter().map(TargetName::as_str));
        match self {
            Self::NotDeployed { name, targets } | Self::NoMatch { glob: name, targets } => {
                let nearest = suggest::nearest(name, targets.iter().map(TargetName::as_str));
                let nearest =
                    nearest.map_or_else(String::new, |best| format!("; did you mean `{best}`?"));
                format!("it is deployed to {}{nearest}", list(targets))
            }
            Self::NotConfigured { clusters, .. } => {
                format!(
                    "its clusters are {}; leave the target out, or configure it",
                    list(clusters)
                )
            }
            Self::NothingLeft { .. } => {
                "remove it, or write it before what takes its targets".to_owned()
            }
            Self::Repeated { .. } => {
                "name each target once, and before the globs that match it".to_owned()
            }
            Self::Glob { .. } => {
                "use `*`, `?`, `[ab]`, `{a,b}` over target names; quote the text".to_owned()
            }
            Self::TooManyGlobs => "write names, or globs that match more".to_owned(),
        }
    }

    /// Names the fault in a few words, for the line of the file.
    pub fn expected(&self) -> &'static str {
        match self {
            Self::NotDeployed { .. } => "not under `deploy`",
            Self::NotConfigured { .. } => "not configured",
            Self::NoMatch { .. } => "matches no target",
            Self::NothingLeft { .. } => "no target is left",
            Self::Repeated { .. } => "a second time",
            Self::Glob { .. } => "not a glob",
            Self::TooManyGlobs => "too many",
        }
    }
}

impl<'a> TargetPool<'a> {
    /// Makes the pool of all targets of the app; those that are not configured are left out.
    pub fn new(waml: &'a Waml, clusters: Option<&'a Clusters>) -> Self {
        Self { waml, clusters, selected: BTreeSet::new(), globs: 0 }
    }

    /// Takes the target of that name, or the targets that the glob matches and nothing has taken, in the order of
    /// `deploy`.
    ///
    /// # Errors
    /// Where that is no target.
    pub fn take(&mut self, pattern: &str) -> Result<Vec<TargetName>, TargetFault> {
        match TargetName::parse(pattern) {
            Ok(name) => self.take_name(name).map(|name| name.into_iter().collect()),
            Err(_) => self.take_glob(pattern),
        }
    }

    /// Takes all targets that nothing has taken, in the order of `deploy`.
    pub fn take_rest(&mut self) -> Vec<TargetName> {
        self.take_matching(|_| true)
    }

    fn take_name(&mut self, name: TargetName) -> Result<Option<TargetName>, TargetFault> {
        if !self.waml.deploy.contains_key(&name) {
            // One that cannot be read is reported at its place.
            if self.written_targets().is_none_or(|written| written.contains_key(name.as_str())) {
                return Ok(None);
            }
            let targets = self.targets();
            return Err(TargetFault::NotDeployed { name: name.into(), targets });
        }
        if !self.is_configured(&name) {
            let clusters = self.clusters.map(Clusters::names).unwrap_or_default();
            let clusters = clusters.into_iter().cloned().collect();
            return Err(TargetFault::NotConfigured { name, clusters });
        }
        if !self.selected.insert(name.clone()) {
            return Err(TargetFault::Repeated { name });
        }
        Ok(Some(name))
    }

    fn take_glob(&mut self, glob: &str) -> Result<Vec<TargetName>, TargetFault> {
        let text = || glob.to_owned();
        self.globs += 1;
        if self.globs > MAX_GLOBS {
            // Reported once.
            let is_first = self.globs == MAX_GLOBS + 1;
            return if is_first { Err(TargetFault::TooManyGlobs) } else { Ok(Vec::new()) };
        }
        let globs =
            compile_glob(glob).map_err(|problem| TargetFault::Glob { glob: text(), problem })?;
        let targets = self.take_matching(|name| globs.is_match(name));
        if !targets.is_empty() {
            return Ok(targets);
        }
        if self.selected.iter().any(|name| globs.is_match(name.as_str())) {
            return Err(TargetFault::NothingLeft { glob: text() });
        }
        let is_match = |written: &Map| written.keys().any(|name| globs.is_match(name));
        let is_reported = self.clusters.is_none() && self.written_targets().is_none_or(is_match);
        if is_reported {
            return Ok(Vec::new());
        }
        Err(TargetFault::NoMatch { glob: text(), targets: self.targets() })
    }

    fn take_matching(&mut self, is_match: impl Fn(&str) -> bool) -> Vec<TargetName> {
        let targets = self.waml.deploy.keys().filter(|name| {
            is_match(name.as_str()) && self.is_configured(name) && !self.selected.contains(*name)
        });
        let targets: Vec<TargetName> = targets.cloned().collect();
        self.selected.extend(targets.iter().cloned());
        targets
    }

    fn is_configured(&self, name: &TargetName) -> bool {
        match self.clusters {
            None | Some(Clusters::Any(_)) => true,
            Some(Clusters::Known(configured)) => configured.contains_key(name),
        }
    }

    /// Returns `deploy` as it was written, with the names that are not legal; `None` where it cannot be read.
    fn written_targets(&self) -> Option<&'a Map> {
        self.waml.root.get("deploy").filter(|node| !node.broken).and_then(Node::as_map)
    }

    fn targets(&self) -> Vec<TargetName> {
        self.waml.deploy.keys().cloned().collect()
    }
}

/// Parses a regular expression that a whole text must match.
///
/// # Errors
/// The problem, as a sentence without its subject's name.
pub fn parse_regex(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_REGEX {
        return Err(format!("it has more than {MAX_REGEX} bytes"));
    }
    // Alone first: a bracket too many must not close the group around it.
    let build = |text: &str| RegexBuilder::new(text).size_limit(MAX_COMPILED_REGEX).build();
    build(text).and_then(|_| build(&format!("^(?:{text})$"))).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => {
            let text = other.to_string();
            let line = text.lines().last().unwrap_or_default().trim();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    })
}
