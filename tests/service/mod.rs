//! The real program, over HTTP, with everything that can happen to a process and to its input.

mod access; // who may do what
mod api; // one app, its revisions, a deployment's log and events
mod apps; // what is where
mod bart; // what bart shows of them
mod bad_input; // events and WAMLs of every bad kind
mod claims; // two that come at the same moment
mod chaos; // killed again and again at random
mod crash; // killed anywhere, and started again
mod exhausted; // no room on the disk, no more open files, a lock that is held
mod facts; // what is found out for a deployment
mod floods; // a hostile registry
mod following; // bart waits for what goes on
mod first_start; // killed in the very first start
mod fleet; // several manifest repositories, several targets
mod github_app; // manifests and templates reached as the App
mod guards; // rules that know the world
mod hand_edits; // what somebody changed beside us
mod bart_locks; // bart lock, unlock, cancel, plan
mod large_rows; // records of hostile deployments
mod lifecycle; // first start, end, logs and metrics
mod mistyped; // did you mean
mod manifests; // a manifest repository that is not as it should be
mod rebuild; // a cluster from the repository alone
mod offline; // commands without the service
mod overload; // attacks without the secret
mod record; // the record kept, put back, made again
mod deploy_requests; // deployments and plans that are asked of the service
mod removal; // an app taken off a target
mod repeated; // acts with an Idempotency-Key
mod replicas; // several processes on one database
mod rollback; // a former revision made live again, and its hold
mod signing; // commits that prove whose they are
mod rotation; // tokens that change while it runs
mod ssh; // manifests behind ssh
mod stalled; // a replica that stands still, or has lost the database
mod templates; // templates from a repository, kept current
mod upgraded; // clusters of a newer Kubernetes
