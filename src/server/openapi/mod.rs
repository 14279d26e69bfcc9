//! THE CONTRACT OF THE API: a route and its description are added together, so that neither exists without the other.
//!
//! ```text
//! Routes::get(path, handler).reads(…) ─▶ Router, as axum has it
//!                                     └▶ document ─▶ /api/v1/openapi.json, docs/openapi.json
//! ```
//!
//! The schemas are those of the types that handlers take and give (`schemars`), and their texts the types' doc
//! comments.

mod document; // renders the OpenAPI document
mod operation; // routes with their descriptions

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;

pub(super) use crate::api::forms::Form;
use crate::server::conditional::CachedDocument;
pub(super) use crate::server::openapi::operation::{Operation, Parameter, ParameterForm, Routes};

const PATH: &str = "/openapi.json";

/// Renders the document: with those operations, which are all below `base`, and with itself.
pub(super) fn render(base: &str, mut operations: Vec<Operation>) -> CachedDocument {
    let itself = Routes::<()>::new()
        .get(PATH, || async {})
        .open("getOpenApi", "This document.")
        .gives::<serde_json::Map<String, serde_json::Value>>(200, "The document.");
    operations.extend(itself.operations);
    CachedDocument::new(document::render_document(base, &operations).into())
}

/// Makes the route of the document.
pub(super) fn served<S: Clone + Send + Sync + 'static>(
    document: &'static CachedDocument,
) -> Router<S> {
    // Shared by all answers, however slowly clients read them.
    let answer = move |headers: HeaderMap| async move { document.answer(&headers) };
    Router::new().route(PATH, get(answer))
}
