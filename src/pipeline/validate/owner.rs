//! An app belongs to the repository that deployed it first, and a namespace to the owners of the
//! repositories that deploy there.
//!
//! Slugs and namespaces are first come, first served on each target. Anybody could write another
//! team's names into a WAML; here that meets a no. An app that is new in a namespace may join
//! when its repository has the same GitHub owner as one that is there already.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::facts::NotOwned;
use crate::model::id::RepoName;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::suggest;

const RULE: &str = "owner";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let what = "whose the app and its namespace are";
    let wanted = Wanted { rule: RULE, what, path: None };
    let Some(owner) = unknown::known(&subject.facts.owner, &wanted, subject, report) else {
        return;
    };
    match (owner.allow(&subject.release.repository), &owner.app) {
        (Err(NotOwned::App), Some(theirs)) => {
            add(subject, "slug", other_app(subject, theirs), report);
        }
        (Err(NotOwned::App | NotOwned::Namespace), _) => {
            add(subject, "namespace", other_namespace(subject, &owner.namespace), report);
        }
        (Ok(()), _) => {}
    }
}

fn other_app(subject: &Subject<'_>, theirs: &RepoName) -> Violation {
    let (app, target, us) = (&subject.waml.app, subject.target, &subject.release.repository);
    let message = format!("`{app}` on `{target}` belongs to {theirs}, not to {us}");
    Violation::error(RULE, message).expected(format!("belongs to {theirs}")).help(format!(
        "choose another slug; if the app has really moved, an operator says so: {}",
        moving(subject)
    ))
}

fn other_namespace(subject: &Subject<'_>, theirs: &[RepoName]) -> Violation {
    let (app, target, us) = (&subject.waml.app, subject.target, &subject.release.repository);
    let mut owners: Vec<&str> = theirs.iter().map(RepoName::owner).collect();
    owners.dedup();
    let owners = suggest::list(owners);
    let message = format!(
        "the namespace `{}` on `{target}` has apps of {owners}, and {us} is none of theirs",
        app.namespace
    );
    Violation::error(RULE, message).expected("belongs to others").help(format!(
        "choose a namespace of your own; to let the repository in, an operator says so: {}",
        moving(subject)
    ))
}

/// What an operator writes to give the app to who deploys it now.
fn moving(subject: &Subject<'_>) -> String {
    let (app, target, us) = (&subject.waml.app, subject.target, &subject.release.repository);
    format!("`the-deployer owners move {app} --target {target} --to {us} --reason TEXT`")
}

fn add(subject: &Subject<'_>, key: &str, violation: Violation, report: &mut Report<'_>) {
    let (_, place) = subject.waml.root.nearest(&Path::root().key(key));
    report.add_at(key, place, violation);
}
