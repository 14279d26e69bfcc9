//! Containers beside the app's own: their names, images, ports and folders.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{RuleReport, Subject, image};
use crate::model::id::{ImageTag, is_rfc1123_label};
use crate::model::violation::Violation;
use crate::templates::view::containers::SIDECARS_SINCE_MINOR;
use crate::templates::view::network;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_containers::ExtraContainer;
use crate::waml::section_network::Protocol;
use crate::waml::suggest;

const RULE: &str = "containers";
/// The most containers of a kind, and the most jobs.
const MAX_CONTAINERS: usize = 16;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let section = subject.section;
    let are_few = [
        is_short("initContainers", section.init_containers.as_deref(), RULE, report),
        is_short("sidecars", section.sidecars.as_deref(), RULE, report),
    ];
    if are_few.contains(&false) {
        return;
    }
    let mut names: HashMap<&str, Path> = HashMap::new();
    for (path, container) in section.extra_containers() {
        let is_sidecar = path.to_string().starts_with("sidecars");
        check_name(container, slug, &path, &mut names, report);
        check_image(container, &path, report);
        if container.command.as_ref().is_some_and(Vec::is_empty) {
            let message = format!("{} has an empty command", quote(&container.name));
            let violation = Violation::error(RULE, message).expected("needs a program");
            report.add(&path.key("command"), violation.help("write `[/bin/app]`, or remove it"));
        }
        check_mounts(container, subject, &path, report);
        if !is_sidecar {
            refuse_part("ports", container.ports.is_some(), &path, report);
            refuse_part("probes", container.probes.is_some(), &path, report);
        }
    }
    check_ports(subject, report);
    check_cluster(subject, report);
}

/// Checks the length of a list of which each element has all of the app's variables and volumes.
pub(super) fn is_short<T>(
    key: &str,
    list: Option<&[T]>,
    rule: &'static str,
    report: &mut RuleReport<'_>,
) -> bool {
    let count = list.map_or(0, <[T]>::len);
    if count <= MAX_CONTAINERS {
        return true;
    }
    let message = format!("an app has at most {MAX_CONTAINERS} `{key}`, and this has {count}");
    let violation = Violation::error(rule, message).expected("too many");
    let help = "let one do the work of several, or make it an app of its own";
    report.add(&Path::root().key(key), violation.help(help));
    false
}

fn check_name<'a>(
    container: &'a ExtraContainer,
    slug: &str,
    path: &Path,
    names: &mut HashMap<&'a str, Path>,
    report: &mut RuleReport<'_>,
) {
    let name = container.name.as_str();
    let (message, expected, help) = if !is_rfc1123_label(name) {
        (
            format!("{} is not a legal name of a container", quote(name)),
            "not a legal name",
            "use up to 63 lower-case letters, digits and `-`",
        )
    } else if name == slug {
        (
            format!("{} is the name of the app's own container", quote(name)),
            "is taken",
            "choose another name",
        )
    } else if let Some(other) = names.insert(name, path.clone()) {
        (
            format!("{} is already the name of `{other}`", quote(name)),
            "is taken",
            "choose another name",
        )
    } else {
        return;
    };
    let violation = Violation::error(RULE, message).expected(expected);
    report.add(&path.key("name"), violation.help(help));
}

/// Checks a whole reference: a name, and a tag or a digest. One that moves makes pods of one deployment differ.
fn check_image(container: &ExtraContainer, path: &Path, report: &mut RuleReport<'_>) {
    let Some(reference) = &container.image else { return };
    let path = path.key("image");
    match ImageReference::parse(reference) {
        None => {
            let message = format!("{} is not an image", quote(reference));
            let violation = Violation::error(RULE, message).expected("not an image");
            let help = "write its name with a tag or a digest: `ghcr.io/acme/proxy:1.2`";
            report.add(&path, violation.help(help));
        }
        Some(ImageReference::Moving) => {
            let message = format!("{} is another image each day", quote(reference));
            let violation = Violation::warning(RULE, message).expected("moves");
            let help =
                "name a version, `:1.2`, or a digest: a rollback then brings the same image back";
            report.add(&path, violation.help(help));
        }
        Some(ImageReference::Fixed) => {}
    }
}

/// What a reference to an image says about which one it is.
#[derive(Debug, PartialEq, Eq)]
enum ImageReference {
    /// No tag, or `latest`.
    Moving,
    /// A tag or a digest.
    Fixed,
}

impl ImageReference {
    fn parse(reference: &str) -> Option<Self> {
        let (name, digest) = match reference.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (reference, None),
        };
        let is_digest = |digest: &str| {
            digest.strip_prefix("sha256:").is_some_and(|hex| {
                hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            })
        };
        if !digest.is_none_or(is_digest) {
            return None;
        }
        // A colon before the last slash is a registry's port.
        let tag = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (tag, is_legal) = if let Some((_, tag)) = tag {
            let tag = ImageTag::parse(tag).ok()?;
            let is_legal = image::is_image(name, &tag);
            (Some(tag), is_legal)
        } else {
            let latest = ImageTag::parse("latest").ok()?;
            (None, image::is_image(&format!("{name}:latest"), &latest))
        };
        let is_fixed = digest.is_some() || tag.is_some_and(|tag| tag.as_str() != "latest");
        is_legal.then_some(if is_fixed { Self::Fixed } else { Self::Moving })
    }
}

fn check_mounts(
    container: &ExtraContainer,
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    if subject.is_unsure("volumes") || subject.is_unsure("secrets") {
        return;
    }
    let section = subject.section;
    let volumes = section.volumes.iter().flatten();
    let volumes = volumes.map(|volume| (volume.name.as_str(), volume.mount_path.as_deref()));
    let secrets = section.secrets.iter().flatten().filter(|secret| secret.mount_path.is_some());
    let secrets = secrets.map(|secret| (secret.name.as_str(), secret.mount_path.as_deref()));
    let of_app: BTreeMap<&str, Option<&str>> = secrets.chain(volumes).collect();
    let mut folders = HashMap::new();
    for (path, mount) in path.each("mounts", &container.mounts) {
        let Some(folder) = of_app.get(mount.name.as_str()) else {
            let message = format!("the app has no volume {}", quote(&mount.name));
            let violation = Violation::error(RULE, message).expected("no such volume");
            let help = suggest::hint(&mount.name, of_app.keys().copied());
            report.add(&path.key("name"), violation.help(help));
            continue;
        };
        let place = if mount.mount_path.is_some() { path.key("mountPath") } else { path };
        let folder = mount.mount_path.as_deref().or(*folder);
        super::volumes::folder(RULE, folder, place, &mut folders, report);
    }
}

/// Refuses what only a container that goes on running can have.
fn refuse_part(key: &str, is_set: bool, path: &Path, report: &mut RuleReport<'_>) {
    if !is_set {
        return;
    }
    let message = format!("a container that ends before the app begins has no `{key}`");
    let violation = Violation::error(RULE, message).expected("of sidecars only");
    report.add(&path.key(key), violation.help("move the container to `sidecars`, or remove this"));
}

/// All containers of a pod share its network: each port is one's.
fn check_ports(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let of_services = network::service_ports(subject.section.services(), slug);
    let mut owners: HashMap<(u16, Protocol), String> = HashMap::new();
    let mut names: HashSet<&str> = HashSet::new();
    for port in &of_services {
        owners.insert((port.target, port.protocol), format!("`{}` of a service", port.name));
        names.insert(port.name);
    }
    let own = Path::root().each("ports", &subject.section.ports);
    let of_sidecars = Path::root()
        .each("sidecars", &subject.section.sidecars)
        .flat_map(|(path, sidecar)| path.each("ports", &sidecar.ports));
    for (path, port) in own.chain(of_sidecars) {
        let protocol = port.protocol.unwrap_or(Protocol::Tcp);
        if !super::names::is_port_name(&port.name) {
            let message = format!("{} is not a legal name of a port", quote(&port.name));
            let violation = Violation::error(RULE, message).expected("not a legal name");
            let help = "use up to 15 lower-case letters, digits and `-`, with a letter";
            report.add(&path.key("name"), violation.help(help));
        } else if !names.insert(&port.name) {
            let message = format!("the app has a port {} already", quote(&port.name));
            let violation = Violation::error(RULE, message).expected("is taken");
            report.add(&path.key("name"), violation.help("give each port its own name"));
        }
        if let Some(other) = owners.insert((port.number, protocol), format!("`{}`", port.name)) {
            let message = format!("the port {} is already that of {other}", port.number);
            let violation = Violation::error(RULE, message).expected("is taken");
            let help = "all containers of a pod share its ports: let each listen on its own";
            report.add(&path.key("number"), violation.help(help));
        }
    }
}

/// Before Kubernetes has sidecars of its own, one that goes on running keeps a run of a job from ending.
fn check_cluster(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(cluster) = subject.cluster else { return };
    let is_old = cluster.kubernetes().minor() < SIDECARS_SINCE_MINOR;
    if !is_old || subject.section.sidecars.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    let version = cluster.kubernetes();
    let place = Path::root().key("sidecars");
    let (violation, help) = if subject.template.uses("cron") {
        let message = format!(
            "`{}` has Kubernetes {version}, where a run does not end while a sidecar runs",
            cluster.name
        );
        (
            Violation::error(RULE, message).expected("never ends"),
            "make it part of the image, or use a newer cluster",
        )
    } else if subject.section.init_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        let message = format!(
            "`{}` has Kubernetes {version}, where sidecars begin after `initContainers`",
            cluster.name
        );
        (
            Violation::warning(RULE, message).expected("begins late"),
            "let no init container need a sidecar",
        )
    } else {
        return;
    };
    report.add(&place, violation.help(help));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_name_with_a_tag_or_a_digest() {
        let digest = format!("ghcr.io/acme/proxy@sha256:{}", "a".repeat(64));
        let both = format!("ghcr.io/acme/proxy:1.2@sha256:{}", "a".repeat(64));
        for fixed in ["ghcr.io/acme/proxy:1.2", "localhost:5000/proxy:1", "redis:7", &digest, &both]
        {
            assert_eq!(ImageReference::parse(fixed), Some(ImageReference::Fixed), "{fixed}");
        }
        for moving in ["redis", "redis:latest", "localhost:5000/proxy"] {
            assert_eq!(ImageReference::parse(moving), Some(ImageReference::Moving), "{moving}");
        }
        for other in
            ["", ":1", "Redis:1", "redis:", "redis@sha256:ab", "a b:1", "redis:1@", "https://a/b:1"]
        {
            assert_eq!(ImageReference::parse(other), None, "{other}");
        }
    }
}
