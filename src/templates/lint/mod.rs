//! The lint of templates: their reads, compared with the names that exist.
//!
//! [`reads`] lists the reads of a template, [`shape`] the names that exist, and [`undefined`] compares them.

mod components; // the parameters of components
mod expressions; // the meaning of a tag's expression
pub(crate) mod reads; // the reads of a template
pub(crate) mod shape; // the names that exist
pub(crate) mod undefined; // reads of unknown names
