//! A GitOps deployment controller: a GitHub Deployment event becomes manifests in a git
//! repository that Argo CD syncs from.
//!
//! The modules in reading order; `docs/architecture.md` has the map and the import table,
//! `docs/life-of-a-request.md` follows one deployment through the code, and `tests/architecture/` holds the code to
//! the table.
//!
//! | modules | what they are |
//! |---|---|
//! | [`model`] | plain values: names, releases, deployments and their states |
//! | [`waml`] | the developer's file: types, parsing with positions, schema |
//! | [`manifests`], [`policy`] | Kubernetes objects as data; a company's CEL rules |
//! | [`traffic`] | several versions live at once: placement, plan and weights, pure |
//! | [`templates`] | sources, engine, view and lint of templates |
//! | [`pipeline`] | merge, default, validate, render: from a WAML to manifests, pure |
//! | [`rollout`] | one release over many targets, with gates and undo: the state machine, pure |
//! | [`git`], [`forge`], [`lookups`], [`cluster`] | adapters: the manifest repository; code hosts; registries and secret stores; Kubernetes clusters |
//! | [`store`] | durable state: deployments, the outbox, locks, owners, the audit log |
//! | [`notify`] | clients and messages for Slack, CloudEvents and Argo CD |
//! | [`inventory`] | what is live where: an index over the manifest repositories |
//! | [`deployments`] | the use cases, one file each |
//! | [`controller`], [`outbox`] | the loops: workers, recovery of missed events, previews, watched clusters; delivery of messages |
//! | [`api`], [`server`] | the types of the HTTP API; routes, authentication, pages |
//! | [`agent`] | reports from inside a cluster that the service does not reach |
//! | [`config`], [`app`], [`cli`] | settings; wiring; the commands of `the-deployer` and `bart` |
//! | [`support`] | small shared parts that know nothing of the rest |

pub mod support; // small shared parts, which know nothing of the rest
pub mod model; // plain values
pub mod waml; // the developer's file: types, parsing with positions, schema
pub mod manifests; // Kubernetes objects as data
pub mod policy; // a company's CEL rules
pub mod traffic; // several versions live at once: placement, plan, weights
pub mod templates; // sources, engine, view and lint of templates
pub mod pipeline; // merge → default → validate → render
pub mod rollout; // one release over many targets: the state machine
pub mod git; // the manifest repository: layout, tree, writer, transport
pub mod forge; // code hosts: GitHub, local
pub mod notify; // clients and messages for people and programs
pub mod store; // durable state
pub mod lookups; // registries, secret stores
pub mod cluster; // Kubernetes: watches of a cluster, when a deployment is finished there, and why it is not
pub mod inventory; // what is live where: an index over the manifest repositories
pub mod deployments; // use cases, one file each
pub mod controller; // the loops that call them: workers, recovery of missed events, previews, watched clusters
pub mod outbox; // the relay of messages: delivery, retry, circuit breaker
pub mod api; // the types of the HTTP API, for the service and for bart
pub mod server; // HTTP
pub mod agent; // reports from inside a cluster that the service does not reach
pub mod config; // settings
pub mod app; // builds everything; the only module that names concrete adapters
pub mod cli; // one file per command
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing; // readers of foreign bytes, for libFuzzer
