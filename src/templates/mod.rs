//! Templates: their sources, their compilation, their lint, and the view that they render.
//!
//! A set of templates is compiled whole or not at all ([`set::TemplateSet`]). A template renders text from a view of
//! the settings; the pipeline checks the text.
//!
//! In reading order: [`sources`] reads files, [`parameters`] the parameters of a template, [`set`] compiles them with `engine`, and `turns` limits the work of a
//! template. `view` builds the values for a template. `lint` finds reads of unknown names, with the tags of `lexer`.
//! [`alerts`] lists the default alerts, and [`promql`] checks expressions.

pub mod sources; // the files: built in, a folder, or a repository
pub mod parameters; // the parameters that a template declares
pub mod set; // a set of templates, compiled
pub(crate) mod engine; // the template engine, which keeps values in their place
mod turns; // the limit of a template's work
mod lexer; // the tags of a template's text
pub(crate) mod lint; // reads of unknown names
pub(crate) mod view; // the values for a template
pub mod alerts; // the default alerts
pub mod promql; // expressions, as far as they can be checked without a Prometheus
