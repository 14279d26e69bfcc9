//! The files that pages are made of beside their HTML: the style sheet, the script and the icons. They have nothing of
//! anybody in them, so that they need no caller.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

use crate::server::pages::document::{SCRIPT, STYLE, icon};
use crate::server::problem::{Problem, ProblemKind};

/// Their addresses have the version in them.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// Serves one file.
pub(super) async fn get(Path(name): Path<String>) -> Result<Response, Problem> {
    let icon = || icon(name.strip_prefix("icon-")?.strip_suffix(".svg")?);
    let (kind, content) = match name.as_str() {
        "style.css" => ("text/css; charset=utf-8", STYLE.to_owned()),
        "page.js" => ("text/javascript; charset=utf-8", SCRIPT.to_owned()),
        _ => {
            let icon = icon().ok_or_else(|| {
                Problem::new(
                    ProblemKind::NotFound,
                    "there is no such file; pages name those that there are",
                )
            })?;
            ("image/svg+xml", icon)
        }
    };
    let headers =
        [(CONTENT_TYPE, kind), (CACHE_CONTROL, FOR_GOOD), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, content).into_response())
}
