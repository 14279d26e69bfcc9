//! Gates as a WAML writes them become gates of a plan; each fault has its key, so that it is reported at its place.

use jiff::{SignedDuration, Timestamp};

use crate::model::id::{RepoName, TeamName};
use crate::model::window::{Opening, Weekly, at};
use crate::pipeline::rollout_plan::targets::parse_regex;
use crate::rollout::plan::{Bound, Gate, RolloutStep};
use crate::support::secret_mask::mask_secrets;
use crate::support::secret_text::has_credentials;
use crate::support::time_text;
use crate::templates::promql;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::rollouts::{GateDefinition, HttpGate, NoAlertGate, PromQlGate};

/// The longest time of a rollout's parts: a rollout that waits longer meets the next releases.
pub const MAX_WAIT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The time after which a gate that asks something has failed, where the WAML says none.
pub const GATE_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// The most matchers of one gate, and the most windows.
pub const MAX_PARTS: usize = 20;
/// The longest matcher, in bytes.
const MAX_MATCHER: usize = 512;

/// A fault of a rollout, at a path below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFault {
    /// The path.
    pub path: Path,
    /// The fault.
    pub message: String,
    /// The fault in a few words, for the line of the file.
    pub expected: &'static str,
    /// What to do.
    pub help: String,
    /// True if the rollout can be carried out all the same.
    pub is_warning: bool,
}

impl DefinitionFault {
    /// Makes a fault that stops the rollout.
    pub fn new(
        path: Path,
        message: impl Into<String>,
        expected: &'static str,
        help: impl Into<String>,
    ) -> Self {
        Self { path, message: message.into(), expected, help: help.into(), is_warning: false }
    }
}

/// Compiles one gate at a path below its rollout; `None` where it has a fault, which is added.
pub fn compile_gate(
    gate: &GateDefinition,
    path: &Path,
    repository: &RepoName,
    faults: &mut Vec<DefinitionFault>,
) -> Option<RolloutStep> {
    let mut compiler = GateCompiler { path, repository, faults };
    let GateDefinition { bake, approval, http, promql, no_alert, calendar } = gate;
    let default = Some(GATE_TIMEOUT);
    if let Some(length) = bake {
        let length = parse_wait(length, path.key("bake"), compiler.faults)?;
        return Some(RolloutStep::Gate { gate: Gate::Bake { length }, timeout: None });
    }
    if let Some(approval) = approval {
        let timeout = compiler.timeout("approval", approval.timeout.as_deref(), None);
        let team = match &approval.team {
            Some(team) => Some(compiler.team(team)?),
            None => None,
        };
        return Some(RolloutStep::Gate { gate: Gate::Approval { team }, timeout: timeout? });
    }
    if let Some(http) = http {
        let timeout = compiler.timeout("http", http.timeout.as_deref(), default);
        return Some(RolloutStep::Gate { gate: compiler.http(http)?, timeout: timeout? });
    }
    if let Some(promql) = promql {
        let timeout = compiler.timeout("promql", promql.timeout.as_deref(), default);
        return Some(RolloutStep::Gate { gate: compiler.promql(promql)?, timeout: timeout? });
    }
    if let Some(no_alert) = no_alert {
        let timeout = compiler.timeout("no_alert", no_alert.timeout.as_deref(), default);
        return Some(RolloutStep::Gate { gate: compiler.no_alert(no_alert)?, timeout: timeout? });
    }
    let windows = calendar.as_deref()?;
    let gate = compiler.calendar(windows)?;
    Some(RolloutStep::Gate { gate, timeout: None })
}

/// Lists the gates that one definition has, by their keys.
pub fn gate_keys(gate: &GateDefinition) -> Vec<&'static str> {
    let GateDefinition { bake, approval, http, promql, no_alert, calendar } = gate;
    let keys = [
        ("bake", bake.is_some()),
        ("approval", approval.is_some()),
        ("http", http.is_some()),
        ("promql", promql.is_some()),
        ("no_alert", no_alert.is_some()),
        ("calendar", calendar.is_some()),
    ];
    keys.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect()
}

/// Parses a time that a rollout waits.
pub fn parse_wait(
    text: &str,
    path: Path,
    faults: &mut Vec<DefinitionFault>,
) -> Option<SignedDuration> {
    let is_plain = |b: u8| b.is_ascii_digit() || matches!(b, b's' | b'm' | b'h' | b'd' | b'w');
    let length = text.bytes().all(is_plain).then(|| time_text::duration(text)).flatten();
    let (message, expected) = match length {
        None => (format!("{} is not a time", quote(text)), "not a time"),
        Some(length) if !length.is_positive() => {
            (format!("{} is no time", quote(text)), "too short")
        }
        Some(length) if length > MAX_WAIT => {
            (format!("a rollout waits 30 days at most, and not {}", quote(text)), "too long")
        }
        Some(length) => return Some(length),
    };
    let help = "write it like `90s`, `10m`, `2h` or `1d`";
    faults.push(DefinitionFault::new(path, message, expected, help));
    None
}

struct GateCompiler<'a> {
    path: &'a Path,
    repository: &'a RepoName,
    faults: &'a mut Vec<DefinitionFault>,
}

impl GateCompiler<'_> {
    fn fault(&mut self, path: Path, message: String, expected: &'static str, help: &str) {
        self.faults.push(DefinitionFault::new(path, message, expected, help));
    }

    /// Parses a timeout: `None` where it is wrong, else what counts.
    #[allow(
        clippy::option_option,
        reason = "a gate may have no timeout, and a wrong one is a fault"
    )]
    fn timeout(
        &mut self,
        gate: &str,
        text: Option<&str>,
        default: Option<SignedDuration>,
    ) -> Option<Option<SignedDuration>> {
        match text {
            None => Some(default),
            Some(text) => {
                parse_wait(text, self.path.key(gate).key("timeout"), self.faults).map(Some)
            }
        }
    }

    /// Parses a team; one without an organization is of the repository's.
    fn team(&mut self, team: &str) -> Option<TeamName> {
        let owner = self.repository.owner();
        let whole = if team.contains('/') { team.to_owned() } else { format!("{owner}/{team}") };
        let parsed = TeamName::parse(whole).ok();
        if parsed.is_none() {
            let message = format!("{} is not a team", quote(team));
            let help = "write `ORGANIZATION/TEAM`, or the team's name where the organization has the repository";
            self.fault(self.path.key("approval").key("team"), message, "not a team", help);
        }
        parsed
    }

    fn http(&mut self, http: &HttpGate) -> Option<Gate> {
        let url = http.url.clone();
        if has_credentials(&url) || mask_secrets(&url) != url {
            let message =
                "the address has a user name, a password or a token in it, which logs would show";
            let help = "remove it: the service asks without credentials";
            let path = self.path.key("http").key("url");
            self.fault(path, message.to_owned(), "has a secret", help);
            return None;
        }
        Some(Gate::Http { url })
    }

    fn promql(&mut self, promql: &PromQlGate) -> Option<Gate> {
        let PromQlGate { query, at_most, at_least, timeout: _ } = promql;
        let path = self.path.key("promql");
        let bound = match (at_most, at_least) {
            (Some(value), None) => self.number(value, "at_most").map(Bound::AtMost),
            (None, Some(value)) => self.number(value, "at_least").map(Bound::AtLeast),
            (None, None) => {
                let message = "the query has no bound".to_owned();
                let help = "add `at_most: \"0.01\"` or `at_least: \"0.99\"`";
                self.fault(path.clone(), message, "needs a bound", help);
                None
            }
            (Some(_), Some(_)) => {
                let message = "the query has two bounds".to_owned();
                let help = "keep `at_most` or `at_least`, and make two gates where both count";
                self.fault(path.key("at_least"), message, "a second bound", help);
                None
            }
        };
        if let Err(problem) = promql::check(query) {
            let message = format!("the query cannot be evaluated: {problem}");
            let help =
                "write PromQL that gives one value: `sum(rate(errors_total{app=\"my-app\"}[5m]))`";
            self.fault(path.key("query"), message, "not a query", help);
            return None;
        }
        if promql::has_condition(query) {
            let message = "the query gives nothing while its condition does not hold, and then the gate does not pass";
            let help = "leave the comparison to `at_most` or `at_least`, or add `or vector(0)`";
            let fault =
                DefinitionFault::new(path.key("query"), message, "compares by itself", help);
            self.faults.push(DefinitionFault { is_warning: true, ..fault });
        }
        Some(Gate::PromQl { query: query.clone(), bound: bound? })
    }

    fn number(&mut self, text: &str, key: &str) -> Option<String> {
        let is_number = text.parse::<f64>().is_ok_and(f64::is_finite) && text.len() <= 40;
        if !is_number {
            let message = format!("{} is not a number", quote(text));
            let path = self.path.key("promql").key(key);
            self.fault(path, message, "not a number", "write it like `0.01`");
        }
        is_number.then(|| text.to_owned())
    }

    fn no_alert(&mut self, no_alert: &NoAlertGate) -> Option<Gate> {
        let path = self.path.key("no_alert").key("matchers");
        let matchers = &no_alert.matchers;
        let help = "name the alerts that matter: `severity=\"critical\"`";
        if matchers.is_empty() {
            let message = "the gate is about no alert in particular, and some alert always fires";
            self.fault(path, message.to_owned(), "needs a matcher", help);
            return None;
        }
        if matchers.len() > MAX_PARTS {
            let message = format!("the gate has more than {MAX_PARTS} matchers");
            self.fault(path, message, "too many", "write one with a regular expression");
            return None;
        }
        let before = self.faults.len();
        for (index, matcher) in matchers.iter().enumerate() {
            if let Err(problem) = check_matcher(matcher) {
                let message = format!("{} is not a matcher: {problem}", quote(matcher));
                let help =
                    "write it as Alertmanager does: `severity=\"critical\"`, `team=~\"web|shop\"`";
                self.fault(path.index(index), message, "not a matcher", help);
            }
        }
        (self.faults.len() == before).then(|| Gate::NoAlert { matchers: matchers.clone() })
    }

    fn calendar(&mut self, windows: &[crate::model::lock::Window]) -> Option<Gate> {
        let path = self.path.key("calendar");
        if windows.is_empty() || windows.len() > MAX_PARTS {
            let message = format!("a calendar has 1 to {MAX_PARTS} windows");
            let help = "write `[{days: mon-fri, from: \"09:00\", to: \"17:00\"}]`";
            self.fault(path, message, "needs a window", help);
            return None;
        }
        let mut weekly = Vec::new();
        for (index, window) in windows.iter().enumerate() {
            match Weekly::parse(window) {
                Ok(window) => weekly.push(window),
                Err(error) => {
                    let at = path.index(index).key(error.key);
                    self.fault(at, error.message, "not a window", error.help);
                }
            }
        }
        if weekly.len() < windows.len() {
            return None;
        }
        if matches!(at(&weekly, Timestamp::UNIX_EPOCH), Opening::Closed { next: None, .. }) {
            let message = "the calendar never opens".to_owned();
            let help = "let a window be open at a time that no closed one covers";
            self.fault(path, message, "never opens", help);
            return None;
        }
        Some(Gate::Calendar { windows: windows.to_vec() })
    }
}

/// Checks a matcher of Alertmanager: a label, `=`, `!=`, `=~` or `!~`, and a text in quotes.
fn check_matcher(text: &str) -> Result<(), String> {
    if text.len() > MAX_MATCHER {
        return Err(format!("it has more than {MAX_MATCHER} bytes"));
    }
    let end = text.find(['=', '!']).ok_or("it has no `=`")?;
    let (name, rest) = text.split_at(end);
    let name = name.trim();
    let is_label = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_label {
        return Err(format!("{} is no label", quote(name)));
    }
    let operator = ["=~", "!~", "!=", "="].into_iter().find(|one| rest.starts_with(one));
    let operator = operator.ok_or("a `=` or `~` belongs behind its `!`")?;
    let value = rest.trim_start_matches(operator).trim();
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.filter(|inner| is_whole(inner)).ok_or("its value stands in no `\"`")?;
    if operator.ends_with('~') {
        let pattern = inner.replace("\\\"", "\"").replace("\\\\", "\\");
        parse_regex(&pattern).map_err(|problem| format!("its regular expression: {problem}"))?;
    }
    Ok(())
}

/// Checks that no quote ends the text before its end.
fn is_whole(inner: &str) -> bool {
    let mut is_escaped = false;
    for c in inner.chars() {
        if c == '"' && !is_escaped {
            return false;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    !is_escaped
}
