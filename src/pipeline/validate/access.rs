//! Access to a target: the target is configured, the app belongs to the repository, the commit is on a branch that the
//! target takes, the deployer is in one of its teams, and neither a lock, a hold nor a window stops the deployment.

use super::unknown::{self, NeededFact};
use super::{RuleReport, Subject};
use crate::model::facts::OwnershipError;
use crate::model::id::{RepoName, TargetName};
use crate::model::lock::{Lock, LockScope};
use crate::model::rollback::{Hold, Holds};
use crate::model::violation::Violation;
use crate::model::window::{self, Opening};
use crate::support::globs::Globs;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::suggest;

/// Checks that the target is configured. (Merging has checked that it is under `deploy`.)
pub(super) fn target(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let is_misnamed = subject.waml.is_misnamed(subject.target);
    if is_misnamed || subject.facts.clusters.find(subject.target).is_some() {
        return;
    }
    let target_names: Vec<&str> =
        subject.facts.clusters.names().into_iter().map(TargetName::as_str).collect();
    let name = subject.target.as_str();
    let path = Path::root().key("deploy").key(name);
    let violation = Violation::error("target", format!("there is no cluster `{name}`"))
        .expected("not a configured cluster")
        .help(suggest::hint(name, target_names));
    report.add_to_file(subject.waml, &path, violation);
}

/// Checks the owner: an app belongs to the repository that deployed it first, and a namespace to the owners of the
/// repositories that deploy there.
///
/// Slugs and namespaces are first come, first served on each target. Anybody could write another team's names into a
/// WAML; this rule refuses that. An app that is new in a namespace may join when its repository has the same GitHub
/// owner as one that is there already.
pub(super) fn owner(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let what = "who owns the app and its namespace";
    let needed = NeededFact { rule: "owner", what, path: None };
    let Some(owner) = needed.require_fact(&subject.facts.owner, subject, report) else { return };
    let (app, target, us) = (&subject.waml.app, subject.target, &subject.release.repository);
    // The command with which an operator gives the app to the repository that deploys it now.
    let moving =
        format!("`the-deployer owners move {app} --target {target} --to {us} --reason TEXT`");
    let (key, message, expected, help) = match (owner.allow(us), &owner.app) {
        (Err(OwnershipError::App), Some(other_owner)) => (
            "slug",
            format!("`{app}` on `{target}` belongs to {other_owner}, not to {us}"),
            format!("belongs to {other_owner}"),
            "choose another slug; if the app has moved, an operator records its new owner",
        ),
        (Err(OwnershipError::App | OwnershipError::Namespace), _) => {
            let mut owners: Vec<&str> = owner.namespace.iter().map(RepoName::owner).collect();
            owners.dedup();
            let (namespace, owners) = (&app.namespace, suggest::list(owners));
            (
                "namespace",
                format!(
                    "the namespace `{namespace}` on `{target}` has apps of {owners}, and {us} has another owner"
                ),
                "belongs to others".to_owned(),
                "choose a namespace of your own; to let the repository in, an operator gives it the app",
            )
        }
        (Ok(()), _) => return,
    };
    let violation = Violation::error("owner", message).expected(expected);
    let violation = violation.help(format!("{help}: {moving}"));
    report.add_to_file(subject.waml, &Path::root().key(key), violation);
}

/// Checks that the commit is on a branch that the target takes: a feature branch does not reach production.
pub(super) fn branch(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let globs = subject.cluster.and_then(|target| target.policies.branches.as_deref());
    let Some(globs) = globs else { return };
    let what = "whether the commit is on a branch that the target takes";
    let needed = NeededFact { rule: "branch", what, path: None };
    let Some(branches) = needed.require_fact(&subject.facts.branches, subject, report) else {
        return;
    };
    let allowed_branches = Globs::parse_readable(globs);
    if branches.iter().any(|branch| allowed_branches.is_match(branch)) {
        return;
    }
    let age = unknown::age(&subject.facts.branches, subject);
    let branch_text = match branches.as_slice() {
        [] => "on none of the branches".to_owned(),
        [branch] => format!("on {}, which is none of the branches", quote(branch)),
        [first_branch, ..] => {
            format!("on {} and others, none of them one of the branches", quote(first_branch))
        }
    };
    let (commit, target) = (subject.release.commit.short(), subject.target);
    let message = format!("the commit {commit} is {branch_text} that `{target}` takes{age}");
    let list = suggest::list(globs.iter().map(String::as_str));
    let help = format!("`{target}` takes {list}: merge the commit there and deploy it again");
    report.say(Violation::error("branch", message).help(help));
}

/// Checks that the person who deploys is in one of the teams that the target requires.
pub(super) fn deployer(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let teams = subject.cluster.map(|target| target.policies.deploy_teams.as_slice());
    let Some(teams) = teams.filter(|teams| !teams.is_empty()) else { return };
    let what = "whether the person who deploys is in a team that the target requires";
    let needed = NeededFact { rule: "deployer", what, path: None };
    let fact = needed.require_fact(&subject.facts.deployer, subject, report);
    let Some(deployer) = fact.filter(|deployer| !deployer.is_in_team) else { return };
    let target = subject.target;
    let list = suggest::list(teams.iter().map(String::as_str));
    let message = format!("{} is in none of the teams that `{target}` requires", deployer.login);
    let help = format!("`{target}` takes deployments by members of {list}: let one of them deploy");
    report.say(Violation::error("deployer", message).help(help));
}

/// Checks that no lock stops the deployment.
pub(super) fn locks(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let needed =
        NeededFact { rule: "locks", what: "whether a lock stops the deployment", path: None };
    let Some(locks) = needed.require_fact(&subject.facts.locks, subject, report) else { return };
    for lock in locks.iter().filter(|lock| is_locked_by(lock, subject)) {
        report.say(lock_violation(lock));
    }
}

/// Checks that the lock is for this deployment and has not run out.
fn is_locked_by(lock: &Lock, subject: &Subject<'_>) -> bool {
    let concerns = |target: &TargetName| {
        target == subject.target || subject.facts.overlapping.contains(target)
    };
    let is_for = match &lock.scope {
        LockScope::Everything => true,
        LockScope::Target(target) => concerns(target),
        LockScope::Owner(owner) => owner.eq_ignore_ascii_case(&subject.waml.owner),
        LockScope::App(target, app) => concerns(target) && *app == subject.waml.app,
    };
    is_for && lock.until.is_none_or(|until| until > subject.facts.taken_at)
}

fn lock_violation(lock: &Lock) -> Violation {
    let subject = match &lock.scope {
        LockScope::Everything => "everything".to_owned(),
        LockScope::Target(target) => format!("`{target}`"),
        LockScope::Owner(owner) => format!("every app of {owner}"),
        LockScope::App(target, app) => format!("`{app}` on `{target}`"),
    };
    let Lock { scope: _, reason, by, since, until } = lock;
    let since = since.strftime("%F %H:%M UTC");
    let (end, retry_help) = match until {
        Some(until) => {
            (format!("until {}", until.strftime("%F %H:%M UTC")), "deploy again after that, or ")
        }
        None => ("until it is unlocked".to_owned(), ""),
    };
    let message = format!("{subject} is locked by {by} since {since}, {end}: {reason}");
    Violation::error("locks", message).help(format!(
        "{retry_help}ask {by} to unlock it: `bart locks` shows its id, `bart unlock ID --reason TEXT` removes it"
    ))
}

/// Checks that no hold stops the deployment: after a rollback automation does not deploy, and a person does not deploy
/// again the release that was rolled back.
pub(super) fn hold(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let needed =
        NeededFact { rule: "hold", what: "whether a hold stops the deployment", path: None };
    let Some(Some(hold)) = needed.require_fact(&subject.facts.hold, subject, report) else {
        return;
    };
    let is_bad = hold.away.as_ref().is_some_and(|away| away == subject.release);
    let holds = subject.cluster.map(|target| target.policies.holds).unwrap_or_default();
    if !hold.stops(holds, subject.release, subject.facts.automatic) {
        return;
    }
    let release = "release the hold with `bart unhold`";
    let help = match holds {
        Holds::Everybody | Holds::Off => release.to_owned(),
        Holds::Automation if is_bad => {
            format!("deploy another release, or {release} to deploy this one all the same")
        }
        Holds::Automation => {
            format!("a person may deploy a newer release, which ends the hold; or {release}")
        }
    };
    let Hold { target, app, by, reason, since, rollback, away, to } = hold;
    let since = since.strftime("%F %H:%M UTC");
    let message = match (rollback, away, to) {
        (Some(_), Some(away), Some(to)) => format!(
            "{by} rolled `{app}` on `{target}` back from {} to {to}, {since}: {reason}",
            away.tag
        ),
        (Some(_), _, Some(to)) => {
            format!("{by} rolled `{app}` on `{target}` back to {to}, {since}: {reason}")
        }
        _ => format!("`{app}` on `{target}` is held by {by} since {since}: {reason}"),
    };
    report.say(Violation::error("hold", message).help(help));
}

/// Checks that the target is open: the windows of its policy allow a deployment now.
pub(super) fn windows(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let windows = subject.cluster.map_or(&[][..], |target| &target.policies.windows);
    if windows.is_empty() {
        return;
    }
    // The configuration was refused if one cannot be read. Whoever brings one all the same must
    // not find the door open.
    let opening = match window::at_written(windows, subject.facts.taken_at) {
        Ok(opening) => opening,
        Err(error) => {
            let message = format!("a window of `{}` cannot be read: {error}", subject.target);
            return report.say(Violation::error("windows", message).help("tell the operator"));
        }
    };
    let Opening::Closed { reason, next } = opening else { return };
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("`{}` takes no deployments at this time{why}", subject.target);
    let help = next.map_or_else(
        || "no time of the week is open: ask the operator".to_owned(),
        |next| format!("deploy again from {} on", next.strftime("%A, %F %H:%M %Z")),
    );
    report.say(Violation::error("windows", message).help(help));
}
