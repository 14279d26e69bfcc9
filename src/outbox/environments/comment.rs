//! Decides whether the comment of a pull request is written, and writes its text. Pure.
//!
//! One comment speaks of all clusters: people read the pull request and not the clusters. It is about one commit, and is
//! written when all workloads that carry that one are ready: the head of the pull request or, where no workload carries
//! that, the one of its commits that came last to a workload. Only the code host knows which these are, so there is a plan
//! for each commit.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};

use crate::model::environment::{EnvironmentState, EnvironmentWorkload};
use crate::model::id::CommitSha;
use crate::outbox::environments::status::rollout_time;
use crate::store::ShownComment;
use crate::support::markdown::{code, count, escape};
use crate::support::percent::encode_path;

/// The most workloads that are listed.
const ROWS: usize = 30;
/// The most failures that are listed.
const FAILURES: usize = 10;

/// The plan for a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommentPlan {
    /// Nothing is written, for this reason.
    Nothing(&'static str),
    /// Write this.
    Write(CommentText),
}

/// A comment to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommentText {
    /// The commit that it is about.
    pub(super) commit: CommitSha,
    /// Its text, without the mark.
    pub(super) body: String,
    /// True if it says that a workload has failed: it is written only where there is a comment.
    pub(super) is_failure: bool,
}

impl CommentText {
    /// Returns the digest of the text.
    pub(super) fn digest(&self) -> String {
        hex::encode(Sha256::digest(&self.body))
    }
}

/// Returns the hidden mark by which this installation of the service finds its comment again.
pub(super) fn comment_mark(external_url: &str) -> String {
    format!("<!-- the-deployer:preview-environment {} -->", encode_path(external_url))
}

/// Decides what the comment of a pull request would say of each commit that its workloads carry, as they stand now: the
/// commit that came last is the first.
pub(super) fn plan_comments(
    workloads: &[EnvironmentWorkload],
    shown: &ShownComment,
) -> Vec<(CommitSha, CommentPlan)> {
    let mut commits: BTreeMap<&CommitSha, Vec<&EnvironmentWorkload>> = BTreeMap::new();
    for workload in workloads {
        commits.entry(&workload.commit.commit).or_default().push(workload);
    }
    let mut commits: Vec<_> = commits.into_iter().collect();
    let first_at = |workloads: &[&EnvironmentWorkload]| {
        workloads.iter().map(|one| (one.first_at, one.began_at)).min()
    };
    commits.sort_by_key(|(_, workloads)| Reverse(first_at(workloads)));
    let plan = |(commit, workloads): (&CommitSha, Vec<_>)| {
        (commit.clone(), plan_comment(commit, &workloads, shown))
    };
    commits.into_iter().map(plan).collect()
}

/// Decides what the comment says of a commit.
fn plan_comment(
    commit: &CommitSha,
    workloads: &[&EnvironmentWorkload],
    shown: &ShownComment,
) -> CommentPlan {
    let failed = of_state(workloads, EnvironmentState::Failed);
    let is_failure = !failed.is_empty();
    if is_failure && shown.comment.is_none() {
        return CommentPlan::Nothing("a workload has failed; the status of the commit says why");
    }
    if !is_failure && of_state(workloads, EnvironmentState::Ready).len() < workloads.len() {
        return CommentPlan::Nothing("not all workloads are ready");
    }
    if !workloads.iter().any(|one| one.announced) {
        return CommentPlan::Nothing("all was ready before the service saw it");
    }
    if shown.dismissed.as_ref() == Some(commit) {
        return CommentPlan::Nothing("a person deleted the comment about this commit");
    }
    let body =
        if is_failure { describe_failure(commit, &failed) } else { describe(commit, workloads) };
    let text = CommentText { commit: commit.clone(), body, is_failure };
    if shown.comment.is_some() && shown.digest == Some(text.digest()) {
        return CommentPlan::Nothing("it says so already");
    }
    CommentPlan::Write(text)
}

fn of_state<'a>(
    workloads: &[&'a EnvironmentWorkload],
    state: EnvironmentState,
) -> Vec<&'a EnvironmentWorkload> {
    workloads.iter().copied().filter(|one| one.state == state).collect()
}

fn describe(commit: &CommitSha, workloads: &[&EnvironmentWorkload]) -> String {
    let links: Vec<&str> = workloads.iter().filter_map(|one| one.commit.link.as_deref()).collect();
    let only_link = links.first().filter(|first| links.iter().all(|link| link == *first));
    let mut out = format!("**The preview of {} is ready**", code(commit.short()));
    if let Some(link) = only_link {
        let _infallible = write!(out, ": <{link}>");
    }
    out.push_str(
        "\n\n| workload | namespace | cluster | pods | ready after |\n|---|---|---|---|---|\n",
    );
    for one in workloads.iter().take(ROWS) {
        let time = rollout_time(one).map_or_else(String::new, |time| format!("{time:#}"));
        let name = code(&format!("{} {}", one.workload.kind, one.workload.name));
        let link = one.commit.link.as_deref().filter(|_| only_link.is_none());
        let link = link.map_or_else(String::new, |link| format!(" <{link}>"));
        let namespace = code(&one.workload.namespace);
        let cluster = code(one.cluster.as_str());
        let pods = escape(&one.sentence);
        let _infallible =
            writeln!(out, "| {name}{link} | {namespace} | {cluster} | {pods} | {time} |");
    }
    if let Some(more @ 1..) = workloads.len().checked_sub(ROWS) {
        let _infallible = writeln!(out, "\nand {} more", count(more, "workload"));
    }
    if let Some(time) = total_time(workloads).filter(|_| workloads.len() > 1) {
        let _infallible =
            writeln!(out, "\n{} ready after {time:#}", count(workloads.len(), "workload"));
    }
    out
}

/// Returns the time from the first start to the last end, in whole seconds.
fn total_time(workloads: &[&EnvironmentWorkload]) -> Option<SignedDuration> {
    let seen: Vec<_> = workloads.iter().filter(|one| rollout_time(one).is_some()).collect();
    let begin = seen.iter().map(|one| one.began_at).min()?;
    let end = seen.iter().filter_map(|one| one.ended_at).max()?;
    Some(SignedDuration::from_secs(end.checked_sub(begin)? / 1000))
}

fn describe_failure(commit: &CommitSha, failed: &[&EnvironmentWorkload]) -> String {
    let mut out = format!("**The preview of {} has failed**\n\n", code(commit.short()));
    for one in failed.iter().take(FAILURES) {
        let name = code(&format!("{} {}", one.workload.kind, one.workload.name));
        let (namespace, cluster) = (code(&one.workload.namespace), code(one.cluster.as_str()));
        let cause = escape(&one.sentence);
        let _infallible = writeln!(out, "- {name} in {namespace} on {cluster}: {cause}");
    }
    if let Some(more @ 1..) = failed.len().checked_sub(FAILURES) {
        let _infallible = writeln!(out, "- and {} more", count(more, "workload"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::fixture::environment_workload;

    fn workload(name: &str, commit: char, state: EnvironmentState) -> EnvironmentWorkload {
        let mut one = environment_workload(name, state);
        one.commit.commit = CommitSha::parse(commit.to_string().repeat(40)).unwrap();
        one
    }

    /// Returns the plan for the commit that came last.
    fn plan(workloads: &[EnvironmentWorkload], shown: &ShownComment) -> CommentPlan {
        plan_comments(workloads, shown).swap_remove(0).1
    }

    fn text(workloads: &[EnvironmentWorkload], shown: &ShownComment) -> CommentText {
        match plan(workloads, shown) {
            CommentPlan::Write(text) => text,
            CommentPlan::Nothing(reason) => panic!("{reason}"),
        }
    }

    fn shown(text: &CommentText) -> ShownComment {
        ShownComment {
            comment: Some(7),
            commit: Some(text.commit.clone()),
            digest: Some(text.digest()),
            dismissed: None,
        }
    }

    const NONE: ShownComment =
        ShownComment { comment: None, commit: None, digest: None, dismissed: None };

    #[test]
    fn a_comment_waits_until_all_workloads_of_the_newest_commit_are_ready() {
        use EnvironmentState::{Ready, Waiting};
        let waiting = [workload("web", 'a', Ready), workload("api", 'a', Waiting)];
        assert_eq!(plan(&waiting, &NONE), CommentPlan::Nothing("not all workloads are ready"));
        let ready = [workload("web", 'a', Ready), workload("api", 'a', Ready)];
        let first = text(&ready, &NONE);
        assert!(first.body.contains("`Deployment web`") && first.body.contains("`Deployment api`"));
        assert_eq!(plan(&ready, &shown(&first)), CommentPlan::Nothing("it says so already"));
        // One workload carries a newer commit: those of the older one do not count, and have a plan of their own.
        let mut newer = workload("web", 'b', Waiting);
        newer.first_at += 60_000;
        let mut mixed = [newer, workload("api", 'a', Ready)];
        assert!(matches!(plan(&mixed, &shown(&first)), CommentPlan::Nothing(_)));
        let plans = plan_comments(&mixed, &shown(&first));
        let [_, (_, CommentPlan::Write(older))] = plans.as_slice() else { panic!("{plans:?}") };
        assert!(older.body.contains("aaaaaaaa") && !older.body.contains("web"), "{older:?}");
        mixed[0].state = Ready;
        let second = text(&mixed, &shown(&first));
        assert!(
            second.body.contains("bbbbbbbb") && !second.body.contains("api"),
            "{}",
            second.body
        );
    }

    #[test]
    fn a_failure_is_told_in_a_comment_that_is_there_and_makes_none() {
        use EnvironmentState::{Failed, Ready, Waiting};
        let mut failed = workload("web", 'b', Failed);
        failed.sentence = "no image @acme/all <b>".to_owned();
        let workloads = [failed, workload("api", 'b', Waiting)];
        assert!(matches!(plan(&workloads, &NONE), CommentPlan::Nothing(_)));
        let before = shown(&text(&[workload("web", 'a', Ready)], &NONE));
        let body = text(&workloads, &before).body;
        assert!(body.contains("has failed") && body.contains("`Deployment web`"), "{body}");
        assert!(!body.contains("@acme") && !body.contains("<b>"), "{body}");
    }

    #[test]
    fn what_was_ready_before_is_counted_and_makes_no_comment_alone() {
        let mut silent = workload("web", 'a', EnvironmentState::Ready);
        silent.announced = false;
        assert!(matches!(plan(&[silent.clone()], &NONE), CommentPlan::Nothing(_)));
        let other = workload("api", 'a', EnvironmentState::Ready);
        assert!(text(&[silent, other], &NONE).body.contains("`Deployment web`"));
        assert_eq!(plan_comments(&[], &NONE), []);
    }

    #[test]
    fn a_comment_that_a_person_deleted_comes_back_with_the_next_commit() {
        let ready = [workload("web", 'a', EnvironmentState::Ready)];
        let dismissed = ShownComment {
            dismissed: Some(ready[0].commit.commit.clone()),
            ..ShownComment::default()
        };
        assert!(matches!(plan(&ready, &dismissed), CommentPlan::Nothing(_)));
        text(&[workload("web", 'b', EnvironmentState::Ready)], &dismissed);
    }

    #[test]
    fn links_that_differ_stand_beside_their_workloads() {
        let with = |name: &str, link: &str| {
            let mut one = workload(name, 'a', EnvironmentState::Ready);
            one.commit.link = Some(link.to_owned());
            one
        };
        let same = text(&[with("web", "https://a.io"), with("api", "https://a.io")], &NONE).body;
        assert_eq!(same.matches("<https://a.io>").count(), 1, "{same}");
        let others = text(&[with("web", "https://a.io"), with("api", "https://b.io")], &NONE).body;
        assert!(others.contains("`Deployment api` <https://b.io> |"), "{others}");
    }

    #[test]
    fn a_comment_with_very_many_workloads_fits() {
        let many: Vec<_> = (0..1000)
            .map(|n| workload(&format!("{}-{n}", "a".repeat(240)), 'a', EnvironmentState::Ready))
            .collect();
        let body = text(&many, &NONE).body;
        assert!(body.len() < 30_000 && body.contains("and 970 workloads more"), "{}", body.len());
    }

    #[test]
    fn the_mark_cannot_be_closed_by_an_address() {
        assert_eq!(comment_mark("https://x/-->").matches("-->").count(), 1);
    }
}
