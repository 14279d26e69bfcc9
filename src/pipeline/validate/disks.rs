//! A live disk only grows: a change that Kubernetes refuses is refused before the push.
//!
//! A failed lookup of the live disks is reported by the rule `stateful`, which needs the same.

use super::{RenderedPlan, RuleReport};
use crate::manifests::disks;
use crate::manifests::disks::{Conflict, DiskField};
use crate::model::facts::{Disk, Fact};
use crate::model::violation::Violation;
use crate::templates::view::naming;
use crate::waml::node::Path;

const RULE: &str = "disks";

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let Fact::Known { value: live, .. } = &plan.valid.facts().live else { return };
    let with_disks = plan.objects.iter().filter(|object| disks::KINDS.contains(&object.kind()));
    let planned_disks: Vec<Disk> =
        with_disks.flat_map(|object| disks::read_disks(&object.json.clone().into())).collect();
    let conflicts = disks::conflicts(&live.disks, &live.first_disks, &planned_disks);
    for (disk, Conflict { field, message, may_be_same }) in conflicts {
        let violation = if may_be_same {
            Violation::warning(RULE, message).help(
                "restore the class that it was created with, unless Argo CD syncs the app as it is",
            )
        } else {
            Violation::error(RULE, message).help(help(field))
        };
        let path = volume(plan, disk).map(|path| path.key(key(field)));
        report.add_or_say(path.as_ref(), violation);
    }
    for disk in &planned_disks {
        let is_same =
            |other: &&Disk| other.object.is_same(&disk.object) && other.template == disk.template;
        let Some(former) = live.left_over.iter().find(is_same) else { continue };
        report.add_or_say(volume(plan, disk).as_ref(), describe_orphaned_disk(former, disk));
    }
}

/// Describes a disk of a former revision that Argo CD leaves in the cluster. The service cannot see if it is there.
fn describe_orphaned_disk(former: &Disk, planned_disk: &Disk) -> Violation {
    let conflicts =
        disks::conflicts(std::slice::from_ref(former), &[], std::slice::from_ref(planned_disk));
    let refusal = conflicts
        .first()
        .map_or_else(String::new, |(_, conflict)| format!("; if it is, {}", conflict.message));
    let message = format!(
        "{} with {} was taken out of the manifests and may still be in the cluster, with its data{refusal}",
        disks::describe_disk(former),
        former.size
    );
    Violation::warning(RULE, message).expected("may be there already").help(format!(
        "`kubectl get {} {}` in the app's namespace shows it: delete it there first if the disk is to be new, or \
         take a volume of another name",
        former.object.kind.to_ascii_lowercase(), former.object.name
    ))
}

fn help(field: DiskField) -> &'static str {
    match field {
        DiskField::Size => {
            "put back what it was; for a smaller one take a volume of another name, and move the data"
        }
        DiskField::Class | DiskField::AccessModes => {
            "put back what it was, or take a volume of another name and move the data"
        }
    }
}

/// Finds the volume of the WAML that the disk is of.
fn volume(plan: &RenderedPlan<'_>, disk: &Disk) -> Option<Path> {
    let slug = plan.valid.waml().app.slug.as_str();
    let volumes = plan.valid.section().volumes.as_deref()?;
    let index = volumes
        .iter()
        .position(|volume_entry| naming::join_name(slug, &volume_entry.name) == disk.object.name)?;
    (disk.object.kind == "PersistentVolumeClaim").then(|| Path::root().key("volumes").index(index))
}

fn key(field: DiskField) -> &'static str {
    match field {
        DiskField::Size => "size",
        DiskField::Class => "storageClass",
        DiskField::AccessModes => "accessMode",
    }
}
