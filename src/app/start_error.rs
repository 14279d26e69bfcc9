//! Why the program, or one of its commands, cannot start.

use crate::deployments::templates::TemplatesError;
use crate::model::violation::Rejection;

/// Why the program cannot start, in one sentence with what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A part cannot be built or reached.
    #[error("cannot use {part}: {cause}")]
    Part {
        /// Which: `the database`, `the templates`.
        part: &'static str,
        /// Why, and what to do.
        cause: String,
    },
    /// The templates are broken.
    #[error("the templates are broken: {0}")]
    Templates(Rejection),
}

impl From<TemplatesError> for StartError {
    fn from(error: TemplatesError) -> Self {
        match error {
            TemplatesError::Unusable(cause) => cannot_use("the templates")(cause),
            TemplatesError::Broken(rejection) => Self::Templates(rejection),
        }
    }
}

/// Converts the error of a part.
pub(super) fn cannot_use<E: Into<Boxed>>(part: &'static str) -> impl Fn(E) -> StartError {
    move |error| StartError::Part { part, cause: chain(error.into().as_ref()) }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub(super) type Boxed = Box<dyn std::error::Error>;
