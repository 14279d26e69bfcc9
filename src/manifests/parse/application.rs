//! What an Application says of its app: whose it is, as we write it into `spec.info`.

use crate::manifests::parse::BUDGET;
use crate::model::id::RepoName;
use crate::waml::node::Node;
use crate::waml::yaml;

/// Whose an app is. What is not there, or not readable, is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whose {
    /// The owning team's e-mail address.
    pub owner: Option<String>,
    /// The service's repository.
    pub repository: Option<RepoName>,
}

/// An address has at most so many characters (RFC 5321); what is longer is none of ours.
const LONGEST_OWNER: usize = 320;

/// Reads an Application.
pub fn whose(bytes: &[u8]) -> Whose {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= BUDGET.bytes);
    let documents = text.and_then(|text| yaml::parse_stream("application", text, &BUDGET).ok());
    let Some(document) = documents.and_then(|mut documents| documents.pop()) else {
        return Whose::default();
    };
    let owner = line(&document, "Owner").filter(|owner| owner.chars().count() <= LONGEST_OWNER);
    let repository = line(&document, "Repository").and_then(|name| RepoName::parse(name).ok());
    Whose { owner: owner.map(str::to_owned), repository }
}

/// As [`application`](crate::manifests::argocd::application) writes it.
fn line<'a>(document: &'a Node, name: &str) -> Option<&'a str> {
    let info = document.get("spec")?.get("info")?.as_list()?;
    let is_it = |line: &&Node| line.get("name").and_then(Node::as_text) == Some(name);
    info.iter().find(is_it)?.get("value")?.as_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_says_whose_its_app_is() {
        let text = "kind: Application\nspec:\n  info:\n  - {name: Owner, value: squad@example.com}\n  \
                    - {name: Repository, value: example/shop}\n";
        let Whose { owner, repository } = whose(text.as_bytes());
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
            assert_eq!(whose(text.as_bytes()), Whose::default(), "{text}");
        }
        assert_eq!(whose(&[0xff]), Whose::default());
        let long = format!("spec: {{info: [{{name: Owner, value: {}}}]}}", "x".repeat(321));
        assert_eq!(whose(long.as_bytes()), Whose::default());
    }
}
