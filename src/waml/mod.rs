//! The developer's file, a public format: its types, its reading with positions, its schema.
//!
//! ```text
//! bytes ─ yaml::parse ─▶ Node (every value with its place) ─ checked_reader::check ─▶ Waml
//!                                                             │
//!                        the types' own JSON Schema ──────────┘
//! ```
//!
//! Knows nothing of templates, targets' settings or Kubernetes objects.

pub mod quote; // how a message quotes a hostile text
pub mod node; // a value with its place
pub mod yaml; // reading YAML
pub(crate) mod scalar; // what a plain scalar means
pub mod checked_reader; // a node read by a type's JSON Schema
mod schema; // a JSON Schema made ready for checking
mod formats; // named forms of text
mod examples; // right lines to write
pub mod suggest; // did you mean
pub mod confidential; // what of a file a message may quote
pub(crate) mod collect; // violations, up to a number
pub mod document; // the file as a whole: header and layers
pub mod section; // what a section can set
pub mod section_workload; // its parts that shape the pods
pub mod section_network; // its parts that say how the app is reached
pub mod section_operations; // its parts that run the app well
pub mod duplicates; // what tells the elements of a list apart, by their type
mod ignored; // what is written and never heard
pub mod emit; // writing YAML that every reader understands alike

pub use document::Waml;
