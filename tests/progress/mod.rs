//! What becomes of a deployment after the push: the whole service beside a cluster of its own.

pub(crate) mod cluster; // the service, its cluster, and what Argo CD and the controllers do there
mod commits; // commits of others that hold a revision
mod ends; // how deployments end
mod live; // what runs now, and the logs of it
mod pod_logs; // logs of many containers, and what one caller may ask for
mod leases; // one process watches, and others take over
mod sight; // a cluster that cannot be seen
mod undo; // the rollback of what fails
mod undo_crashes; // the same, over crashes and takeovers
