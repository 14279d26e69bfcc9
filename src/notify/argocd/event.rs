//! A push in the form of GitHub's event, as far as Argo CD reads it, and its signature. Pure.
//!
//! Argo CD handles it like this (its `util/webhook/webhook.go` and `util/app/path/path.go`):
//!
//! - `repository.html_url` without `.git` must be the Application's `repoURL`, whatever the scheme, the user and the
//!   port; `ref` its branch, or `default_branch` if it follows `HEAD`.
//! - An Application is refreshed if one of the paths is in its `manifest-generate-paths`. Without any path every
//!   Application of the repository is refreshed.
//! - For every *other* Application, the manifests that were rendered at `before` count at `after` from then on. So the
//!   paths must be all paths that changed between the two; where they are not known to be, there must be no `before`.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use sha2::Sha256;

use crate::model::id::CommitSha;

/// The header that says what kind of event it is.
pub const KIND: &str = "x-github-event";
/// The value of that header.
pub const PUSH: &str = "push";
/// The header with the event's id, which Argo CD does not read; a proxy's log may.
pub const DELIVERY: &str = "x-github-delivery";
/// The header with `sha256=` and the HMAC-SHA256 of the body in hexadecimal digits.
pub const SIGNATURE: &str = "x-hub-signature-256";

/// GitHub's word for no commit.
const NONE: &str = "0000000000000000000000000000000000000000";

/// One commit that was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushNotice<'a> {
    /// The repository's address as Applications have it.
    pub url: &'a str,
    /// The branch: `main`.
    pub branch: &'a str,
    /// The commit.
    pub commit: &'a CommitSha,
    /// The paths that it changed.
    pub touched: &'a TouchedPaths,
    /// The time of the push.
    pub at: Timestamp,
}

/// The paths that a commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedPaths {
    /// The commit before, and with it the promise that these are all paths.
    pub before: PreviousCommit,
    /// Paths that are new.
    pub added: Vec<String>,
    /// Paths with other bytes.
    pub modified: Vec<String>,
    /// Paths that are gone.
    pub removed: Vec<String>,
}

/// The state before a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousCommit {
    /// That commit, and the paths are all that changed since.
    Commit(CommitSha),
    /// No commit: it is the first one, and the paths are all there is.
    Nothing,
    /// Unknown, or more may have changed than these paths.
    Unknown,
}

/// Returns the event's body.
pub fn body(push: &PushNotice<'_>) -> String {
    let PushNotice { url, branch, commit, touched, at } = push;
    let TouchedPaths { before, added, modified, removed } = touched;
    let html_url = web_address(url);
    let head_commit = json!({
        "id": commit,
        "distinct": true,
        "message": "deployed",
        "timestamp": at,
        "added": added,
        "removed": removed,
        "modified": modified,
    });
    let event = json!({
        "ref": format!("refs/heads/{branch}"),
        "before": match before {
            PreviousCommit::Commit(commit) => commit.as_str(),
            PreviousCommit::Nothing => NONE,
            PreviousCommit::Unknown => "",
        },
        "after": commit,
        "created": *before == PreviousCommit::Nothing,
        "deleted": false,
        "forced": false,
        "commits": [head_commit],
        "head_commit": head_commit,
        "repository": {
            "name": html_url.rsplit('/').next().unwrap_or_default(),
            "full_name": full_name(&html_url),
            "html_url": html_url,
            "clone_url": url,
            // This may be another branch than the default one: then an Application that follows HEAD
            // looks once in vain.
            "default_branch": branch,
        },
        "pusher": {"name": "the-deployer"},
    });
    event.to_string()
}

/// Returns the value of [`SIGNATURE`] for a body.
pub fn sign(secret: &SecretString, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC takes keys of every length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// Returns the page of a repository with that address, as a code host would have it: `https://HOST/PATH` for every kind
/// of ssh address, and without `.git`.
fn web_address(url: &str) -> String {
    let url = url.strip_suffix(".git").unwrap_or(url);
    if let Some(rest) = url.strip_prefix("ssh://") {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit('@').next().unwrap_or_default();
        return format!("https://{host}/{path}");
    }
    let scp = url.split_once(':').filter(|(host, _)| !url.contains("://") && !host.contains('/'));
    match scp {
        Some((host, path)) => {
            format!("https://{}/{path}", host.rsplit('@').next().unwrap_or_default())
        }
        None => url.to_owned(),
    }
}

/// Returns the last two names of an address: `OWNER/NAME`.
fn full_name(url: &str) -> &str {
    let start = url.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    url.get(start..).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(digit: &str) -> CommitSha {
        CommitSha::parse(digit.repeat(40)).unwrap()
    }

    fn build_event(url: &str, before: PreviousCommit) -> serde_json::Value {
        let touched = TouchedPaths {
            before,
            added: vec!["manifests/prod/devx/web/20261121/deployment.yaml".to_owned()],
            modified: vec!["manifests/prod/devx/web/latest/deployment.yaml".to_owned()],
            removed: vec![],
        };
        let push = PushNotice {
            url,
            branch: "main",
            commit: &commit("b"),
            touched: &touched,
            at: Timestamp::UNIX_EPOCH,
        };
        serde_json::from_str(&body(&push)).unwrap()
    }

    #[test]
    fn a_push_has_what_argo_cd_reads() {
        let url = "https://github.com/example/manifests.git";
        let event = build_event(url, PreviousCommit::Commit(commit("a")));
        assert_eq!(event["ref"], "refs/heads/main");
        assert_eq!(
            (&event["before"], &event["after"]),
            (&"a".repeat(40).into(), &"b".repeat(40).into())
        );
        let repository = &event["repository"];
        assert_eq!(repository["html_url"], "https://github.com/example/manifests");
        assert_eq!(
            (&repository["clone_url"], &repository["default_branch"]),
            (&url.into(), &"main".into())
        );
        assert_eq!(
            (&repository["full_name"], &repository["name"]),
            (&"example/manifests".into(), &"manifests".into())
        );
        assert_eq!(event["commits"].as_array().unwrap().len(), 1);
        assert_eq!(event["commits"][0], event["head_commit"]);
        let modified = "manifests/prod/devx/web/latest/deployment.yaml";
        assert_eq!(event["commits"][0]["modified"], serde_json::json!([modified]));
        assert_eq!(event["commits"][0]["removed"], serde_json::json!([]), "null is no list");
    }

    #[test]
    fn only_where_all_paths_are_known_there_is_a_commit_before() {
        assert_eq!(build_event("https://h/m", PreviousCommit::Unknown)["before"], "");
        let first = build_event("https://h/m", PreviousCommit::Nothing);
        assert_eq!((&first["before"], &first["created"]), (&NONE.into(), &true.into()));
    }

    #[test]
    fn every_address_of_a_repository_is_one_page() {
        for (url, page) in [
            ("https://github.com/example/manifests.git", "https://github.com/example/manifests"),
            ("https://github.com/example/manifests", "https://github.com/example/manifests"),
            ("http://git.local:3000/a/b.git", "http://git.local:3000/a/b"),
            ("git@github.com:example/manifests.git", "https://github.com/example/manifests"),
            ("ssh://git@git.local:22/a/b.git", "https://git.local:22/a/b"),
            ("git.local:a/b", "https://git.local/a/b"),
            ("/srv/git/m.git", "/srv/git/m"),
            ("file:///srv/git/m.git", "file:///srv/git/m"),
        ] {
            assert_eq!(web_address(url), page, "{url}");
        }
        assert_eq!(full_name("https://h/a/b/c"), "b/c");
        assert_eq!(full_name("m"), "m");
    }

    /// The example of GitHub's own page on validating deliveries.
    #[test]
    fn it_is_signed_as_github_signs() {
        assert_eq!(
            sign(&"It's a Secret to Everybody".into(), b"Hello, World!"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
    }
}
