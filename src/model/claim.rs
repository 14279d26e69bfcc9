//! Claims: the names that a deployment reserves when it begins to push, so that no other deployment takes the same ones
//! at that moment.

use crate::model::facts::ObjectName;
use crate::model::route::RouteClaim;

/// Everything that a deployment is about to make live and that only one app may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// The routes of the app.
    pub routes: Vec<RouteClaim>,
    /// The objects of the app, by name.
    pub objects: Vec<ObjectClaim>,
}

/// An object that a deployment is about to make live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectClaim {
    /// The name by which a cluster knows the object.
    pub object: ObjectName,
    /// True if the app has it already. Where another app has it, too, that is no news, and stops neither.
    pub live: bool,
}

/// Lists the claims on an app's objects; `live` are those that it has already.
pub fn object_claims(objects: &[ObjectName], live: &[ObjectName]) -> Vec<ObjectClaim> {
    let claim = |object: &ObjectName| {
        let is_live = live.contains(object);
        ObjectClaim { object: object.clone(), live: is_live }
    };
    objects.iter().map(claim).collect()
}
