//! THE CONTRACT OF THE API: a route and what is said of it are added together, so that neither
//! is there without the other.
//!
//! ```text
//! Routes::get(path, handler).reads(…) ─▶ Router, as axum has it
//!                                     └▶ document ─▶ /api/v1/openapi.json, docs/openapi.json
//! ```
//!
//! The shapes are those of the types that handlers take and give (`schemars`), their words the
//! types' doc comments.

mod document; // operations become an OpenAPI document
mod operation; // routes, and what is said of each

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;

pub(super) use crate::api::forms::Form;
use crate::server::conditional::CachedDocument;
pub(super) use crate::server::openapi::operation::{Is, Operation, Parameter, Routes};

/// The route of the document: of those operations, which are all below `base`, and of itself.
pub(super) fn served<S: Clone + Send + Sync + 'static>(
    base: &str,
    mut operations: Vec<Operation>,
) -> Router<S> {
    const PATH: &str = "/openapi.json";
    let itself = Routes::<S>::new()
        .get(PATH, || async {})
        .open("getOpenApi", "This document.")
        .gives::<serde_json::Map<String, serde_json::Value>>(200, "The document.");
    operations.extend(itself.operations);
    // Shared by all answers, however slowly they are read.
    let text = CachedDocument::new(document::render_document(base, &operations).into());
    let answer = move |asked: HeaderMap| async move { text.answer(&asked) };
    Router::new().route(PATH, get(answer))
}
