//! The violations of one file, collected up to a limit: a hostile file could have as many violations as it has values,
//! each a hundred times as large as the value.

use crate::model::violation::{Severity, Violation};

/// The limit of collected violations for each severity: more than anybody reads, and a few megabytes at most.
const MAX: usize = 1000;

/// Adds a violation, unless there are as many of its severity as are collected; the last one says so.
pub(crate) fn add(violations: &mut Vec<Violation>, violation: Violation) {
    if violations.len() >= MAX {
        let alike = |other: &&Violation| other.severity == violation.severity;
        match violations.iter().filter(alike).count() {
            ..MAX => {}
            MAX => return violations.push(summarize_rest(violation)),
            _ => return,
        }
    }
    violations.push(violation);
}

/// Makes the violation that replaces the ones beyond the limit.
fn summarize_rest(first: Violation) -> Violation {
    let kind = match first.severity {
        Severity::Error => "violations",
        Severity::Warning => "warnings",
    };
    let message = format!("there are more than {MAX} {kind}; the others are not shown");
    let Violation { rule, severity, path, position, .. } = first;
    let summary = Violation::error("yaml", message).at(path, position);
    Violation { rule, severity, ..summary }.help("correct those that are shown, and validate again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_severity_does_not_crowd_out_the_other() {
        let mut violations = Vec::new();
        for n in 0..3 * MAX {
            add(&mut violations, Violation::warning("a", n.to_string()));
        }
        assert_eq!(violations.len(), MAX + 1);
        let last = violations.last().unwrap();
        assert!(last.message.starts_with("there are more than 1000 warnings"), "{last}");
        assert_eq!(last.severity, Severity::Warning);
        for n in 0..3 * MAX {
            add(&mut violations, Violation::error("a", n.to_string()));
        }
        assert_eq!(violations.len(), 2 * (MAX + 1));
        assert!(
            violations.last().unwrap().message.starts_with("there are more than 1000 violations")
        );
        assert_eq!(violations.last().unwrap().severity, Severity::Error);
    }
}
