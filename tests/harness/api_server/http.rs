//! Requests and their answers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};

use super::faults::{Fault, Verb};
use super::selectors::Selector;
use super::state::{Pages, Request, Resource, World};
use super::{Shared, discovery, logs, stream};

/// What a path leads to.
struct Place {
    resource: Resource,
    namespace: Option<String>,
    name: Option<String>,
    /// `log`
    part: Option<String>,
}

pub(super) async fn answer(
    State(shared): State<Shared>,
    request: axum::extract::Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (path, query) =
        (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let body = to_bytes(body, 1 << 20).await.unwrap_or_default();
    let (answer, fault) = {
        let mut world = shared.lock();
        let place = Place::find(&world, &path);
        let verb = verb(&parts.method, place.as_ref(), &query);
        let resource = place.as_ref().map_or("", |place| place.resource.plural).to_owned();
        let headers = headers(&parts.headers);
        let token = headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let is_known =
            world.tokens.is_empty() || token.is_some_and(|token| world.tokens.contains(token));
        let fault = world.take(Request {
            verb,
            resource,
            path: path.clone(),
            query: query.clone(),
            headers: headers.clone(),
            at: Duration::ZERO,
        });
        let answer = if is_known {
            world.answer(&shared, verb, place, &path, &Query::parse(&query), &body)
        } else {
            status(401, "Unauthorized", "Unauthorized")
        };
        (answer, fault)
    };
    match fault {
        Some(fault) => spoil(answer, fault).await,
        None => answer,
    }
}

fn verb(method: &Method, place: Option<&Place>, query: &str) -> Verb {
    match place {
        _ if *method == Method::POST => Verb::Create,
        None => Verb::Discover,
        Some(Place { part: Some(_), .. }) => Verb::Log,
        Some(Place { name: Some(_), .. }) => Verb::Get,
        Some(_) if Query::parse(query).get("watch").is_some_and(|value| value != "false") => {
            Verb::Watch
        }
        Some(_) => Verb::List,
    }
}

fn headers(map: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    map.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

impl Place {
    fn find(world: &World, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let (plural, rest) = rest.split_first()?;
        let resource = world
            .resources
            .iter()
            .find(|one| one.group == group && one.version == version && one.plural == *plural)?;
        let text = |at: usize| rest.get(at).map(|part| (*part).to_owned());
        Some(Self { resource: resource.clone(), namespace, name: text(0), part: text(1) })
    }
}

impl World {
    fn answer(
        &mut self,
        shared: &Shared,
        verb: Verb,
        place: Option<Place>,
        path: &str,
        query: &Query,
        body: &Bytes,
    ) -> Response {
        let Some(place) = place else {
            return match discovery::answer(self, path) {
                Some(found) => axum::Json(found).into_response(),
                None if path.ends_with("/selfsubjectaccessreviews") => self.review(body),
                None => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
            };
        };
        let name = match verb {
            Verb::Watch => "watch",
            Verb::List => "list",
            _ => "get",
        };
        let Resource { plural, group, kind, .. } = place.resource;
        if self.forbidden.contains(&(name, plural)) {
            let message = format!(
                "{plural} is forbidden: User \"system:serviceaccount:the-deployer:watch\" cannot {name} resource \
                 \"{plural}\" in API group \"{group}\" at the cluster scope"
            );
            return status(403, "Forbidden", &message);
        }
        let namespace = place.namespace.clone().unwrap_or_default();
        match (verb, &place.name) {
            (Verb::Watch, _) => self.watch(shared, &place, query),
            (Verb::Log, Some(pod)) => logs::answer(self, shared, &namespace, pod, query),
            (Verb::Get, Some(name)) => match self.get(kind, &namespace, name) {
                Some(object) => axum::Json(object.clone()).into_response(),
                None => missing(plural, name),
            },
            (Verb::List, _) => self.list(&place, query),
            _ => status(405, "MethodNotAllowed", "the server does not allow this method"),
        }
    }

    fn list(&mut self, place: &Place, query: &Query) -> Response {
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let Some((version, mut items)) = self.items(place, query) else {
            let message =
                "The provided continue parameter is too old to display a consistent list result.";
            return status(410, "Expired", message);
        };
        let rest = if items.len() > limit { items.split_off(limit) } else { Vec::new() };
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if !rest.is_empty() {
            let token = self.pages.len() as u64 + self.requests.len() as u64 * 1000;
            metadata["continue"] = json!(token.to_string());
            metadata["remainingItemCount"] = json!(rest.len());
            self.pages.insert(token, Pages { version, items: rest });
        }
        let Resource { kind, .. } = place.resource;
        axum::Json(json!({
            "kind": format!("{kind}List"), "apiVersion": place.resource.api_version(), "metadata": metadata,
            "items": items,
        }))
        .into_response()
    }

    /// The rest of a list that was begun, or all; `None` for a list that is forgotten.
    fn items(&mut self, place: &Place, query: &Query) -> Option<(u64, Vec<Json>)> {
        if let Some(token) = query.get("continue").filter(|token| !token.is_empty()) {
            let Pages { version, items } = self.pages.remove(&token.parse().ok()?)?;
            return Some((version, items));
        }
        let selector = place.selector(query);
        let found = self.objects_of(place.resource.kind).filter(|one| selector.matches(one));
        Some((self.version, found.map(|one| place.resource.item(one)).collect()))
    }

    fn watch(&mut self, shared: &Shared, place: &Place, query: &Query) -> Response {
        let from =
            query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let is_gone = from > 0 && from < self.compacted;
        let message = format!("too old resource version: {from} ({})", self.compacted);
        if is_gone && self.gone_as_status {
            return status(410, "Expired", &message);
        }
        let seconds =
            query.get("timeoutSeconds").and_then(|text| text.parse().ok()).unwrap_or(1800);
        let gone = is_gone
            .then(|| json!({"type": "ERROR", "object": status_object(410, "Expired", &message)}));
        let body = stream::events(
            shared.clone(),
            stream::WatchQuery {
                resource: place.resource.clone(),
                selector: place.selector(query),
                from,
                timeout: Duration::from_secs(seconds),
                bookmarks: query.get("allowWatchBookmarks") == Some("true"),
                gone,
            },
            self,
        );
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }

    /// May the caller do that?
    fn review(&self, body: &Bytes) -> Response {
        let Ok(mut review) = serde_json::from_slice::<Json>(body) else {
            return status(415, "UnsupportedMediaType", "only JSON is read here");
        };
        let asked = &review["spec"]["resourceAttributes"];
        let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
        let (verb, resource) = (text("verb"), text("resource"));
        let is_denied = self.forbidden.iter().any(|(one, of)| *one == verb && *of == resource);
        review["status"] = json!({"allowed": !is_denied});
        (StatusCode::CREATED, axum::Json(review)).into_response()
    }
}

impl Place {
    fn selector(&self, query: &Query) -> Selector {
        let text = |key: &str| query.get(key).unwrap_or_default().to_owned();
        Selector::parse(self.namespace.clone(), &text("labelSelector"), &text("fieldSelector"))
    }
}

impl Resource {
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// An object as lists have it.
    fn item(&self, object: &Json) -> Json {
        let mut item = object.clone();
        if !self.is_custom
            && let Some(item) = item.as_object_mut()
        {
            item.shift_remove("kind");
            item.shift_remove("apiVersion");
        }
        item
    }
}

/// A query, decoded.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(text: &str) -> Self {
        let address = reqwest::Url::parse(&format!("http://x/?{text}")).unwrap();
        Self(
            address
                .query_pairs()
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

fn status_object(code: u16, reason: &str, message: &str) -> Json {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    })
}

pub(super) fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = axum::Json(status_object(code, reason, message));
    (StatusCode::from_u16(code).unwrap(), body).into_response()
}

pub(super) fn missing(plural: &str, name: &str) -> Response {
    status(404, "NotFound", &format!("{plural} \"{name}\" not found"))
}

async fn spoil(answer: Response, fault: Fault) -> Response {
    match fault {
        Fault::Status(code) => status(code, "Failure", "injected"),
        Fault::Text(code, text) => (StatusCode::from_u16(code).unwrap(), text).into_response(),
        Fault::Busy(code, seconds) => {
            let wait = [(header::RETRY_AFTER, seconds.to_string())];
            (StatusCode::from_u16(code).unwrap(), wait, "busy").into_response()
        }
        Fault::Late(code, pause) => {
            tokio::time::sleep(pause).await;
            status(code, "Failure", "injected")
        }
        Fault::Silent => std::future::pending().await,
        Fault::HeadOnly => {
            Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>())
                .into_response()
        }
        Fault::Empty => Body::empty().into_response(),
        Fault::Body(text) => text.into_response(),
        Fault::Slow(pause) => stream::slow(answer, pause),
        Fault::Cut(bytes) => stream::cut(answer, bytes),
    }
}
