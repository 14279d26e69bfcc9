//! THE CONTRACT OF THE API: a route and what is said of it are added in one call, so that neither
//! is there without the other.
//!
//! ```text
//! Routes::get(path, handler, Operation) ─▶ Router, as axum has it
//!                                       └▶ document ─▶ /api/v1/openapi.json, docs/openapi.json
//! ```
//!
//! The shapes are those of the types that handlers take and give (`schemars`), their words the
//! types' doc comments. Pure but for the router.

mod document; // operations become an OpenAPI document
mod operation; // what is said of a route

use axum::Router;
use axum::handler::Handler;
use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get, post};

pub(super) use crate::api::forms::Form;
use crate::server::conditional::Document;
pub(super) use crate::server::openapi::operation::{Is, Operation, Parameter};

/// Routes, each with what is said of it.
pub(super) struct Routes<S> {
    router: Router<S>,
    described: Vec<Described>,
}

/// A route's place, and what is said of it.
pub(super) struct Described {
    method: &'static str,
    path: String,
    operation: Operation,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { router: Router::new(), described: Vec::new() }
    }

    /// One that reads.
    pub(super) fn get<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.add("get", path, get(handler), operation)
    }

    /// One that acts.
    pub(super) fn post<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.add("post", path, post(handler), operation)
    }

    fn add(
        mut self,
        method: &'static str,
        path: &str,
        route: MethodRouter<S>,
        operation: Operation,
    ) -> Self {
        self.described.push(Described { method, path: path.to_owned(), operation });
        Self { router: self.router.route(path, route), ..self }
    }

    /// The router, and what is said of its routes.
    pub(super) fn apart(self) -> (Router<S>, Vec<Described>) {
        (self.router, self.described)
    }
}

/// The route of the document: of those that are described, which all are below `base`, and of itself.
pub(super) fn served<S: Clone + Send + Sync + 'static>(
    base: &str,
    mut described: Vec<Described>,
) -> Router<S> {
    const PATH: &str = "/openapi.json";
    let operation = Operation::open("getOpenApi", "This document.")
        .gives::<serde_json::Map<String, serde_json::Value>>(200, "The document.");
    described.push(Described { method: "get", path: PATH.to_owned(), operation });
    // Shared by all answers, however slowly they are read.
    let text = Document::new(document::of(base, &described).into());
    let answer = move |asked: HeaderMap| async move { text.answer(&asked) };
    Router::new().route(PATH, get(answer))
}
