//! The error of a service or a command that cannot start.

use crate::deployments::templates::TemplatesError;
use crate::model::violation::Rejection;

/// The reason why the service cannot start, in one sentence with the way out.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A part cannot be built or reached.
    #[error("cannot use {part}: {cause}")]
    Part {
        /// The part: `the database`, `the templates`.
        part: &'static str,
        /// The cause, and the way out.
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

/// Returns a function that converts the error of a part.
pub(super) fn cannot_use<E: Into<Boxed>>(part: &'static str) -> impl Fn(E) -> StartError {
    move |error| StartError::Part { part, cause: chain(error.into().as_ref()) }
}

/// Returns an error with its causes, on one line.
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
