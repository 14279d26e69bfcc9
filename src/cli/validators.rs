//! `the-deployer validators`: every rule, and where it comes from.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::diagnostics::Sources;
use super::error::Outcome;
use super::offline;
use super::output::{self, BOLD, DIM, Format};
use crate::model::violation::Severity;
use crate::pipeline::validate::{RULES, Rule, Weight, When};
use crate::policy::Policy;

/// Lists all rules that a deployment is checked by: what each checks, where it comes from, when
/// it runs, and whether it stops a deployment or warns.
///
/// With --templates the company's own policies, which lie beside its templates, are listed too.
#[derive(Debug, Args)]
pub(super) struct Validators {
    /// A folder of templates with `apps/` in it, whose `policies/` are listed too
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// How to print the list
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// The list; stable for programs.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    rules: Vec<ListedRule>,
    policies: Vec<ListedPolicy<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedRule {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    severity: Weight,
    when: When,
}

#[derive(Debug, Serialize)]
struct ListedPolicy<'a> {
    /// As violations call it.
    name: String,
    message: &'a str,
    severity: Severity,
    /// Globs; empty: every target.
    targets: &'a [String],
    /// Where it stands.
    source: &'a str,
}

impl Validators {
    /// Runs the command.
    ///
    /// # Errors
    /// When the templates cannot be read, or are refused.
    pub(super) fn run(&self) -> Outcome {
        let mut sources = Sources::default();
        let templates = offline::templates(self.templates.as_deref(), &mut sources, self.output)?;
        let listed = Listed {
            rules: RULES.iter().map(rule).collect(),
            policies: templates.policies.iter().map(policy).collect(),
        };
        match self.output {
            data @ (Format::Json | Format::Yaml) => output::data(data, &listed),
            Format::Text => output::print(&text(&listed)),
        }
    }
}

fn rule(rule: &Rule) -> ListedRule {
    let Rule { name, about, source, weight, .. } = *rule;
    ListedRule { name, about, source, severity: weight, when: rule.when() }
}

fn policy(policy: &Policy) -> ListedPolicy<'_> {
    ListedPolicy {
        name: format!("policy/{}", policy.name),
        message: &policy.message,
        severity: policy.severity,
        targets: &policy.targets,
        source: &policy.place,
    }
}

fn text(listed: &Listed<'_>) -> String {
    let mut text = String::new();
    for ListedRule { name, about, source, severity, when } in &listed.rules {
        let severity = match severity {
            Weight::Error => "error",
            Weight::Warning => "warning",
            Weight::Both => "error or warning",
        };
        let when = format!("{when:?}").to_lowercase();
        text += &format!("{BOLD}{name}{BOLD:#}  {severity}, on {when}\n    {about}\n");
        text += &format!("    {DIM}from {source}{DIM:#}\n");
    }
    for ListedPolicy { name, message, severity, targets, source } in &listed.policies {
        let severity = format!("{severity:?}").to_lowercase();
        let targets = if targets.is_empty() { "*".to_owned() } else { targets.join(", ") };
        text += &format!("{BOLD}{name}{BOLD:#}  {severity}, for {targets}\n    {message}\n");
        text += &format!("    {DIM}from {source}{DIM:#}\n");
    }
    let (rules, policies) = (listed.rules.len(), listed.policies.len());
    text + &format!("\n{rules} rules, {policies} policies\n")
}
