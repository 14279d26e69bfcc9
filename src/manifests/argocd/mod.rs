//! Argo CD's objects: the Application of an app and of a cluster, and a cluster's AppProject.

pub mod application;
pub mod project;
