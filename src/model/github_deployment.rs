//! A deployment as a person creates it at GitHub with their own token: the request, and what to do about a refusal. `bart`
//! and the pages create the same. Pure.

use serde_json::{Value as Json, json};

use crate::model::id::{AppName, ImageTag, RepoName, TargetName};
use crate::model::status::ForgeStatus;
use crate::support::text::{refuse_invisible, truncate_chars};

/// The most checks of a commit that a sentence names.
const MAX_CONTEXTS: usize = 10;
/// The most checks that a deployment may require by name.
pub const MAX_REQUIRED_CHECKS: usize = 50;
/// The longest name of a check, in characters.
const LONGEST_CHECK: usize = 255;

/// The checks of a commit that must have succeeded before GitHub creates a deployment of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RequiredChecks {
    /// None: it is created whatever the checks say.
    #[default]
    None,
    /// Every check of the commit, also this service's own of an earlier deployment.
    All,
    /// Those with these names; at least one.
    Named(Vec<String>),
}

impl RequiredChecks {
    /// Makes it of what a caller requires.
    ///
    /// # Errors
    /// The reason why a name can be no check's, or why the names and `is_all` contradict each other.
    pub fn new(is_all: bool, names: Vec<String>) -> Result<Self, String> {
        if is_all && !names.is_empty() {
            let detail = "require all checks, or name some: with all of them no name is needed";
            return Err(detail.to_owned());
        }
        if names.len() > MAX_REQUIRED_CHECKS {
            return Err(format!(
                "{} checks are named: name {MAX_REQUIRED_CHECKS} at most",
                names.len()
            ));
        }
        for name in &names {
            refuse_invisible("the name of a check", name)?;
            let is_legal = !name.trim().is_empty()
                && name.chars().count() <= LONGEST_CHECK
                && !name.contains(char::is_control);
            if !is_legal {
                return Err(format!(
                    "the name of a check is one line of at most {LONGEST_CHECK} characters"
                ));
            }
        }
        Ok(match (is_all, names.is_empty()) {
            (true, _) => Self::All,
            (false, true) => Self::None,
            (false, false) => Self::Named(names),
        })
    }

    /// Returns the names as GitHub takes them; `None` means every check.
    pub fn contexts(&self) -> Option<&[String]> {
        match self {
            Self::None => Some(&[]),
            Self::All => None,
            Self::Named(names) => Some(names),
        }
    }
}

/// A deployment to create at GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubDeployment<'a> {
    /// A branch, a tag or a commit.
    pub git_ref: &'a str,
    /// The target, which GitHub calls the environment.
    pub target: &'a TargetName,
    /// The app, where the repository has several; all of them where it is absent.
    pub app: Option<&'a AppName>,
    /// The image tag.
    pub tag: &'a ImageTag,
    /// The reason, for people; cut to GitHub's limit.
    pub description: &'a str,
    /// True if GitHub is to call the target a production environment.
    pub production: bool,
    /// The checks that must have succeeded on the commit; `None` means all of them.
    pub contexts: Option<&'a [String]>,
    /// The program that creates it.
    pub by: &'static str,
    /// A text of its own: by it a deployment is found whose creation was not answered.
    pub key: &'a str,
}

impl GitHubDeployment<'_> {
    /// Returns the request's body. `auto_merge` is off: GitHub deploys the commit as it is and merges nothing into it. The
    /// contexts are named, because without them GitHub requires every status on the commit to be green, this service's of
    /// an earlier failure among them.
    pub fn body(&self) -> Json {
        let Self { git_ref, target, app, tag, description, production, contexts, by, key } = self;
        let mut body = json!({
            "ref": git_ref,
            "environment": target,
            "task": "deploy",
            "auto_merge": false,
            "description": truncate_chars(description, ForgeStatus::LONGEST),
            "production_environment": production,
        });
        let mut payload = json!({"tag": tag, "by": by, "request": key});
        if let (Some(app), Some(map)) = (app, payload.as_object_mut()) {
            map.insert("app".to_owned(), json!(app));
        }
        if let Some(map) = body.as_object_mut() {
            map.insert("payload".to_owned(), payload);
            map.extend(contexts.iter().map(|names| ("required_contexts".to_owned(), json!(names))));
        }
        body
    }

    /// Checks whether a deployment with that payload is this one.
    pub fn has_payload(&self, payload: &Json) -> bool {
        payload.get("request").is_some_and(|key| key == self.key)
    }

    /// Says what a person can do about a refusal; `None` where the token is not good, and where GitHub has a fault.
    ///
    /// `token` names the token that was used; `message` and `errors` are GitHub's.
    pub fn refusal_help(
        &self,
        repository: &RepoName,
        token: &str,
        (status, message, errors): (u16, &str, &Json),
    ) -> Option<String> {
        let git_ref = self.git_ref;
        Some(match status {
            403 => format!("{token} needs `deployments: write` on {repository}"),
            404 => format!(
                "{token} does not see {repository}, or may not deploy it: it needs `deployments: write` there"
            ),
            409 => format!(
                "the required checks have not succeeded on {git_ref}{}",
                list_contexts(errors)
            ),
            422 if message.contains("No ref found") => {
                format!("{git_ref} is not at GitHub: push it, then deploy again")
            }
            422 => "compare the request with GitHub's message".to_owned(),
            _ => return None,
        })
    }
}

/// Lists the checks of a conflict with their states.
fn list_contexts(errors: &Json) -> String {
    let errors = errors.as_array().into_iter().flatten();
    let contexts = errors.filter_map(|error| error.get("contexts")?.as_array()).flatten();
    let name = |context: &Json| {
        let text = |key| context.get(key).and_then(Json::as_str).unwrap_or("?").to_owned();
        format!("{} is {}", text("context"), text("state"))
    };
    let contexts: Vec<String> = contexts.take(MAX_CONTEXTS).map(name).collect();
    if contexts.is_empty() { String::new() } else { format!(": {}", contexts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(contexts: Option<&[String]>, work: impl FnOnce(&GitHubDeployment<'_>) -> T) -> T {
        work(&GitHubDeployment {
            git_ref: "main",
            target: &TargetName::parse("prod-1").unwrap(),
            app: None,
            tag: &ImageTag::parse("1.0").unwrap(),
            description: &"x".repeat(200),
            production: true,
            contexts,
            by: "bart",
            key: "r1",
        })
    }

    #[test]
    fn nothing_is_merged_and_contexts_are_chosen_on_purpose() {
        let body = |deployment: &GitHubDeployment<'_>| deployment.body();
        let none = with(Some(&[]), body);
        assert_eq!((&none["auto_merge"], &none["required_contexts"]), (&json!(false), &json!([])));
        assert_eq!(none["payload"], json!({"tag": "1.0", "by": "bart", "request": "r1"}));
        assert_eq!(none["description"].as_str().unwrap().chars().count(), 140);
        let with_context = with(Some(&["build".to_owned()]), body);
        assert_eq!(with_context["required_contexts"], json!(["build"]));
        let of_all = with(None, body);
        assert!(of_all.get("required_contexts").is_none(), "GitHub asks for all");
        assert!(with(None, |deployment| deployment.has_payload(&none["payload"])));
        assert!(!with(None, |deployment| deployment.has_payload(&json!({"request": "r2"}))));
        assert!(!with(None, |deployment| deployment.has_payload(&json!("a text"))));
    }

    #[test]
    fn checks_are_none_all_or_named_ones() {
        let read = |is_all: bool, names: &[&str]| {
            RequiredChecks::new(is_all, names.iter().copied().map(str::to_owned).collect())
        };
        assert_eq!(read(false, &[]).unwrap().contexts(), Some(&[][..]));
        assert_eq!(read(true, &[]).unwrap().contexts(), None);
        let named = read(false, &["build (ubuntu, 20)"]).unwrap();
        assert_eq!(named.contexts(), Some(&["build (ubuntu, 20)".to_owned()][..]));
        for (is_all, names, error) in [
            (true, vec!["build"], "require all checks, or name some"),
            (false, vec![" "], "one line of at most 255"),
            (false, vec!["a\nb"], "one line of at most 255"),
            (false, vec!["\u{202e}x"], "invisible character"),
            (false, vec!["x"; 51], "51 checks are named"),
        ] {
            let refusal = read(is_all, &names).unwrap_err();
            assert!(refusal.contains(error), "{refusal}");
        }
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let repository = RepoName::parse("acme/shop").unwrap();
        let contexts = json!([{"contexts": [{"context": "build", "state": "pending"}], "field": "required_contexts"}]);
        let none = Json::Null;
        for (status, message, errors, expected) in [
            (
                403,
                "Resource not accessible",
                &none,
                "the token needs `deployments: write` on acme/shop",
            ),
            (404, "Not Found", &none, "the token does not see acme/shop"),
            (409, "Conflict", &contexts, "have not succeeded on main: build is pending"),
            (409, "Conflict", &json!("?"), "have not succeeded on main"),
            (422, "No ref found for: main", &none, "push it"),
            (422, "", &none, "compare"),
        ] {
            let answer = (status, message, errors);
            let help =
                with(None, |one| one.refusal_help(&repository, "the token", answer)).unwrap();
            assert!(help.contains(expected), "{help}");
        }
        for status in [401, 500, 418] {
            let answer = (status, "", &none);
            assert_eq!(with(None, |one| one.refusal_help(&repository, "the token", answer)), None);
        }
    }
}
