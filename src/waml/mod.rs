//! The developer's file (WAML), a public format: its types, its reader with positions, its schema.
//!
//! ```text
//! bytes ─ yaml::parse ─▶ Node (every value with its place) ─ checked_reader::check ─▶ Waml
//!                                                             │
//!                        the types' own JSON Schema ──────────┘
//! ```
//!
//! In reading order: [`document`] has the file as a whole ([`Waml`]), and [`section`] one layer of settings, with its
//! parts in [`section_workload`], [`section_pod`], [`section_containers`], [`section_network`], [`section_operations`], [`section_traffic`] and [`section_canary`], whose numbers [`canary_plan`] works out. [`rollouts`]
//! has the named rollouts, [`extra_files`] the files that a WAML names, and [`app_files`] the WAMLs of a repository with several apps. [`yaml`] parses text into [`node::Node`]s, `schema` prepares the schema, and [`checked_reader`] checks a node against it. [`duplicates`]
//! distinguishes the elements of lists, `ignored` finds parts without effect, and [`suggest`], [`quote`] and `examples`
//! write the help texts. [`emit`] writes YAML.
//!
//! Nothing here knows templates, targets' settings or Kubernetes objects.

pub mod quote; // quoted texts of a hostile file in messages
pub mod node; // a value with its place
pub mod yaml; // the YAML parser
pub(crate) mod scalar; // plain scalars by wanted type
pub mod checked_reader; // a node read by a type's JSON Schema
mod schema; // a JSON Schema prepared for checking
mod formats; // named forms of text
mod examples; // example lines for help texts
pub mod suggest; // suggestions: did you mean
pub mod confidential; // the part of a file that a message may quote
pub(crate) mod collect; // violations, up to a limit
pub mod document; // the file as a whole: header and layers
pub mod section; // one layer of settings
pub mod section_workload; // its parts that shape the pods
pub mod section_patches; // changes of rendered objects
pub mod extra_files; // the files that `manifests` names
pub mod app_files; // the WAMLs of a repository with several apps
pub mod section_pod; // its parts about rights, life and nodes of pods
pub mod section_network; // its parts about the way to the app
pub mod section_operations; // its parts for operations
pub mod section_containers; // its parts that run beside the app's own container
pub mod section_processes; // its part about several processes of one image
pub mod section_canary; // its part about the traffic of a new release
pub mod canary_plan; // … and what that means in steps and time
pub mod section_traffic; // its parts about several releases at once
pub mod rollouts; // one release over many targets
pub mod duplicates; // the key that distinguishes elements of a list
mod ignored; // parts without effect
pub mod emit; // the YAML writer
pub(crate) mod text_edit; // one value set in the text of a file

pub use document::Waml;
