//! The version of Kubernetes that a cluster's API server has, as far as its objects' fields depend on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A minor version of Kubernetes: `1.29`. Patches change no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion {
    minor: u16,
}

impl KubernetesVersion {
    /// The oldest version whose fields are known.
    pub const OLDEST: Self = Self { minor: 25 };
    /// The newest version whose fields are known.
    pub const NEWEST: Self = Self { minor: 37 };

    /// Reads `1.29`, and the version that an API server reports: `v1.29.4-gke.1043002`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let (major, minor, patch) = (parts.next()?, parts.next()?, parts.next());
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let legal = major == "1" && is_number(minor) && patch.is_none_or(is_number);
        Some(Self { minor: minor.parse().ok().filter(|_| legal)? })
    }

    /// Returns the number behind `1.`
    pub fn minor(self) -> u16 {
        self.minor
    }

    /// Checks that the fields of its objects are known.
    pub fn is_known(self) -> bool {
        self == self.nearest_known()
    }

    /// Returns the version itself, or the nearest whose fields are known.
    #[must_use]
    pub fn nearest_known(self) -> Self {
        self.clamp(Self::OLDEST, Self::NEWEST)
    }

    /// Lists every version whose fields are known, from the oldest on.
    pub fn all_known() -> impl Iterator<Item = Self> {
        (Self::OLDEST.minor..=Self::NEWEST.minor).map(|minor| Self { minor })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not a version of Kubernetes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_people_and_api_servers_write_it() {
        for text in ["1.29", "v1.29", "1.29.4", "v1.29.4-gke.1043002", "v1.29.4+k3s1"] {
            let version = KubernetesVersion::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((version.minor(), version.to_string().as_str()), (29, "1.29"), "{text}");
        }
        for text in [
            "", "1", "29", "1.", "1.x", "1.+29", "2.0", "1.29.", "1.29.x", "1.29 ", "1.99999",
            "vv1.29",
        ] {
            assert_eq!(KubernetesVersion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_judged_by_the_nearest_that_is() {
        let nearest = |text| KubernetesVersion::parse(text).unwrap().nearest_known().to_string();
        assert_eq!(
            (nearest("1.9"), nearest("1.30"), nearest("1.99")),
            ("1.25".into(), "1.30".into(), "1.37".into())
        );
        assert_eq!(KubernetesVersion::all_known().count(), 13);
        assert!(KubernetesVersion::all_known().all(KubernetesVersion::is_known));
    }

    #[test]
    fn it_is_stored_as_text_and_read_back_also_where_it_is_not_known() {
        let version: KubernetesVersion = serde_json::from_str("\"1.99\"").unwrap();
        assert_eq!(serde_json::to_string(&version).unwrap(), "\"1.99\"");
        assert!(!version.is_known());
        assert!(serde_json::from_str::<KubernetesVersion>("\"new\"").is_err());
    }
}
