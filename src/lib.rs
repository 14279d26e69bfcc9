//! A GitOps deployment controller: a GitHub Deployment event becomes manifests in a git
//! repository that Argo CD syncs from.
//!
//! The modules in reading order; `docs/architecture.md` has the map and the import table, and
//! `tests/architecture/` holds the code to it.

pub mod support; // SMALL SHARED THINGS: a leaf
pub mod model; // THE NOUNS: plain values
pub mod waml; // THE DEVELOPER'S FILE: types, parsing with positions, schema
pub mod manifests; // KUBERNETES OBJECTS AS DATA
pub mod policy; // a company's CEL rules
pub mod templates; // TEMPLATES: sources, engine, view, lint
pub mod pipeline; // MERGE → DEFAULT → VALIDATE → RENDER
pub mod git; // THE MANIFEST REPOSITORY: layout, tree, writer, transport
pub mod forge; // CODE HOSTS: GitHub, local
pub mod notify; // PEOPLE AND PROGRAMS ARE TOLD
pub mod store; // DURABLE STATE
pub mod lookups; // THE WORLD, ASKED: registries, secret stores
pub mod cluster; // KUBERNETES: watches of a cluster, when a deployment is finished there, and why it is not
pub mod inventory; // WHAT IS LIVE WHERE: an index over the manifest repositories
pub mod deployments; // USE CASES, one file each
pub mod controller; // THE LOOPS that call them: workers, recovery of lost events, previews
pub mod outbox; // RELAY: who is told, how fast, how often
pub mod api; // THE WORDS OF THE HTTP API, for the service and for bart
pub mod server; // HTTP
pub mod config; // settings
pub mod app; // builds everything; the only file that names concrete adapters
pub mod cli; // one file per command
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing; // readers of foreign bytes, for libFuzzer
