//! The build data of an image: its manifest, and the configuration that the manifest names. Pure.

use jiff::Timestamp;
use serde::Deserialize;

use crate::lookups::registry::listing::first;
use crate::lookups::registry::tags::is_plausible;

/// The limit of platforms of an index that are looked up; an image has a dozen.
const CHILDREN: usize = 64;

/// One build: a tag, and the data of its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBuild {
    /// The tag.
    pub tag: String,
    /// The digest that the tag leads to: `sha256:…`.
    pub digest: Option<String>,
    /// The time of the build; `None` where the image has none, or 1970.
    pub created: Option<Timestamp>,
    /// The commit that it was made of, as its label says.
    pub commit: Option<String>,
}

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manifest {
    /// Several images, one a platform; the digest of one of them.
    Index { child: String, claims: ImageClaims },
    /// One image; the digest of its configuration.
    Image { config: String, claims: ImageClaims },
    /// Another kind of artifact in the registry.
    Other,
}

/// The time and source of the build, as far as the image has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ImageClaims {
    pub(super) created: Option<Timestamp>,
    pub(super) commit: Option<String>,
}

impl ImageClaims {
    /// Returns what this one says, else the other.
    pub(super) fn or(self, other: Self) -> Self {
        Self { created: self.created.or(other.created), commit: self.commit.or(other.commit) }
    }

    /// Returns whether there is no more to be found out.
    pub(super) fn is_complete(&self) -> bool {
        self.created.is_some() && self.commit.is_some()
    }
}

/// The labels or annotations that are used (OCI, `annotations.md`); the others are skipped.
#[derive(Debug, Default, Deserialize)]
struct Texts {
    #[serde(rename = "org.opencontainers.image.created")]
    created: Option<String>,
    #[serde(rename = "org.opencontainers.image.revision")]
    revision: Option<String>,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default, deserialize_with = "first::<_, _, CHILDREN>")]
    manifests: Vec<Child>,
    config: Option<Descriptor>,
    annotations: Option<Texts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
}

#[derive(Deserialize)]
struct Child {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize, Default)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

/// Reads a manifest of any kind.
pub(super) fn manifest(body: &[u8]) -> Option<Manifest> {
    let Body { manifests, config, annotations } = serde_json::from_slice(body).ok()?;
    let claims = parse_labels(&annotations.unwrap_or_default());
    if let Some(child) = choose(&manifests) {
        return Some(Manifest::Index { child, claims });
    }
    let image = config.filter(|config| {
        is_digest(&config.digest)
            && (config.media_type.contains("container.image")
                || config.media_type.contains("oci.image.config"))
    });
    Some(image.map_or(Manifest::Other, |config| Manifest::Image { config: config.digest, claims }))
}

/// Chooses the usual platform, else the first; attestations have the platform `unknown`.
fn choose(manifests: &[Child]) -> Option<String> {
    let platform = |child: &Child, os: &str, architecture: &str| {
        let none = Platform::default();
        let child_platform = child.platform.as_ref().unwrap_or(&none);
        child_platform.os == os && child_platform.architecture == architecture
    };
    let usual = manifests.iter().find(|child| platform(child, "linux", "amd64"));
    let fallback = || manifests.iter().find(|child| !platform(child, "unknown", "unknown"));
    let digest = usual.or_else(fallback).map(|child| child.digest.clone());
    digest.filter(|digest| is_digest(digest))
}

/// Reads an image's configuration.
pub(super) fn config(body: &[u8]) -> Option<ImageClaims> {
    #[derive(Deserialize)]
    struct ConfigBlob {
        created: Option<String>,
        config: Option<Inner>,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "Labels")]
        labels: Option<Texts>,
    }
    let ConfigBlob { created, config } = serde_json::from_slice(body).ok()?;
    let labels = config.and_then(|config| config.labels).unwrap_or_default();
    let top_level = ImageClaims { created: created.as_deref().and_then(time), commit: None };
    Some(parse_labels(&labels).or(top_level))
}

fn parse_labels(texts: &Texts) -> ImageClaims {
    ImageClaims {
        created: texts.created.as_deref().and_then(time),
        commit: texts.revision.as_deref().and_then(commit),
    }
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().filter(|at| is_plausible(*at))
}

/// Returns a commit's id: a label can be anything, an id is hexadecimal.
fn commit(text: &str) -> Option<String> {
    let hexadecimal = text.bytes().all(|b| b.is_ascii_hexdigit());
    (hexadecimal && (7..=64).contains(&text.len())).then(|| text.to_ascii_lowercase())
}

/// Returns true if a text is a digest and nothing else: it becomes part of an address.
pub(super) fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, digits)| {
        let hexadecimal = digits.bytes().all(|b| b.is_ascii_hexdigit());
        matches!(kind, "sha256" | "sha512") && (64..=128).contains(&digits.len()) && hexadecimal
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CREATED: &str = "org.opencontainers.image.created";
    const REVISION: &str = "org.opencontainers.image.revision";

    fn digest(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn read(body: &serde_json::Value) -> Option<Manifest> {
        manifest(body.to_string().as_bytes())
    }

    #[test]
    fn of_an_index_the_usual_platform_is_looked_at() {
        let child = |digit, os, architecture| json!({"digest": digest(digit), "platform": {"os": os, "architecture": architecture}});
        let index = json!({"manifests": [
            child('a', "unknown", "unknown"), child('b', "linux", "arm64"), child('c', "linux", "amd64"),
        ], "annotations": {REVISION: "ABCDEF1234"}});
        let claims = ImageClaims { created: None, commit: Some("abcdef1234".to_owned()) };
        assert_eq!(read(&index), Some(Manifest::Index { child: digest('c'), claims }));
        let without =
            json!({"manifests": [child('a', "unknown", "unknown"), child('b', "linux", "arm64")]});
        let choice = read(&without).unwrap();
        assert_eq!(choice, Manifest::Index { child: digest('b'), claims: ImageClaims::default() });
        let hostile = json!({"manifests": [{"digest": "../../x"}]});
        assert_eq!(read(&hostile), Some(Manifest::Other));
    }

    #[test]
    fn what_is_no_image_is_something_else() {
        let of = |kind: &str| read(&json!({"config": {"mediaType": kind, "digest": digest('a')}}));
        let image = Some(Manifest::Image { config: digest('a'), claims: ImageClaims::default() });
        assert_eq!(of("application/vnd.oci.image.config.v1+json"), image);
        assert_eq!(of("application/vnd.docker.container.image.v1+json"), image);
        assert_eq!(of("application/vnd.cncf.helm.config.v1+json"), Some(Manifest::Other));
        assert_eq!(read(&json!({"schemaVersion": 1})), Some(Manifest::Other));
        assert_eq!(manifest(b"<html>"), None);
    }

    #[test]
    fn labels_say_more_than_the_configuration_itself() {
        let read = |created: &str, labels: serde_json::Value| {
            let body = json!({"created": created, "config": {"Labels": labels}});
            config(body.to_string().as_bytes()).unwrap()
        };
        let claims = read(
            "1970-01-01T00:00:00Z",
            json!({CREATED: "2026-11-20T10:00:00+01:00", REVISION: "649008fb"}),
        );
        let at: Timestamp = "2026-11-20T09:00:00Z".parse().unwrap();
        assert_eq!(claims, ImageClaims { created: Some(at), commit: Some("649008fb".to_owned()) });
        let plain = read("2026-11-20T09:00:00.123456789Z", json!(null));
        assert_eq!(plain.created.unwrap().as_second(), at.as_second());
        let nonsense =
            read("1980-01-01T00:00:00Z", json!({REVISION: "main; rm -rf", CREATED: "x"}));
        assert_eq!(nonsense, ImageClaims::default());
        assert_eq!(config(b"[]"), None);
    }
}
