//! TEMPLATES: where they come from, what they are checked for, how they are rendered, and what they see.
//!
//! A set of templates is compiled whole or not at all ([`set::TemplateSet`]). A template renders text
//! from a view of the settings; what that text must be is the pipeline's business.

pub mod sources; // the texts: built in, a folder, or what lies in a repository
pub mod set; // a set of templates, compiled
pub(crate) mod engine; // the template engine, and how values are kept in their place
mod turns; // templates count what they do
mod lexer; // the tags of a template's text
pub(crate) mod lint; // what a template reads that is not there
pub(crate) mod view; // what templates see
pub mod alerts; // the alerts that there are, and what each of them needs
pub mod promql; // expressions, as far as they can be checked without a Prometheus
