//! The forms of names and texts in the API's contract: a pattern and a length for each kind, so that a generated client
//! sends what the service accepts. The parsers decide; tests compare both. Pure.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value as Json, json};

/// A pattern (ECMA-262, which JSON Schema uses), and the smallest and the largest number of characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pattern: &'static str,
    least: usize,
    most: usize,
}

macro_rules! label {
    () => {
        "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    };
}

/// The pattern of a label between two dots of a target's name.
macro_rules! part {
    () => {
        "[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
    };
}

/// Invisible characters, those that turn the direction of text, and control characters: the inside of a character
/// class.
macro_rules! hidden {
    () => {
        "\\u0000-\\u001F\\u007F-\\u009F\\u00AD\\u034F\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F\\u200B-\\u200F\
         \\u2028-\\u202E\\u2060-\\u206F\\u3164\\uFEFF\\uFFA0\\uFFF9-\\uFFFB\
         \u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}"
    };
}

impl Form {
    pub(crate) const SLUG: Self = Self { pattern: concat!("^", label!(), "$"), least: 1, most: 63 };
    pub(crate) const NAMESPACE: Self = Self::SLUG;
    pub(crate) const APP: Self =
        Self { pattern: concat!("^", label!(), "/", label!(), "$"), least: 3, most: 127 };
    /// The name of a file under `.weave/` without its ending, or the file at the root.
    pub(crate) const APP_NAME: Self =
        Self { pattern: concat!("^(\\.weave\\.yaml|", label!(), ")$"), least: 1, most: 63 };
    pub(crate) const TARGET: Self =
        Self { pattern: concat!("^", part!(), "(\\.", part!(), ")*$"), least: 1, most: 63 };
    pub(crate) const APP_INSTANCE: Self = Self {
        pattern: concat!("^", part!(), "(\\.", part!(), ")*/", label!(), "/", label!(), "$"),
        least: 5,
        most: 191,
    };
    pub(crate) const DEPLOY_ID: Self =
        Self { pattern: "^[0-9]{8}-[0-9]{9}-[0-9a-f]{6}$", least: 25, most: 25 };
    /// A name of an object in a cluster, RFC 1123.
    pub(crate) const POD: Self =
        Self { pattern: "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", least: 1, most: 253 };
    /// A Secret's name (RFC 1123) and a key in it.
    pub(crate) const SECRET_KEY: Self = Self {
        pattern: "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9._-]{1,253}$",
        least: 3,
        most: 507,
    };
    pub(crate) const ROLLOUT_ID: Self =
        Self { pattern: "^r-[0-9]{8}-[0-9]{9}-[0-9a-f]{6}$", least: 27, most: 27 };
    pub(crate) const LOCK_ID: Self = Self { pattern: "^[0-9a-f]{8}$", least: 8, most: 8 };
    pub(crate) const TAG: Self =
        Self { pattern: "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$", least: 1, most: 128 };
    pub(crate) const COMMIT: Self =
        Self { pattern: "^([0-9a-f]{40}|[0-9a-f]{64})$", least: 40, most: 64 };
    // A name that ends with `.git` is invalid, which no pattern can say in every dialect; so a name with a dot may be
    // refused.
    pub(crate) const REPOSITORY: Self = Self {
        pattern: "^[A-Za-z0-9_-]{1,39}/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,98}[A-Za-z0-9_-]$|^[A-Za-z0-9_-]{1,39}/[A-Za-z0-9_-]$",
        least: 3,
        most: 140,
    };
    pub(crate) const REF: Self =
        Self { pattern: "^[A-Za-z0-9][A-Za-z0-9/_#@=,+-]*$", least: 1, most: 255 };
    /// One line that is not blank.
    pub(crate) const LINE: Self = Self {
        pattern: concat!("^[^", hidden!(), "]*[^", hidden!(), "\\s][^", hidden!(), "]*$"),
        least: 1,
        most: 500,
    };
    pub(crate) const NAME: Self = Self { most: 100, ..Self::LINE };
    pub(crate) const OWNER: Self = Self { most: 254, ..Self::LINE };
    pub(crate) const CHECK: Self = Self { most: 255, ..Self::LINE };
    pub(crate) const ACT: Self = Self { pattern: "^[a-z-]+$", least: 1, most: 40 };
    pub(crate) const KEY: Self = Self { pattern: "^[!-~]+$", least: 1, most: 100 };
    pub(crate) const DURATION: Self =
        Self { pattern: "^[1-9][0-9]{0,3}(m|h|d|w)$", least: 2, most: 5 };
    /// The `next` of a list of builds, at most 1000.
    pub(crate) const PLACE: Self = Self { pattern: "^(1000|[0-9]{1,3})$", least: 1, most: 4 };

    /// Returns the schema of a text of that form.
    pub(crate) fn schema(self) -> Json {
        let Self { pattern, least, most } = self;
        json!({"type": "string", "pattern": pattern, "minLength": least, "maxLength": most})
    }
}

/// Makes types that stand for a form in requests: `#[schemars(with = "Of…")]`.
macro_rules! of_forms {
    ($($name:ident: $form:expr),+ $(,)?) => {
        $(
            pub(crate) struct $name;

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    Schema::try_from($form.schema()).unwrap_or_default()
                }
            }
        )+
    };
}

of_forms! {
    OfApp: Form::APP,
    OfAppName: Form::APP_NAME,
    OfTarget: Form::TARGET,
    OfDeployId: Form::DEPLOY_ID,
    OfTag: Form::TAG,
    OfCommit: Form::COMMIT,
    OfRepository: Form::REPOSITORY,
    OfRef: Form::REF,
    OfReason: Form::LINE,
    OfName: Form::NAME,
    OfSlug: Form::SLUG,
    OfOwner: Form::OWNER,
    OfDuration: Form::DURATION,
    OfPlace: Form::PLACE,
    OfCheck: Form::CHECK,
    OfSecretKey: Form::SECRET_KEY,
}

#[cfg(test)]
pub(crate) mod tests;
