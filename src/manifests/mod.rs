//! KUBERNETES OBJECTS AS DATA: what a template renders, what a repository holds, and how the two differ.

pub(crate) mod object; // one object
pub mod files; // a set of objects as files, with their digest
mod untyped; // a file of the repository, read back as JSON
pub mod parse; // manifests in the repository, read back
pub mod diff; // two sets of manifests, compared
mod fields; // two objects, compared value by value
pub mod argocd; // Argo CD's Applications and AppProjects
pub mod bootstrap; // what a manifest repository has before its first deployment
pub mod removal; // what removing an app takes away
pub mod replicas; // the number of pods, where an autoscaler takes it over
pub(crate) mod disks; // what nobody can change of a disk that is live
pub mod quantity; // amounts: 500m, 1Gi
pub mod int_or_string; // a number of pods, or a percentage of them

/// What our own labels and annotations begin with.
pub const OUR_PREFIX: &str = "the-deployer.dev/";
