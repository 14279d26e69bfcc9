//! What becomes of a deployment after the push: the whole service beside a cluster of its own.

pub(crate) mod cluster; // the service, its cluster, and what Argo CD and the controllers do there
mod announced; // what programs and commits are told meanwhile
mod ends; // how deployments end
mod live; // what runs now, and the logs of it
mod leases; // one process watches, and others take over
mod sight; // a cluster that cannot be seen
