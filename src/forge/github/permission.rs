//! The permissions that the service needs, and those that an App has. Pure.

use std::collections::BTreeMap;
use std::fmt;

/// Permissions as GitHub says them: `contents` to `read`.
pub(super) type GrantedPermissions = BTreeMap<String, String>;

/// One permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permission {
    name: &'static str,
    access: AccessLevel,
}

/// The level of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessLevel {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// The purpose of a token. Each gets a token of its own, which can do no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenPurpose {
    /// Everything that a deployment needs of a service's repository.
    Deploy,
    /// Fetching by git.
    Fetch,
    /// Pushing by git.
    Push,
    /// Seeing what there is.
    Look,
}

impl Permission {
    pub(super) const METADATA: Self = read("metadata");
    pub(super) const READ_CONTENTS: Self = read("contents");
    pub(super) const WRITE_CONTENTS: Self = write("contents");
    pub(super) const READ_DEPLOYMENTS: Self = read("deployments");
    pub(super) const WRITE_DEPLOYMENTS: Self = write("deployments");
    pub(super) const READ_STATUSES: Self = read("statuses");
    pub(super) const WRITE_STATUSES: Self = write("statuses");
    pub(super) const READ_CHECKS: Self = read("checks");
    pub(super) const WRITE_CHECKS: Self = write("checks");
    /// Members of the organization.
    pub(super) const READ_MEMBERS: Self = read("members");
    pub(super) const READ_PULL_REQUESTS: Self = read("pull_requests");
    pub(super) const WRITE_PULL_REQUESTS: Self = write("pull_requests");

    /// Returns true if the permission is granted. Everybody may read a repository's metadata.
    pub(super) fn is_in(self, granted: &GrantedPermissions) -> bool {
        self == Self::METADATA
            || granted.get(self.name).and_then(|word| AccessLevel::parse(word)) >= Some(self.access)
    }
}

const fn read(name: &'static str) -> Permission {
    Permission { name, access: AccessLevel::Read }
}

const fn write(name: &'static str) -> Permission {
    Permission { name, access: AccessLevel::Write }
}

impl TokenPurpose {
    fn wants(self) -> &'static [Permission] {
        match self {
            Self::Deploy => &[
                Permission::READ_CONTENTS,
                Permission::WRITE_DEPLOYMENTS,
                Permission::WRITE_STATUSES,
                Permission::WRITE_CHECKS,
                Permission::WRITE_PULL_REQUESTS,
                Permission::READ_MEMBERS,
            ],
            Self::Fetch => &[Permission::READ_CONTENTS],
            Self::Push => &[Permission::WRITE_CONTENTS],
            Self::Look => &[],
        }
    }

    /// Returns the permissions of a token for this purpose, as far as they were granted. GitHub refuses to create a
    /// token that could do more than the App.
    pub(super) fn narrow(self, granted: &GrantedPermissions) -> GrantedPermissions {
        let permissions = self.wants().iter().chain(&[Permission::METADATA]);
        permissions
            .filter_map(|permission| {
                let access =
                    AccessLevel::parse(granted.get(permission.name)?)?.min(permission.access);
                Some((permission.name.to_owned(), access.as_str().to_owned()))
            })
            .collect()
    }
}

impl AccessLevel {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Read),
            "write" | "admin" => Some(Self::Write),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Writes it in GitHub's form: `checks: write`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.access.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(text: &str) -> GrantedPermissions {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once(':'));
        pairs.map(|(name, access)| (name.to_owned(), access.to_owned())).collect()
    }

    #[test]
    fn a_token_is_allowed_what_it_is_for_and_what_the_app_is_allowed() {
        let every_permission = "metadata:read contents:write deployments:write statuses:write checks:write \
                   pull_requests:write issues:write administration:admin";
        let deploy = "metadata:read contents:read deployments:write statuses:write checks:write \
                      pull_requests:write";
        assert_eq!(TokenPurpose::Deploy.narrow(&granted(every_permission)), granted(deploy));
        let few = granted("metadata:read contents:read statuses:read");
        assert_eq!(TokenPurpose::Deploy.narrow(&few), few);
        assert_eq!(
            TokenPurpose::Push.narrow(&granted(every_permission)),
            granted("metadata:read contents:write")
        );
        assert_eq!(TokenPurpose::Look.narrow(&granted(every_permission)), granted("metadata:read"));
    }

    #[test]
    fn who_may_write_may_read_and_an_unknown_word_allows_nothing() {
        let granted_permissions =
            granted("contents:write checks:admin statuses:read deployments:maybe");
        let is_in = |permission: Permission| permission.is_in(&granted_permissions);
        assert!(is_in(Permission::READ_CONTENTS) && is_in(Permission::WRITE_CHECKS));
        assert!(is_in(Permission::METADATA));
        assert!(!is_in(Permission::WRITE_STATUSES) && !is_in(Permission::READ_DEPLOYMENTS));
        assert!(!is_in(Permission::READ_PULL_REQUESTS));
        assert_eq!(Permission::WRITE_CHECKS.to_string(), "checks: write");
    }
}
