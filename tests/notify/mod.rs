//! People and programs are told, over real HTTP.

mod events; // programs: signed events of every change
mod argocd; // a cluster's Argo CD: signed pushes
mod bigquery; // a table: a row for each end
pub(crate) mod schema; // what CDEvents must look like
