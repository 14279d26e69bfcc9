//! Who deploys is in one of the teams that the target asks for.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::suggest;

const RULE: &str = "deployer";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let teams = subject.cluster.map(|target| target.policies.deploy_teams.as_slice());
    let Some(teams) = teams.filter(|teams| !teams.is_empty()) else { return };
    let what = "whether who deploys is in a team that the target asks for";
    let wanted = Wanted { rule: RULE, what, path: None };
    let found = unknown::known(&subject.facts.deployer, &wanted, subject, report);
    let Some(deployer) = found.filter(|deployer| !deployer.is_in_team) else { return };
    let target = subject.target;
    let list = suggest::list(teams.iter().map(String::as_str));
    let message = format!("{} is in none of the teams that `{target}` asks for", deployer.login);
    let help = format!("`{target}` takes deployments by members of {list}: let one of them deploy");
    report.say(Violation::error(RULE, message).help(help));
}
