//! The images of pods: the logins with which nodes pull them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::platform::problem::PlatformProblem;

/// The most pull secrets: kubelet tries one after the other.
pub(crate) const MAX_PULL_SECRETS: usize = 16;

/// The images of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Images {
    /// The names of Secrets (`kubernetes.io/dockerconfigjson`) in each app's namespace with which nodes pull the images of
    /// its pods; a WAML's `image.pullSecrets` are added. Default: none.
    #[schemars(length(max = 16))]
    pub pull_secrets: Vec<String>,
}

impl Images {
    pub(super) fn problems(&self) -> impl Iterator<Item = PlatformProblem> {
        let problem = |key: String, message: &str, help| PlatformProblem {
            key: format!("images.{key}"),
            message: message.to_owned(),
            help,
        };
        let too_many = (self.pull_secrets.len() > MAX_PULL_SECRETS).then(|| {
            problem("pull_secrets".to_owned(), "these are more than 16 Secrets", "name at most 16")
        });
        let wrong = self.pull_secrets.iter().enumerate().filter(|(_, name)| !is_secret_name(name));
        let wrong = wrong.map(move |(n, _)| {
            let help = "use lower-case letters, digits, `-` and `.`: ghcr";
            problem(format!("pull_secrets[{n}]"), "this is no name of a Secret", help)
        });
        too_many.into_iter().chain(wrong)
    }
}

/// Checks for the name of a Secret: labels of RFC 1123 with dots between them.
fn is_secret_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(crate::model::id::is_rfc1123_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_secrets_have_names_of_secrets_and_are_few() {
        let problems = |names: &[&str]| {
            let pull_secrets = names.iter().map(|name| (*name).to_owned()).collect();
            Images { pull_secrets }.problems().map(|one| one.key).collect::<Vec<_>>()
        };
        assert_eq!(problems(&["ghcr", "a.b-c"]), Vec::<String>::new());
        assert_eq!(
            problems(&["ghcr", "A", ""]),
            ["images.pull_secrets[1]", "images.pull_secrets[2]"]
        );
        assert_eq!(problems(&["a"; 17]), ["images.pull_secrets"]);
    }
}
