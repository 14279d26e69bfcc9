//! The owner of an app, as the service writes it into `spec.info` of the Application.

use serde_json::Value as Json;

use crate::manifests::untyped::parse_documents;
use crate::model::id::RepoName;

/// The owner of an app. A missing or unreadable part is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppOwner {
    /// The owning team's e-mail address.
    pub owner: Option<String>,
    /// The service's repository.
    pub repository: Option<RepoName>,
}

/// The limit of an owner's characters: an e-mail address has at most so many (RFC 5321), and the service never wrote a
/// longer one.
const LONGEST_OWNER: usize = 320;

impl AppOwner {
    /// Parses an Application's file, and reads the owner from it.
    pub fn parse(bytes: &[u8]) -> Self {
        let application = parse_documents(bytes).and_then(|mut documents| documents.pop());
        application.as_ref().map(Self::read).unwrap_or_default()
    }

    /// Reads the owner from an Application.
    pub(in crate::manifests) fn read(application: &Json) -> Self {
        let owner = find_line(application, "Owner");
        let owner = owner.filter(|owner| owner.chars().count() <= LONGEST_OWNER);
        let repository = find_line(application, "Repository");
        let repository = repository.and_then(|name| RepoName::parse(name).ok());
        Self { owner: owner.map(str::to_owned), repository }
    }
}

/// Finds a line's value, as [`application`](crate::manifests::argocd::application) writes it.
fn find_line<'a>(application: &'a Json, name: &str) -> Option<&'a str> {
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
        let AppOwner { owner, repository } = AppOwner::parse(text.as_bytes());
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
            assert_eq!(AppOwner::parse(text.as_bytes()), AppOwner::default(), "{text}");
        }
        assert_eq!(AppOwner::parse(&[0xff]), AppOwner::default());
        let long = format!("spec: {{info: [{{name: Owner, value: {}}}]}}", "x".repeat(321));
        assert_eq!(AppOwner::parse(long.as_bytes()), AppOwner::default());
    }
}
