//! The page that asks for confirmation of an act: what happens, what changes, and the form that does it.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use crate::model::change::Change;
use crate::model::removal::REASON_LIMIT;
use crate::server::pages::acts::form::ActForm;
use crate::server::pages::document::{Frame, PageError};
use crate::server::pages::{fault, html, with_forms};
use crate::server::problem::Problem;
use crate::support::random::random_bytes;

/// The page of one act.
#[derive(Debug, Default)]
pub(super) struct ActConfirmation {
    /// The act and its object: `Roll back devx/shop on prod`.
    pub(super) heading: String,
    /// What happens, one sentence each.
    pub(super) consequences: Vec<String>,
    /// What deserves attention, one sentence each.
    pub(super) warnings: Vec<String>,
    /// Something to choose first, on this page.
    pub(super) choice: Option<Choice>,
    /// The objects that change; `None` where an act changes none.
    pub(super) changes: Option<Vec<Change>>,
    /// The fields of the form.
    pub(super) fields: Vec<ActField>,
    /// The word on the button; `None` if nothing can be done yet.
    pub(super) button: Option<&'static str>,
    /// True if the act takes something away from what runs.
    pub(super) is_severe: bool,
    /// The page to which the reader goes back, and its name.
    pub(super) back: (String, String),
    /// Why an attempt was refused.
    pub(super) problem: Option<String>,
    /// The key of a form that was refused and is sent again.
    pub(super) key: Option<String>,
}

/// Something to choose, which changes what the page shows.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) label: &'static str,
    pub(super) name: &'static str,
    pub(super) options: Vec<ChoiceOption>,
    /// True if a value may be written that is no option.
    pub(super) takes_others: bool,
    pub(super) button: &'static str,
    /// Fields that are sent along.
    pub(super) fields: Vec<ChoiceField>,
}

/// A field beside a choice.
#[derive(Debug)]
pub(super) enum ChoiceField {
    Text(TextField),
    OneOf(SelectField),
}

/// A field for one of several values.
#[derive(Debug)]
pub(super) struct SelectField {
    pub(super) label: &'static str,
    pub(super) name: &'static str,
    pub(super) options: Vec<ChoiceOption>,
}

/// One option of a choice.
#[derive(Debug)]
pub(super) struct ChoiceOption {
    pub(super) value: String,
    pub(super) text: String,
    pub(super) is_chosen: bool,
}

/// A field for a text.
#[derive(Debug)]
pub(super) struct TextField {
    pub(super) label: &'static str,
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) is_required: bool,
    /// True if it may have several lines.
    pub(super) has_lines: bool,
    pub(super) hint: &'static str,
}

/// A field of an act's form.
#[derive(Debug)]
pub(super) enum ActField {
    /// The reason, which is recorded.
    Reason { value: String, is_required: bool },
    /// One of several.
    OneOf { label: &'static str, name: &'static str, options: Vec<ChoiceOption> },
    /// Something that must be allowed expressly.
    Consent { name: &'static str, label: &'static str, is_checked: bool },
    /// A value that the page already has.
    Fixed { name: &'static str, value: String },
}

impl ActField {
    /// The reason, which the act needs.
    pub(super) fn reason() -> Self {
        Self::Reason { value: String::new(), is_required: true }
    }
}

#[derive(Template)]
#[template(path = "acts/confirmation.html")]
struct ConfirmationPage<'a> {
    frame: Frame,
    page: &'a ActConfirmation,
    token: &'a str,
    key: String,
    longest: usize,
}

impl ActConfirmation {
    /// Returns the page as it is shown after a refusal, with what was written in it.
    pub(super) fn refused(mut self, problem: String, form: &ActForm) -> Self {
        self.problem = Some(problem);
        self.key = form.key().map(str::to_owned);
        for field in &mut self.fields {
            match field {
                ActField::Reason { value, .. } => form.reason().clone_into(value),
                ActField::OneOf { name, options, .. } => {
                    for option in options {
                        option.is_chosen = form.get(name) == Some(option.value.as_str());
                    }
                }
                ActField::Consent { name, is_checked, .. } => *is_checked = form.is_checked(name),
                ActField::Fixed { .. } => {}
            }
        }
        self
    }

    /// Renders the page.
    pub(super) fn respond(&self, status: StatusCode, token: &str) -> Result<Response, Problem> {
        Ok(with_forms(html(status, self.render(token).map_err(fault)?)))
    }

    fn render(&self, token: &str) -> Result<String, PageError> {
        let new_key =
            || random_bytes().map(|bytes| hex::encode(bytes.get(..16).unwrap_or_default()));
        let key = self.key.clone().or_else(|| new_key().ok()).unwrap_or_default();
        let page = ConfirmationPage {
            frame: Frame { title: self.heading.clone(), ..Frame::default() },
            page: self,
            token,
            key,
            longest: REASON_LIMIT,
        };
        Ok(page.render()?)
    }
}
