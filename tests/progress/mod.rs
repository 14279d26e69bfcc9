//! Tests a deployment after its push: the whole service beside a cluster of its own.

pub(crate) mod cluster; // the service, its cluster, and what Argo CD and the controllers do there
pub(crate) mod clock; // the time of each step
mod agent; // a cluster that the service does not reach
mod agent_reads; // what an agent adds to its reports, and what callers read of them
mod agent_process; // the program in it
mod announced; // what programs and commits are told meanwhile
pub(crate) mod canaries; // the weight of a canary over time
mod commits; // commits of others that hold a revision
mod ends; // how deployments end
mod experiments; // four canaries with a stand-in for Flagger
mod canary_news; // what Slack reads of a canary
mod canary_terminal; // what `bart deploy` prints of one
mod environments; // workloads of others that name a commit: statuses and comments
mod limits; // what those may cause, and what not
mod live; // what runs now, and the logs of it
mod pod_logs; // logs of many containers, and what one caller may ask for
mod leases; // one process watches, and others take over
mod sight; // a cluster that cannot be seen
mod rollouts; // a rollout over a cluster that is watched
mod undo; // the rollback of what fails
mod undo_crashes; // the same, over crashes and takeovers
