//! The reader of `policies/*.yaml`: a list of policies in a file, or one in each document.

use std::collections::HashMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::id::is_rfc1123_label;
use crate::model::template::TemplateFile;
use crate::model::violation::{Position, Severity, Violation};
use crate::policy::expression::ExpressionError;
use crate::policy::{Policy, expression};
use crate::support::globs::{GlobErrorKind, Globs};
use crate::waml::checked_reader::Reader;
use crate::waml::node::{Node, Path, Value};
use crate::waml::quote::quote;
use crate::waml::yaml::{self, Budget};

const RULE: &str = "policy";

/// The limit of policies: so many cost a few milliseconds for each plan.
const MAX: usize = 200;

/// One policy as its file has it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    /// The name: lower-case letters, digits and `-`.
    name: String,
    /// A CEL expression that is true where all is well.
    expression: String,
    /// The message if it does not hold, in one sentence without a full stop.
    message: String,
    /// Globs over target names; absent: every target.
    #[serde(default)]
    targets: Option<Vec<String>>,
    /// `error`, the default, or `warn`.
    #[serde(default)]
    severity: Option<Weight>,
    /// The help text beside the message.
    #[serde(default)]
    help: Option<String>,
    /// The part of the WAML that it is about: `image`, `scaling.replicas`.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Weight {
    /// The violation stops the deployment.
    Error,
    /// The violation is a warning.
    Warn,
}

static READER: LazyLock<Reader<Written>> = LazyLock::new(Reader::new);

/// Reads the policies of all files.
pub(super) fn read_policies(files: &[TemplateFile]) -> Result<Vec<Policy>, Vec<Violation>> {
    let mut violations = Vec::new();
    let mut policies = Vec::new();
    for file in files {
        if file.path.rsplit_once('.').is_none_or(|(_, end)| end != "yaml") {
            let message = format!("policies/{} is no policy file", file.path);
            violations
                .push(Violation::error(RULE, message).help("policies are policies/<file>.yaml"));
            continue;
        }
        let name = format!("policies/{}", file.path);
        match yaml::parse_stream(&name, &file.text, &Budget::default()) {
            Ok(documents) => {
                for node in documents.into_iter().flat_map(entries) {
                    policies.extend(read_policy(node, &file.text, &mut violations));
                }
            }
            Err(violation) => violations.push(*violation),
        }
    }
    violations.extend(find_duplicates(&policies));
    if policies.len() > MAX {
        let message =
            format!("there are {} policies, more than the limit of {MAX}", policies.len());
        violations.push(Violation::error(RULE, message).help("join those that belong together"));
    }
    if violations.is_empty() { Ok(policies) } else { Err(violations) }
}

/// Lists the policies of one document.
fn entries(document: Node) -> Vec<Node> {
    match document.value {
        Value::Null => Vec::new(),
        Value::List(list) => list,
        Value::Scalar(_) | Value::Map(_) => vec![document],
    }
}

fn read_policy(mut node: Node, text: &str, violations: &mut Vec<Violation>) -> Option<Policy> {
    let before = violations.len();
    let written_policy = READER.read(&mut node, &Path::root(), violations)?;
    if violations.len() > before {
        return None;
    }
    match policy(written_policy, &node, text) {
        Ok(policy) => Some(policy),
        Err(wrong) => {
            violations.extend(wrong);
            None
        }
    }
}

fn policy(written_policy: Written, node: &Node, text: &str) -> Result<Policy, Vec<Violation>> {
    let Written { name, expression, message, targets, severity, help, path } = written_policy;
    let at = |key: &str| node.get(key).unwrap_or(node).origin.position.clone();
    let targets = targets.unwrap_or_default();
    let valid_name = legal_name(&name).map_err(|message| {
        policy_violation(message, "use lower-case letters, digits and `-`", at("name"))
    });
    let matcher = matcher(&targets).map_err(|message| {
        let help = "use `*`, `?`, `[ab]`, `{a,b}` over target names; quote the text";
        policy_violation(message, help, at("targets"))
    });
    let path = part(path.as_deref()).map_err(|message| {
        policy_violation(message, "write it like `image`, `env` or `scaling.replicas`", at("path"))
    });
    let expression = expression::compile(&expression)
        .map_err(|fault| in_expression(fault, &at("expression"), text));
    match (valid_name, matcher, path, expression) {
        (Ok(()), Ok(matcher), Ok(path), Ok(expression)) => Ok(Policy {
            place: at("name").to_string(),
            severity: severity.map_or(Severity::Error, Weight::severity),
            name,
            message,
            help,
            targets,
            matcher,
            path,
            expression,
        }),
        (valid_name, matcher, path, expression) => {
            let results = [valid_name.err(), matcher.err(), path.err(), expression.err()];
            Err(results.into_iter().flatten().collect())
        }
    }
}

impl Weight {
    fn severity(self) -> Severity {
        match self {
            Self::Error => Severity::Error,
            Self::Warn => Severity::Warning,
        }
    }
}

fn legal_name(name: &str) -> Result<(), String> {
    if is_rfc1123_label(name) {
        return Ok(());
    }
    Err(format!("{} is no name for a policy", quote(name)))
}

fn part(path: Option<&str>) -> Result<Option<Path>, String> {
    let Some(text) = path else { return Ok(None) };
    Path::parse(text).map(Some).ok_or_else(|| "this is not a path in a section".to_owned())
}

/// Compiles the globs: every target where there are none.
fn matcher(globs: &[String]) -> Result<Globs, String> {
    if globs.is_empty() {
        return Ok(Globs::default());
    }
    Globs::parse(globs).map_err(|error| match error.kind() {
        GlobErrorKind::Regex(_) => "these are too many patterns".to_owned(),
        kind => format!("{} is not a glob: {kind}", quote(error.glob().unwrap_or_default())),
    })
}

fn find_duplicates(policies: &[Policy]) -> Vec<Violation> {
    let mut places: HashMap<&str, &str> = HashMap::new();
    let mut violations = Vec::new();
    for policy in policies {
        if let Some(first) = places.insert(&policy.name, &policy.place) {
            let message =
                format!("the policy `{}` of {} exists already: {first}", policy.name, policy.place);
            violations
                .push(Violation::error(RULE, message).help("give each policy a name of its own"));
        }
    }
    violations
}

fn policy_violation(message: String, help: &str, place: Position) -> Violation {
    Violation::error(RULE, message).at("", Some(place)).help(help)
}

/// Describes a fault in the expression, at its place in the file.
fn in_expression(fault: ExpressionError, scalar: &Position, text: &str) -> Violation {
    let ExpressionError { message, help, line, column } = fault;
    policy_violation(message, &help, locate_in_scalar(scalar, text, line, column))
}

/// Finds a line and column of a scalar's text as a place in its file: each line of a literal block
/// is one of the file's, with the block's indentation; a text on one line begins behind its quote.
/// A place at which the file has nothing, as in a folded text, becomes the scalar's own.
fn locate_in_scalar(scalar: &Position, text: &str, line: u32, column: u32) -> Position {
    let row = |line: u32| text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
    let start = (scalar.column as usize).saturating_sub(1);
    let quoted = row(scalar.line).chars().nth(start).is_some_and(|c| matches!(c, '"' | '\''));
    let line = scalar.line + line - 1;
    let column = scalar.column + column - 1 + u32::from(quoted);
    let length = u32::try_from(row(line).chars().count()).unwrap_or(u32::MAX);
    if column > length.saturating_add(1) || (quoted && line > scalar.line) {
        return scalar.clone();
    }
    Position { line, column, length: 1, ..scalar.clone() }
}
