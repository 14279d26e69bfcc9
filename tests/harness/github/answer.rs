//! The answers of the fake GitHub.

use serde_json::{Value as Json, json};

/// An answer: status, headers, body.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// An answer, or a refusal; both go out alike.
pub(super) type Answered = Result<Answer, Answer>;

impl Answer {
    pub(super) fn json(status: u16, body: &Json) -> Self {
        let content_type = ("content-type", "application/json; charset=utf-8".to_owned());
        Self { status, headers: vec![content_type], body: body.to_string().into_bytes() }
    }

    pub(super) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// A refusal as GitHub words it.
    pub(super) fn refusal(status: u16, message: &str) -> Self {
        let about = "https://docs.github.com/rest";
        let status_text = status.to_string();
        let body = json!({"message": message, "documentation_url": about, "status": status_text});
        Self::json(status, &body)
    }

    pub(super) fn not_found() -> Self {
        Self::refusal(404, "Not Found")
    }

    /// 422 for one field.
    pub(super) fn invalid(resource: &str, field: &str, message: &str) -> Self {
        let error =
            json!({"resource": resource, "code": "custom", "field": field, "message": message});
        let about = "https://docs.github.com/rest";
        let body = json!({
            "message": "Validation Failed", "errors": [error], "documentation_url": about,
            "status": "422",
        });
        Self::json(422, &body)
    }

    #[expect(clippy::needless_pass_by_value, reason = "a text or a number, as it comes")]
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the end of every route that goes well")]
pub(super) fn ok(body: &Json) -> Answered {
    Ok(Answer::json(200, body))
}

#[expect(clippy::unnecessary_wraps, reason = "the end of every route that goes well")]
pub(super) fn created(body: &Json) -> Answered {
    Ok(Answer::json(201, body))
}
