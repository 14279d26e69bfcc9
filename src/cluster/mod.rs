//! KUBERNETES CLUSTERS: when a deployment is really finished there, and why it is not.
//!
//! ```text
//! JSON of the API ──▶ object, workload, pod …   slim objects: what the rules need, and no more
//!                       │
//!                       ▼
//!                     index                    the present objects of one cluster, and who owns whom
//!                       │
//!          ┌────────────┴────────────┐
//!          ▼                         ▼
//!       progress                  failure      what a workload's counters mean; why its pods do not run
//!          └────────────┬────────────┘
//!                       ▼
//!                     tracker ◀──▶ record      what has changed since it was recorded, each thing once
//!                       │
//!                       ▼
//!                     summary                  one deployment over all its workloads, and what it waits for
//! ```
//!
//! `connection`, `watch`, `live`, `logs` and `secret_objects` speak to a cluster's API server. `relay` takes the place of the first two
//! where an agent inside the cluster speaks to it. All of the rest is pure: no client, no clock, no file. Times come in as arguments; what must be remembered goes out as plain records.

pub mod connection; // the connection to a cluster's API server
pub mod watch; // changes of objects there
pub mod relay; // the same from an agent inside the cluster
pub mod logs; // logs of containers
pub mod secret_objects; // Secrets, with a person's own credentials
mod fields; // fields of JSON that may be missing or absurd
pub mod object; // names, metadata, kinds
pub mod template; // the digest of a pod template
pub mod workload; // Deployment, ReplicaSet, StatefulSet, DaemonSet
pub mod job; // Job, CronJob
pub mod pod; // pods as rows
pub mod argocd; // Argo CD's Application
pub mod flagger; // Flagger's Canary
pub mod canary_report; // … and why it is held back, from its events
pub mod watched; // any object that is watched
pub mod export; // the same in the form of the API
mod strangers; // objects of nobody
pub mod index; // the objects of one cluster
pub mod progress; // the rules: how far a workload is
pub mod failure; // causes of failures, and what to do
pub mod record; // what is remembered of a workload's progress
pub mod expected; // what was pushed, and should come to be
mod attribution; // which release a workload carries, and who brought it
pub mod observation; // what has happened to a release
mod deadline; // how long a release may take, and when it is given up
mod transition; // from one state of a record to the next
mod unready; // pods that run and do not become ready
pub mod tracker; // changes become observations, each once
pub mod sync_wait; // how long Argo CD is waited for
mod marks; // the marks of the deploy clock that a cluster shows
pub mod view; // the objects of one cluster, and the deployments that wait for it
pub mod live; // the present objects of one app
pub mod summary; // a deployment of several workloads
