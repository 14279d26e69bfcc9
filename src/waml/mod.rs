//! The developer's file, a public format: its types, its reading with positions, its schema.
//!
//! ```text
//! bytes ─ yaml::parse ─▶ Node (every value with its place) ─ typed::check ─▶ Waml
//!                                                             │
//!                        the types' own JSON Schema ──────────┘
//! ```
//!
//! Knows nothing of templates, targets' settings or Kubernetes objects.

pub mod node; // a value with its place
pub mod yaml; // reading YAML: the one module that knows the YAML crates

pub mod document;
mod formats; // named forms of text
pub mod identities; // what tells the elements of a list apart
pub mod section; // what a section can set
pub mod section_network;
pub mod section_operations;
pub mod section_workload; // the file as a whole: header and layers

pub use document::Waml;
mod build; // the parser's events become nodes
pub mod emit; // writing YAML that every reader understands alike
mod scalar; // what a plain scalar means
mod shape; // a JSON Schema made ready for checking
pub mod suggest; // did you mean
pub mod typed; // a node read by a type's JSON Schema // named forms of text
