//! Volumes and mounted secrets have a folder of their own, and sizes that parse.

use std::collections::HashMap;

use super::quantity::Quantity;
use super::resources::not_a_quantity;
use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::typed::quoted;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let mut folders: HashMap<String, Path> = HashMap::new();
    for (index, secret) in subject.section.secrets.iter().flatten().enumerate() {
        let path = Path::root().key("secrets").index(index).key("mountPath");
        folder(secret.mount_path.as_deref(), path, &mut folders, report);
    }
    for (index, volume) in subject.section.volumes.iter().flatten().enumerate() {
        let path = Path::root().key("volumes").index(index);
        if volume.mount_path.is_none() {
            let violation = Violation::error(
                "volumes",
                format!("the volume {} is mounted nowhere", quoted(&volume.name)),
            )
            .expected("needs `mountPath`")
            .help("add `mountPath: /data`");
            report.add(&path, violation);
        }
        if let Some(size) = volume.size.as_deref().filter(|size| Quantity::parse(size).is_none()) {
            report.add(&path.key("size"), not_a_quantity("volumes", size, "memory"));
        }
        folder(volume.mount_path.as_deref(), path.key("mountPath"), &mut folders, report);
    }
}

fn folder(
    folder: Option<&str>,
    path: Path,
    folders: &mut HashMap<String, Path>,
    report: &mut Report<'_>,
) {
    let Some(folder) = folder else { return };
    let shown = quoted(folder);
    let violation = if !is_folder(folder) {
        Violation::error("volumes", format!("{shown} is not a folder in the container"))
            .expected("not a folder")
            .help("use a path below `/` that has no `..` or `:`")
    } else if let Some(other) = folders.get(&parts(folder).join("/")) {
        Violation::error("volumes", format!("{shown} is already the folder of `{other}`"))
            .expected("is taken")
            .help("mount each volume in a folder of its own")
    } else {
        folders.insert(parts(folder).join("/"), path);
        return;
    };
    report.add(&path, violation);
}

fn is_folder(text: &str) -> bool {
    text.starts_with('/')
        && !parts(text).is_empty()
        && text.len() <= 1000
        && !text.contains(':')
        && !text.chars().any(char::is_control)
        && text.split('/').all(|part| part != "..")
}

/// `//data/./x/` is `/data/x`.
fn parts(text: &str) -> Vec<&str> {
    text.split('/').filter(|part| !matches!(*part, "" | ".")).collect()
}
