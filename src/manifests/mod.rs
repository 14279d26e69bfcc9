//! Kubernetes objects as data: rendered ones, those of a manifest repository, and their differences.
//!
//! In reading order: `object` is one object, [`files`] a set of them with its digest, and [`parse`] reads files back.
//! [`diff`] compares sets and `fields` two objects. [`argocd`] and [`bootstrap`] write Argo CD's objects and the first
//! files of a repository. [`removal`], [`replicas`], [`handover`], `canary` and `disks` find the losses and conflicts of other files;
//! `patch` changes rendered objects.
//! [`quantity`] and [`int_or_string`] are Kubernetes' own forms of values.

pub(crate) mod object; // one object
pub mod files; // a set of objects as files, with their digest
mod untyped; // a file of the repository as JSON
pub mod parse; // manifests in the repository, read back
pub mod diff; // the diff of two sets
pub(crate) mod fields; // the diff of two objects
pub mod argocd; // Argo CD's Applications and AppProjects
pub mod bootstrap; // the files of a manifest repository before its first deployment
pub mod removal; // the effects of a removal or rollback
pub(crate) mod canary; // Flagger's Canary, and what Flagger makes of it
pub mod handover; // the change from plain to a canary and back
pub(crate) mod pods; // the pods that objects make, and their images
pub(crate) mod pod_security; // what the Pod Security Standards refuse of pods
pub mod replicas; // the number of pods, where an autoscaler takes it over
pub(crate) mod patch; // changes that a WAML makes of rendered objects
pub(crate) mod disks; // impossible changes of a live disk
pub mod quantity; // amounts: 500m, 1Gi
pub mod int_or_string; // a number of pods, or a percentage of them

/// The prefix of the service's own labels and annotations.
pub const OUR_PREFIX: &str = "the-deployer.dev/";

/// The prefixes of keys of labels and annotations that the-deployer and Argo CD set.
pub const RESERVED_KEYS: [&str; 3] = ["app.kubernetes.io/", "argocd.argoproj.io/", OUR_PREFIX];

/// The label of the pods of an app's jobs: the app's slug. Their name label is another one, so that no Service of the app
/// finds them.
pub const APP_LABEL: &str = "the-deployer.dev/app";
