//! Volumes and mounted secrets have a folder of their own; a volume is a disk, files or an empty
//! folder; and a disk that pods cannot share has one pod.

use std::collections::HashMap;

use super::resources::{MUCH_STORAGE, is_few_bytes, not_a_quantity, too_few_bytes};
use super::{RuleReport, Subject};
use crate::manifests::quantity::Quantity;
use crate::model::id::is_rfc1123_subdomain;
use crate::model::secret_key::is_secret_key;
use crate::model::violation::Violation;
use crate::templates::view::secrets::volume_name;
use crate::waml::confidential::is_confidential;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_name};
use crate::waml::section::Section;
use crate::waml::section_operations::Concurrency;
use crate::waml::section_workload::Volume;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let mut folders: HashMap<String, Path> = HashMap::new();
    for (path, secret) in Path::root().each("secrets", &subject.section.secrets) {
        folder(
            "volumes",
            secret.mount_path.as_deref(),
            path.key("mountPath"),
            &mut folders,
            report,
        );
    }
    for (path, volume) in Path::root().each("volumes", &subject.section.volumes) {
        if volume.mount_path.is_none() {
            let message = format!("the volume {} is mounted nowhere", quote(&volume.name));
            let violation = Violation::error("volumes", message).expected("needs `mountPath`");
            report.add(&path, violation.help("add `mountPath: /data`"));
        }
        folder(
            "volumes",
            volume.mount_path.as_deref(),
            path.key("mountPath"),
            &mut folders,
            report,
        );
        name(volume, subject.section, &path, report);
        disk(volume, &path, report);
        class(volume, &path, report);
        files(volume, &path, report);
        check_shared_disk(volume, subject, &path, report);
    }
    let security = subject.section.security.as_ref();
    let writable = security.and_then(|security| security.writable.clone());
    for (path, writable) in Path::root().key("security").each("writable", &writable) {
        folder("volumes", Some(writable), path, &mut folders, report);
    }
}

/// Checks the name of a volume: a mounted secret becomes a volume too.
fn name(volume: &Volume, section: &Section, path: &Path, report: &mut RuleReport<'_>) {
    let secrets = section.secrets.iter().flatten().filter(|secret| secret.mount_path.is_some());
    if let Some(secret) = secrets.into_iter().find(|s| volume_name(&s.name) == volume.name) {
        let message = format!(
            "{} is the name of the volume for the secret {}",
            quote(&volume.name),
            quote(&secret.name)
        );
        let violation = Violation::error("volumes", message).expected("is taken");
        report.add(&path.key("name"), violation.help("give the volume another name"));
    }
}

fn disk(volume: &Volume, path: &Path, report: &mut RuleReport<'_>) {
    match volume.size.as_deref().map(|size| (size, Quantity::parse(size))) {
        Some((size, None)) => {
            report.add(&path.key("size"), not_a_quantity("volumes", size, "memory"));
        }
        Some((_, Some(size))) if size.is_zero() => {
            let violation = Violation::error("volumes", "a disk needs a size above 0");
            let violation =
                violation.expected("more than 0").help("write bytes as `256Mi` or `1Gi`");
            report.add(&path.key("size"), violation);
        }
        Some((text, Some(size))) if is_few_bytes(size) => {
            report.add(&path.key("size"), too_few_bytes("volumes", text));
        }
        // Some file systems have no bounds, so it is no error.
        Some((text, Some(size))) if size.whole().is_none_or(|bytes| bytes > MUCH_STORAGE) => {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let violation = Violation::warning(
                "volumes",
                format!("{text} is more than clouds offer in a disk"),
            );
            let help = format!("write `size: {digits}Gi` for gibibytes, if that was meant");
            report.add(&path.key("size"), violation.expected("too much").help(help));
        }
        Some((_, Some(_))) => {}
        None => {
            let of_disks = [
                ("storageClass", volume.storage_class.is_some()),
                ("accessMode", volume.access_mode.is_some()),
            ];
            for (key, _) in of_disks.iter().filter(|(_, set)| *set) {
                let violation =
                    Violation::error("volumes", format!("`{key}` is of disks, and this is none"));
                let violation = violation.expected("needs `size`");
                let help = format!("add `size: 10Gi`, or remove `{key}`");
                report.add(&path.key(key), violation.help(help));
            }
        }
    }
}

/// Checks a storage class' name, which is an RFC 1123 subdomain.
fn class(volume: &Volume, path: &Path, report: &mut RuleReport<'_>) {
    let illegal = |class: &&str| !is_rfc1123_subdomain(class);
    if let Some(class) = volume.storage_class.as_deref().filter(illegal) {
        let message = format!("{} is not a legal name of a storage class", quote(class));
        let violation = Violation::error("volumes", message).expected("not legal");
        let help = "use lower-case letters, digits, `-` and `.`";
        report.add(&path.key("storageClass"), violation.help(help));
    }
}

fn files(volume: &Volume, path: &Path, report: &mut RuleReport<'_>) {
    let Some(files) = &volume.files else { return };
    if volume.size.is_some() {
        let message = format!("the volume {} is both a disk and files", quote(&volume.name));
        let violation = Violation::error("volumes", message).expected("one too many");
        let help = "keep `size` or `files`, or make two volumes";
        report.add(&path.key("files"), violation.help(help));
    }
    for file in files.keys().filter(|file| !is_secret_key(file)) {
        let message = format!("{} is not a legal name of a file", quoted_name(file));
        let violation = Violation::error("volumes", message).expected("not a legal name");
        let help = "use letters, digits, `-`, `_` and `.`; for a folder below, make another volume";
        report.add(&path.key("files").key(file), violation.help(help));
    }
}

/// Checks a disk for one pod: two pods on two nodes cannot both have it.
fn check_shared_disk(
    volume: &Volume,
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    // A template that uses `claims` gives each pod a disk of its own.
    if !volume.is_for_one() || subject.template.uses("claims") {
        return;
    }
    let section = subject.section;
    let autoscaled = section.is_autoscaled();
    let replicas = section.scaling.as_ref().and_then(|scaling| scaling.replicas).unwrap_or(1);
    if ["scaling", "autoscaling", "cron"].iter().any(|part| subject.is_unsure(part)) {
        return;
    }
    let at_once = section.cron.as_ref().filter(|_| subject.template.uses("cron"));
    let (why, help) = match at_once {
        Some(cron) if cron.concurrency.unwrap_or(Concurrency::Allow) == Concurrency::Allow => {
            ("two runs may use it at once", "set `cron: {concurrency: Forbid}`")
        }
        None if autoscaled => ("the app is scaled by load", "remove `autoscaling`"),
        None if replicas > 1 => ("the app has several pods", "set `scaling: {replicas: 1}`"),
        _ => return,
    };
    let default = match at_once {
        None if !autoscaled => subject.default_of(&Path::root().key("scaling").key("replicas")),
        _ => String::new(),
    };
    let message = format!("the disk {} is for one pod, and {why}{default}", quote(&volume.name));
    let violation = Violation::error("volumes", message).expected("cannot be shared");
    let help =
        format!("{help}; or set `accessMode: ReadWriteMany`, if the storage class can do that");
    report.add(path, violation.help(help));
}

/// Checks a folder of a container, and that no other of `folders`, those of the same container, is the same.
pub(super) fn folder(
    rule: &'static str,
    folder: Option<&str>,
    path: Path,
    folders: &mut HashMap<String, Path>,
    report: &mut RuleReport<'_>,
) {
    let Some(folder) = folder else { return };
    // Of a secret nothing is repeated that is no path.
    let is_hidden = is_confidential(&path) && !folder.starts_with('/');
    let folder_text = if is_hidden { "this".to_owned() } else { quote(folder) };
    let violation = if !is_folder(folder) {
        Violation::error(rule, format!("{folder_text} is not a folder in the container"))
            .expected("not a folder")
            .help("use a path below `/` that has no `..` or `:`")
    } else if let Some(other) = folders.get(&parts(folder).join("/")) {
        Violation::error(rule, format!("{folder_text} is already the folder of `{other}`"))
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

/// Splits a path: `//data/./x/` is `/data/x`.
fn parts(text: &str) -> Vec<&str> {
    text.split('/').filter(|part| !matches!(*part, "" | ".")).collect()
}
