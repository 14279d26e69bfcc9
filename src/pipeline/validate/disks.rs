//! A disk that is live only grows: what Kubernetes refuses to change is refused before it is pushed.
//!
//! What is not known of the live disks is told by the rule `stateful`, which asks the same.

use super::{Made, Report};
use crate::model::facts::{Disk, Fact};
use crate::model::violation::Violation;
use crate::pipeline::disks::{self, Conflict, Field};
use crate::pipeline::view::naming;
use crate::waml::node::Path;

const RULE: &str = "disks";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    let Fact::Known { value: live, .. } = &made.valid.facts().live else { return };
    let with_disks = made.objects.iter().filter(|object| disks::KINDS.contains(&object.kind()));
    let wanted: Vec<Disk> =
        with_disks.flat_map(|object| disks::of(&object.json.clone().into())).collect();
    for (disk, Conflict { field, message, may_be_same }) in disks::conflicts(&live.disks, &wanted) {
        let violation = if may_be_same {
            Violation::warning(RULE, message)
                .help("leave the class out, unless it is the one that the disk has")
        } else {
            Violation::error(RULE, message).help(help(field))
        };
        match volume(made, disk) {
            Some(path) => report.add(&path.key(key(field)), violation),
            None => report.say(violation),
        }
    }
}

fn help(field: Field) -> &'static str {
    match field {
        Field::Size => {
            "put back what it was; for a smaller one take a volume of another name, and move the data"
        }
        Field::Class | Field::AccessModes => {
            "put back what it was, or take a volume of another name and move the data"
        }
    }
}

/// The volume of the WAML that the disk is of.
fn volume(made: &Made<'_>, disk: &Disk) -> Option<Path> {
    let slug = made.valid.waml().app.slug.as_str();
    let volumes = made.valid.section().volumes.as_deref()?;
    let index = volumes.iter().position(|one| naming::of(slug, &one.name) == disk.object.name)?;
    (disk.object.kind == "PersistentVolumeClaim").then(|| Path::root().key("volumes").index(index))
}

fn key(field: Field) -> &'static str {
    match field {
        Field::Size => "size",
        Field::Class => "storageClass",
        Field::AccessModes => "accessMode",
    }
}
