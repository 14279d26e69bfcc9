//! A newtype for each identifier. Values are parsed on entry, so that no later code meets a slash, a newline or `..` in
//! a name that becomes a path, a label or a host.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::clock::IdSeed;
use crate::support::secret_mask::mask_secrets;

/// The error of a text that is not a legal identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown} is not a legal {what}: {rule}", shown = MaskedValue(value))]
pub struct IdError {
    /// The expected kind, in a reader's words: `slug`, `image tag`.
    pub what: &'static str,
    /// The text as it came.
    pub value: String,
    /// The rule of form that it breaks.
    pub rule: &'static str,
}

/// Quotes a hostile text for a message: escaped, and cut after 60 characters.
struct MaskedValue<'a>(&'a str);

impl fmt::Display for MaskedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masked = mask_secrets(self.0);
        let shortened: String = masked.chars().take(60).collect();
        let ellipsis = if shortened.len() < masked.len() { "…" } else { "" };
        write!(f, "{shortened:?}{ellipsis}")
    }
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes the text if it has the form of this identifier.
            ///
            /// # Errors
            /// [`IdError`] with the rule of form that the text breaks.
            pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
                let value = text.into();
                let check: fn(&str) -> bool = $check;
                if check(&value) {
                    Ok(Self(value))
                } else {
                    Err(IdError { what: $what, value, rule: $rule })
                }
            }

            /// Returns the identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

string_id!(
    /// The name of an app within its namespace; part of every resource's name.
    Slug,
    "slug",
    "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit (RFC 1123)",
    is_rfc1123_label
);
string_id!(
    /// A Kubernetes namespace.
    Namespace,
    "namespace",
    "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit (RFC 1123)",
    is_rfc1123_label
);
string_id!(
    /// One cluster, named as `deploy` in the WAML and `environment` on GitHub name it.
    TargetName,
    "target",
    "use 1 to 63 letters, digits, `-`, `_` and `.`, each part between dots beginning and ending with a letter or digit",
    |text| text.len() <= 63 && text.split('.').all(is_target_part)
);
string_id!(
    /// The digest of an image's manifest or index, by which a registry gives exactly that image: `sha256:…`.
    ImageDigest,
    "image digest",
    "use `sha256:` and 64 lower-case hexadecimal digits",
    |text| text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
);
string_id!(
    /// A template's folder name under `apps/`.
    TemplateName,
    "template name",
    "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
    is_rfc1123_label
);
string_id!(
    /// A version folder of a template; `latest` where none is named.
    TemplateVersion,
    "template version",
    "use 1 to 63 letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
    |text| text.len() <= 63 && is_word(text)
);
string_id!(
    /// An image tag, passed on unchanged (OCI distribution spec 1.1, `<reference>`).
    ImageTag,
    "image tag",
    "use 1 to 128 letters, digits, `_`, `.` and `-`, not beginning with `.` or `-`",
    |text| text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(is_word_byte)
);
string_id!(
    /// A full commit id: 40 hexadecimal digits (SHA-1) or 64 (SHA-256), lower case.
    CommitSha,
    "commit id",
    "use the full 40 or 64 lower-case hexadecimal digits",
    |text| matches!(text.len(), 40 | 64) && text.bytes().all(is_hex)
);
string_id!(
    /// A repository on the forge, `owner/name`.
    RepoName,
    "repository name",
    "use OWNER/NAME with letters, digits, `-`, `_` and `.` (at most 39 and 100 characters)",
    is_repository
);
string_id!(
    /// A team of an organization, `organization/team`, as in the team's address.
    TeamName,
    "team",
    "use ORGANIZATION/TEAM as in the team's address: letters, digits, `-`, `_` and `.`",
    is_repository
);
string_id!(
    /// GitHub's `X-GitHub-Delivery`: one for an event, the same on redelivery.
    DeliveryId,
    "delivery id",
    "use 1 to 100 letters, digits and `-`",
    |text| (1..=100).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
);
string_id!(
    /// Names a deployment and its revision: `YYYYMMDD-HHMMSSmmm-` and six hexadecimal digits, UTC.
    ///
    /// Sorts by time as text, so that a folder listing is the history in order; made by
    /// `clock`, the only place that knows the time.
    DeployId,
    "deploy id",
    "it looks like 20261121-054812123-3f9a2c",
    is_deploy_id
);
string_id!(
    /// Names a rollout, or its undo: `r-` and what looks like a deploy id. Sorts by time as text.
    RolloutId,
    "rollout id",
    "it looks like r-20261121-054812123-3f9a2c",
    |text| text.strip_prefix("r-").is_some_and(is_deploy_id)
);
string_id!(
    /// The name of a rollout in a WAML.
    RolloutName,
    "name of a rollout",
    "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
    is_rfc1123_label
);
string_id!(
    /// The name of an app in its repository, by its file: `worker` for `.weave/worker.yaml`, and [`AppName::ROOT`] for the
    /// one at the root.
    AppName,
    "app of a repository",
    "use the name of a file under `.weave/` without its ending (1 to 63 lower-case letters, digits and `-`, beginning \
     and ending with a letter or digit), or `.weave.yaml`",
    |text| text == AppName::ROOT || is_rfc1123_label(text)
);
string_id!(
    /// Names a lock: eight hexadecimal digits.
    LockId,
    "lock id",
    "it has eight hexadecimal digits",
    |text| text.len() == 8 && text.bytes().all(is_hex)
);

/// An app: its namespace and slug. Written `namespace/slug`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppKey {
    /// The Kubernetes namespace.
    pub namespace: Namespace,
    /// The app's name within it.
    pub slug: Slug,
}

impl fmt::Display for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.slug)
    }
}

impl AppName {
    /// The name of the app whose WAML is at the root, wherever the configuration puts that file.
    pub const ROOT: &'static str = ".weave.yaml";

    /// Returns the name of the app whose WAML is at the root.
    pub fn root() -> Self {
        Self(Self::ROOT.to_owned())
    }

    /// Checks that it is the app whose WAML is at the root.
    pub fn is_root(&self) -> bool {
        self.0 == Self::ROOT
    }
}

impl TargetName {
    /// Writes the name as a part of the name of a Kubernetes object: in lower case, with `-` for
    /// `_`. The configuration has no two targets that are alike in it.
    pub fn object_name(&self) -> String {
        self.0.to_ascii_lowercase().replace('_', "-")
    }
}

impl DeployId {
    /// Builds a new id from a clock's draw: `20261121-054812123-a1b2c3`. They sort by time.
    pub fn of(draw: IdSeed) -> Self {
        let IdSeed { at, random } = draw;
        Self(format!("{}-{random:06x}", at.strftime("%Y%m%d-%H%M%S%3f")))
    }

    /// Reads the time that it begins with, to the second; `None` where it is none.
    pub fn time(&self) -> Option<Timestamp> {
        let digits = self.0.get(..15)?;
        let time = DateTime::strptime("%Y%m%d-%H%M%S", digits).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }
}

impl RolloutId {
    /// Builds a new id from a clock's draw: `r-20261121-054812123-a1b2c3`.
    pub fn of(draw: IdSeed) -> Self {
        Self(format!("r-{}", DeployId::of(draw)))
    }
}

impl LockId {
    /// Makes a new one of the last eight of random hexadecimal digits.
    pub fn of(digits: &str) -> Self {
        Self(digits.chars().rev().take(8).collect())
    }
}

impl RepoName {
    /// Returns the part before the slash.
    pub fn owner(&self) -> &str {
        self.0.split_once('/').map_or("", |(owner, _)| owner)
    }

    /// Returns the part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// Makes a name that no repository can have, for what one had that is known by its number only:
    /// on GitHub no owner's name begins with a hyphen.
    pub fn retired(&self, number: i64) -> Result<Self, IdError> {
        if self.is_retired() {
            return Ok(self.clone());
        }
        // A name that is as long as one may be has no room for more.
        Self::parse(format!("-{self}.former-{number}"))
            .or_else(|_| Self::parse(format!("-/former-{number}")))
    }

    /// Checks that it is a name that the service gave to a repository whose present name is not known.
    pub fn is_retired(&self) -> bool {
        self.0.starts_with('-') && self.0.contains("former-")
    }

    /// Checks that both have the same owner; GitHub's names differ not by case.
    pub fn has_owner_of(&self, other: &Self) -> bool {
        self.owner().eq_ignore_ascii_case(other.owner())
    }

    /// Checks that its owner, or that of the name that was retired, is the other one's.
    pub fn had_owner_of(&self, other: &Self) -> bool {
        let owner = self.owner();
        let owner = owner.strip_prefix('-').filter(|_| self.is_retired()).unwrap_or(owner);
        owner.eq_ignore_ascii_case(other.owner())
    }

    /// Checks that both are the same repository; GitHub's names differ not by case.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl TeamName {
    /// Returns the part before the slash.
    pub fn organization(&self) -> &str {
        self.0.split_once('/').map_or("", |(organization, _)| organization)
    }

    /// Returns the part after the slash.
    pub fn slug(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, slug)| slug)
    }
}

impl CommitSha {
    /// Returns the first eight digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// Checks for an RFC 1123 subdomain as Kubernetes checks it: its parts may be longer than a label.
pub fn is_rfc1123_subdomain(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(legal)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Checks that a text is an RFC 1123 label: what most Kubernetes names must be.
pub fn is_rfc1123_label(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(legal)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Checks that the text between two dots is legal as the value of a label in Kubernetes.
fn is_target_part(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(legal)
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(is_word_byte)
}

fn is_repository(text: &str) -> bool {
    let Some((owner, name)) = text.split_once('/') else { return false };
    let owner_ok = (1..=39).contains(&owner.len())
        && owner.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let name_ok = (1..=100).contains(&name.len())
        && name.bytes().all(is_word_byte)
        && !matches!(name, "." | "..")
        && !name.to_ascii_lowercase().ends_with(".git");
    owner_ok && name_ok
}

/// Checks that it is a hexadecimal digit in lower case, as the service writes them.
fn is_hex(b: u8) -> bool {
    b.is_ascii_digit() || (b'a'..=b'f').contains(&b)
}

fn is_deploy_id(text: &str) -> bool {
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_digit());
    let hex = |part: &str| part.len() == 6 && part.bytes().all(is_hex);
    let parts: Vec<&str> = text.split('-').collect();
    matches!(parts[..], [day, time, random] if digits(day, 8) && digits(time, 9) && hex(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deploy_ids_carry_the_time_and_sort_by_it() {
        let at = "2026-11-21T05:48:12.123Z".parse().unwrap();
        let first = DeployId::of(IdSeed { at, random: 0x1f });
        let second =
            DeployId::of(IdSeed { at: at + jiff::SignedDuration::from_millis(1), random: 0 });
        assert_eq!(first.as_str(), "20261121-054812123-00001f");
        assert_eq!(DeployId::parse(first.as_str()), Ok(first.clone()));
        assert!(first < second);
    }

    #[test]
    fn hostile_texts_are_no_identifiers() {
        for text in
            ["", "..", "../../x", "a/b", "a\nb", "-a", "a-", "Ä", "a b", "a\0", &"a".repeat(64)]
        {
            assert!(Slug::parse(text).is_err(), "{text:?} as slug");
            assert!(TargetName::parse(text).is_err(), "{text:?} as target");
            assert!(DeployId::parse(text).is_err(), "{text:?} as deploy id");
        }
        for text in ["", ".", "-x", "a\nb", "a/b", "a b", "é", &"a".repeat(129)] {
            assert!(ImageTag::parse(text).is_err(), "{text:?} as tag");
        }
        for text in ["a", "a/", "/a", "a/..", "a/b/c", "../b", "a/b.git", "a/b\n"] {
            assert!(RepoName::parse(text).is_err(), "{text:?} as repository");
        }
    }

    #[test]
    fn the_source_documents_names_are_identifiers() {
        assert!(ImageTag::parse("1.0.202206151506-sha.649008fb").is_ok());
        assert!(TargetName::parse("prod-cluster-1").is_ok());
        for (target, object) in [("Prod_EU", "prod-eu"), ("prod.eu-1", "prod.eu-1")] {
            assert_eq!(TargetName::parse(target).unwrap().object_name(), object);
        }
        for text in ["_a", "a_", "a._b", "a..b", "a/b", "a b", "A\u{301}"] {
            assert!(TargetName::parse(text).is_err(), "{text:?}");
        }
        assert!(DeployId::parse("20261121-054812123-3f9a2c").is_ok());
        assert!(RepoName::parse("weave-lab/my.app_1").is_ok());
    }

    #[test]
    fn a_deploy_id_begins_with_its_time() {
        let time = |text: &str| DeployId::parse(text).unwrap().time();
        let expected: Timestamp = "2026-11-21T05:48:12Z".parse().unwrap();
        assert_eq!(time("20261121-054812123-3f9a2c"), Some(expected));
        assert_eq!(time("20261399-054812123-3f9a2c"), None);
    }

    #[test]
    fn an_error_shows_a_hostile_value_escaped_and_cut() {
        let error = ImageTag::parse(format!("a\n{}", "b".repeat(500))).unwrap_err().to_string();
        assert!(error.starts_with(r#""a\nbbb"#), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}
