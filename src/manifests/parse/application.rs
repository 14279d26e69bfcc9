//! What an Application says of its app: whose it is, as we write it into `spec.info`.

use serde_json::Value as Json;

use crate::manifests::untyped::parse_documents;
use crate::model::id::RepoName;

/// Whose an app is. What is not there, or not readable, is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppOwner {
    /// The owning team's e-mail address.
    pub owner: Option<String>,
    /// The service's repository.
    pub repository: Option<RepoName>,
}

/// An address has at most so many characters (RFC 5321); what is longer is none of ours.
const LONGEST_OWNER: usize = 320;

/// Reads an Application.
pub fn whose(bytes: &[u8]) -> AppOwner {
    let document = parse_documents(bytes).and_then(|mut documents| documents.pop());
    let line = |name: &str| document.as_ref().and_then(|document| line(document, name));
    let owner = line("Owner").filter(|owner| owner.chars().count() <= LONGEST_OWNER);
    let repository = line("Repository").and_then(|name| RepoName::parse(name).ok());
    AppOwner { owner: owner.map(str::to_owned), repository }
}

/// Reads a line's value, as [`application`](crate::manifests::argocd::application) writes it.
fn line<'a>(application: &'a Json, name: &str) -> Option<&'a str> {
    let info = application.pointer("/spec/info")?.as_array()?;
    info.iter().find(|line| line["name"] == name)?.get("value")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_says_whose_its_app_is() {
        let text = "kind: Application\nspec:\n  info:\n  - {name: Owner, value: squad@example.com}\n  \
                    - {name: Repository, value: example/shop}\n";
        let AppOwner { owner, repository } = whose(text.as_bytes());
        assert_eq!(owner.as_deref(), Some("squad@example.com"));
        assert_eq!(repository, RepoName::parse("example/shop").ok());
    }

    #[test]
    fn what_is_of_another_shape_says_nothing() {
        for text in [
            "",
            "a: [",
            "spec: {info: {name: Owner}}",
            "spec: {info: [{name: Owner, value: [x]}, {name: Repository, value: ../x}, 7]}",
            "just text",
        ] {
            assert_eq!(whose(text.as_bytes()), AppOwner::default(), "{text}");
        }
        assert_eq!(whose(&[0xff]), AppOwner::default());
        let long = format!("spec: {{info: [{{name: Owner, value: {}}}]}}", "x".repeat(321));
        assert_eq!(whose(long.as_bytes()), AppOwner::default());
    }
}
