//! What the rules of form call legal, for those who look things up by these names.

use super::{env, image, ingress, names};
use crate::model::id::ImageTag;

/// A host name as the rule `ingress` takes it.
pub(crate) fn is_host(text: &str) -> bool {
    ingress::is_host(text)
}

/// The name of a Kubernetes Secret.
pub(crate) fn is_secret(text: &str) -> bool {
    names::is_subdomain(text)
}

/// A key within a Kubernetes Secret.
pub(crate) fn is_secret_key(text: &str) -> bool {
    env::is_key(text)
}

/// A whole reference with this tag, as the rule `image` takes it.
pub(crate) fn is_image(reference: &str, tag: &ImageTag) -> bool {
    let name = reference.strip_suffix(tag.as_str()).and_then(|name| name.strip_suffix(':'));
    name.is_some_and(image::is_repository)
}
