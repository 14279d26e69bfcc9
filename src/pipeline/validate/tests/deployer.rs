//! The deployer, and the teams that a target requires.

use super::{HEAD, plan_with};
use crate::model::facts::{Deployer, Fact, Facts};
use crate::model::id::TargetName;
use crate::model::lock::Policies;
use crate::model::target::{Clusters, Environment, Target};

/// Checks a deployer on a target that requires these teams.
fn check_deployer(teams: &[&str], deployer: Fact<Deployer>) -> Vec<String> {
    let name = TargetName::parse("t").unwrap();
    let deploy_teams = teams.iter().map(|team| (*team).to_owned()).collect();
    let policies = Policies { deploy_teams, ..Policies::default() };
    let environment = Environment::Production;
    let target = Target { environment, policies, ..Target::unconfigured(name.clone()) };
    let clusters = Clusters::from_targets([target]);
    let facts = Facts::without_lookups("2026-08-21T12:00:00Z".parse().unwrap(), clusters);
    let facts = Facts { deployer, ..facts };
    match plan_with(&format!("{HEAD}deploy:\n  t: {{}}\n"), &facts) {
        Ok(rendered) => rendered.warnings.iter().map(ToString::to_string).collect(),
        Err(rejection) => {
            let text = |v: &crate::model::violation::Violation| {
                format!("{v} → {}", v.help.as_deref().unwrap_or_default())
            };
            rejection.violations.iter().map(text).collect()
        }
    }
}

fn jo(is_in_team: bool) -> Fact<Deployer> {
    let value = Deployer { login: "jo".to_owned(), is_in_team };
    Fact::Known { value, at: "2026-08-21T12:00:00Z".parse().unwrap() }
}

#[test]
fn a_target_takes_deployments_by_members_of_its_teams() {
    let teams = ["acme/release", "acme/sre"];
    assert!(check_deployer(&teams, jo(true)).is_empty());
    assert!(check_deployer(&[], jo(false)).is_empty());
    assert!(check_deployer(&teams, Fact::NotAsked).is_empty());
    assert_eq!(
        check_deployer(&teams, jo(false)),
        [
            "jo is in none of the teams that `t` requires [deployer] → `t` takes deployments by members of `acme/release` and `acme/sre`: let one of them deploy"
        ]
    );
    let messages = check_deployer(&teams, Fact::Missing { why: "GitHub is away".to_owned() });
    assert!(messages.len() == 1 && messages[0].contains("GitHub is away"), "{messages:?}");
}
