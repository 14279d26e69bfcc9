//! Who may call the API, and see the pages.

use schemars::JsonSchema;
use serde::Deserialize;

/// Who may call the API, and see the pages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Tokens for programs, and for people who look at the pages.
    pub tokens: Option<Vec<Token>>,
    /// Who may see the pages: `token`, who has one of the tokens; `open`, everybody who can reach
    /// the listener. Default: `token`.
    pub pages: Option<Pages>,
}

/// Who may see the pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Who gives one of the tokens as the password; everybody, where there are none.
    #[default]
    Token,
    /// Everybody who can reach the listener.
    Open,
}

/// A token for the API: its name, and exactly one of the others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Whose it is, for the log.
    #[schemars(extend("format" = "line"))]
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal: `printf %s TOKEN | sha256sum`.
    #[serde(default)]
    pub sha256: Option<String>,
    /// A file that holds the token.
    #[serde(default)]
    pub file: Option<String>,
    /// An environment variable that holds the token.
    #[serde(default)]
    pub env: Option<String>,
}
