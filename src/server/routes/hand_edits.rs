//! `/api/v1/apps/…/import-edit`: imports a manual edit of the manifest repository into a WAML.

use axum::Json;

use crate::api::hand_edits::{
    EditImportAnswer, EditImportRequest, ImportedFieldSummary, LeftFieldSummary,
};
use crate::deployments::import_edit::{EditImportError, EditImportInput, ImportedEdit};
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::id::{AppName, DeployId};
use crate::pipeline::import_edit::{EditImport, ImportedField, LeftField};
use crate::server::call::{AuthenticatedRequest, PathParam, Payload, unprocessable};
use crate::server::problem::{Problem, ProblemKind};

/// Finds the change of a WAML that gives a manual edit; changes nothing.
pub(super) async fn import(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Result<Payload<EditImportRequest>, Problem>,
) -> Result<Json<EditImportAnswer>, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let Payload(EditImportRequest { waml, app_name, manifests, deployment }) = body?;
    let deployment = deployment.map(DeployId::parse).transpose();
    let deployment = deployment.map_err(|error| unprocessable(error.to_string()))?;
    let app = app_name.map(AppName::parse).transpose();
    let app = app.map_err(|error| unprocessable(error.to_string()))?;
    let text = waml.clone();
    let request = EditImportInput { waml, app, manifests, deployment };
    match call.deployments().import_edit(&instance, request).await {
        Ok(imported) => Ok(Json(imported.into())),
        Err(EditImportError::Refused(rejection)) => Ok(Json(EditImportAnswer {
            revision: String::new(),
            replaced_by: None,
            commit: None,
            waml: text,
            imported: Vec::new(),
            left: Vec::new(),
            violations: rejection.violations,
            notes: Vec::new(),
        })),
        Err(error) => Err(error.into()),
    }
}

/// Names every field, so that a new field asks here whether to be shown.
impl From<ImportedEdit> for EditImportAnswer {
    fn from(edit: ImportedEdit) -> Self {
        let ImportedEdit { import, revision, replaced_by, commit, notes } = edit;
        let EditImport { text, imported, left, is_other_base: _ } = import;
        let imported = imported.into_iter().map(|field| {
            let ImportedField { object, field, before, after, setting } = field;
            ImportedFieldSummary { object, field, before, after, setting }
        });
        let left = left.into_iter().map(|field| {
            let LeftField { object, field, why } = field;
            LeftFieldSummary { object, field, why }
        });
        Self {
            revision: revision.into(),
            replaced_by: replaced_by.map(String::from),
            commit,
            waml: text,
            imported: imported.collect(),
            left: left.collect(),
            violations: Vec::new(),
            notes,
        }
    }
}

impl From<EditImportError> for Problem {
    fn from(error: EditImportError) -> Self {
        let detail = error.to_string();
        match error {
            EditImportError::Busy => Self::new(ProblemKind::Overloaded, detail),
            EditImportError::NoEdit(_) => Self::new(ProblemKind::NotFound, detail),
            EditImportError::Unusable(_) | EditImportError::Refused(_) => {
                Self::new(ProblemKind::Unprocessable, detail)
            }
            EditImportError::Unavailable(_) => Self::new(ProblemKind::Unavailable, detail),
            EditImportError::Fault(error) => {
                tracing::error!(%error, "edit could not be imported");
                Self::new(ProblemKind::Unavailable, "it cannot be imported now; try again later")
            }
        }
    }
}
