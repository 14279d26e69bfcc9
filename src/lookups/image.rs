//! The parts of an image's name: registry, repository, tag. Pure.
//!
//! The rules are those of the reference grammar that every container tool shares (`distribution/reference`): a first
//! part with a dot, a colon or the word `localhost` is a host; without one the image is Docker Hub's, and there a
//! single name is below `library/`.

/// Docker Hub, as people name it.
const HUB: &str = "docker.io";
/// Docker Hub, as its API is reached.
const HUB_API: &str = "registry-1.docker.io";

/// An image, with all parts that its name may leave out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// The registry as people name it: `ghcr.io`, `docker.io`, `localhost:5000`.
    pub host: String,
    /// The name in the registry: `acme/shop`, `library/redis`.
    pub name: String,
    /// A tag, or a digest `sha256:…`.
    pub reference: String,
}

impl ImageReference {
    /// Parses a whole image: `ghcr.io/acme/shop:1.0`. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, digest) = text.split_once('@').map_or((text, None), |(t, d)| (t, Some(d)));
        let tagged = text;
        let text = without_tag(tagged);
        let tag = tagged.get(text.len() + 1..).unwrap_or("latest");
        let reference = digest.unwrap_or(tag);
        let (host, name) = match text.split_once('/') {
            Some((first, rest)) if is_host(first) => (first, rest),
            _ => (HUB, text),
        };
        let host = if matches!(host, "index.docker.io" | HUB_API) { HUB } else { host };
        let short = host == HUB && !name.contains('/');
        let name = if short { format!("library/{name}") } else { name.to_owned() };
        let legal = is_name(&name) && is_reference(reference) && is_authority(host);
        legal.then(|| Self {
            host: host.to_ascii_lowercase(),
            name,
            reference: reference.to_owned(),
        })
    }

    /// Returns the host and port that answer for the registry.
    pub fn authority(&self) -> &str {
        authority_of(&self.host)
    }
}

/// Returns the host and port that answer for a registry as people name it.
pub(super) fn authority_of(host: &str) -> &str {
    if host == HUB { HUB_API } else { host }
}

impl std::fmt::Display for ImageReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.reference.contains(':') { '@' } else { ':' };
        write!(f, "{}/{}{mark}{}", self.host, self.name, self.reference)
    }
}

/// Removes the tag: a colon after the last slash begins it; one before is a port's.
fn without_tag(text: &str) -> &str {
    let name = text.rfind('/').map_or(0, |slash| slash + 1);
    let tag = text.get(name..).and_then(|last| last.find(':'));
    tag.and_then(|colon| text.get(..name + colon)).unwrap_or(text)
}

fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

/// Returns whether a text is the authority of an address and nothing else: no `@`, no slash, no
/// blank.
fn is_authority(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':');
    !text.is_empty() && text.bytes().all(legal)
}

fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(legal) && !matches!(part, "." | "..");
    text.len() <= 255 && text.split('/').all(part)
}

fn is_reference(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-:+".contains(&b);
    (1..=255).contains(&text.len()) && text.bytes().all(legal) && !matches!(text, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_leaves_out_is_added() {
        for (text, expected, authority) in [
            ("redis", "docker.io/library/redis:latest", "registry-1.docker.io"),
            ("redis:7", "docker.io/library/redis:7", "registry-1.docker.io"),
            ("acme/shop:1", "docker.io/acme/shop:1", "registry-1.docker.io"),
            ("index.docker.io/redis:7", "docker.io/library/redis:7", "registry-1.docker.io"),
            ("docker.io/acme/shop:1", "docker.io/acme/shop:1", "registry-1.docker.io"),
            ("ghcr.io/acme/a/b:1.0", "ghcr.io/acme/a/b:1.0", "ghcr.io"),
            ("GHCR.io/acme/a:1", "ghcr.io/acme/a:1", "ghcr.io"),
            ("localhost/a:1", "localhost/a:1", "localhost"),
            ("localhost:5000/a", "localhost:5000/a:latest", "localhost:5000"),
            ("r:5000/a/b:x", "r:5000/a/b:x", "r:5000"),
            ("ghcr.io/a/b:1@sha256:00ff", "ghcr.io/a/b@sha256:00ff", "ghcr.io"),
        ] {
            let image = ImageReference::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (image.to_string().as_str(), image.authority()),
                (expected, authority),
                "{text}"
            );
        }
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_image() {
        for text in [
            "",
            ":1",
            "a:",
            "A/b:1",
            "a//b:1",
            "a/../b:1",
            "ghcr.io/:1",
            "ghcr.io/a:1/../2",
            "u@ghcr.io/a:1",
            "gh cr.io/a:1",
            "ghcr.io/a:1?x",
            "ghcr.io/a b:1",
            "ghcr.io/a:\n",
            "x.y:z@e/a:1",
            "ghcr.io/a@",
            "ghcr.io/%2e%2e:1",
            "a:..",
        ] {
            assert_eq!(ImageReference::parse(text), None, "{text:?}");
        }
    }
}
