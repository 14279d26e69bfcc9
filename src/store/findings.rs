//! What an attempt at a deployment has found out, which is recorded with its end.

use crate::model::claim::{Claims, ObjectClaim};
use crate::model::deployment::{Contact, StageTime};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha};
use crate::model::route::RouteClaim;

/// What a worker has found out so far. What is not known leaves what was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The app that the WAML describes.
    pub app: Option<AppKey>,
    /// The template and its version.
    pub template: Option<String>,
    /// The commit of the templates.
    pub templates_commit: Option<CommitSha>,
    /// Where the people of the app are reached.
    pub contact: Option<Contact>,
    /// Where the app is reached.
    pub address: Option<String>,
    /// What somebody had changed by hand in the manifest repository.
    pub hand_edit: Option<HandEdit>,
    /// The routes that it makes live.
    pub routes: Vec<RouteClaim>,
    /// The objects that it makes live.
    pub objects: Vec<ObjectClaim>,
    /// The stages of this attempt.
    pub stages: Vec<StageTime>,
}

impl Findings {
    /// Takes what the deployment makes live in place of what was claimed before.
    pub fn take_claims(&mut self, claims: Claims) {
        let Claims { routes, objects } = claims;
        (self.routes, self.objects) = (routes, objects);
    }
}
