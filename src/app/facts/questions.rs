//! Stands in for `pipeline::questions` until it is there: asks what needs no section to be read.

use std::collections::BTreeMap;

use crate::model::facts::Questions;
use crate::model::target::Clusters;
use crate::pipeline::Input;

/// What to ask; hosts, secrets and the image are left to `pipeline::questions::of`.
pub(crate) fn of(input: &Input, clusters: &Clusters) -> Option<Questions> {
    Some(Questions {
        target: clusters.find(&input.target)?,
        app: input.waml.app.clone(),
        owner: Some(input.waml.owner.clone()).filter(|owner| !owner.is_empty()),
        release: input.release.clone(),
        hosts: Vec::new(),
        secrets: BTreeMap::new(),
        image: String::new(),
    })
}
