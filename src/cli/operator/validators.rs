//! `the-deployer validators` lists every rule with its source.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::CommandOutcome;
use crate::cli::local;
use crate::cli::output::{BOLD, DIM, Format};
use crate::pipeline::validate::{RULES, Rule, Weight};
use crate::policy::Policy;

/// Lists all rules of a deployment: what each checks, its source, when it runs, and whether it refuses a deployment or
/// warns.
///
/// With --templates the company's own policies, which lie beside its templates, are listed too.
#[derive(Debug, Args)]
pub(super) struct Validators {
    /// A folder of templates with `apps/` in it, whose `policies/` are listed too
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// The format of the list
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Validators {
    pub(super) fn run(&self) -> CommandOutcome {
        let mut sources = SourceTexts::default();
        let templates = local::templates(self.templates.as_deref(), &mut sources, self.output)?;
        let policies: Vec<&Policy> = templates.policies.iter().collect();
        let data = json!({
            "rules": RULES.iter().map(rule_data).collect::<Vec<_>>(),
            "policies": policies.iter().copied().map(policy_data).collect::<Vec<_>>(),
        });
        self.output.print(&data, || text(&policies))
    }
}

/// Returns a rule for programs; stable, as that of policies.
fn rule_data(rule: &Rule) -> Json {
    let Rule { name, about, source, weight, .. } = rule;
    json!({"name": name, "about": about, "source": source, "severity": weight, "when": rule.stage()})
}

fn policy_data(policy: &Policy) -> Json {
    let Policy { name, message, severity, targets, place, .. } = policy;
    let name = format!("policy/{name}");
    json!({"name": name, "message": message, "severity": severity, "targets": targets, "source": place})
}

fn text(policies: &[&Policy]) -> String {
    let mut text = String::new();
    for rule in RULES {
        let Rule { name, about, source, weight, .. } = rule;
        let severity = match weight {
            Weight::Error => "error",
            Weight::Warning => "warning",
            Weight::Both => "error or warning",
        };
        let moment = format!("{:?}", rule.stage()).to_lowercase();
        text += &format!("{BOLD}{name}{BOLD:#}  {severity}, on {moment}\n    {about}\n");
        text += &format!("    {DIM}from {source}{DIM:#}\n");
    }
    for Policy { name, message, severity, targets, place, .. } in policies {
        let severity = format!("{severity:?}").to_lowercase();
        let targets = if targets.is_empty() { "*".to_owned() } else { targets.join(", ") };
        text += &format!("{BOLD}policy/{name}{BOLD:#}  {severity}, for {targets}\n    {message}\n");
        text += &format!("    {DIM}from {place}{DIM:#}\n");
    }
    text + &format!("\n{} rules, {} policies\n", RULES.len(), policies.len())
}
