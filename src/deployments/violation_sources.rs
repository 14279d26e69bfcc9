//! The lines of the WAML that violations are about, as people read them on a page: few, cut, and without secrets.

use std::time::Duration;

use crate::deployments::Deployments;
use crate::deployments::app_files::WamlText;
use crate::model::deployment::Deployment;
use crate::model::violation::Violation;
use crate::support::secret_mask::ValueMask;
use crate::support::text::{reveal_invisible, truncate_chars, with_line_feeds};

/// The most lines of a deployment: each takes a search through the whole file.
const MAX_LINES: usize = 20;
/// The most characters of a line on each side of the place, and of the place itself.
const MAX_PART: usize = 100;
/// The longest wait for the code host, because a page is complete without.
const SOURCE_WAIT: Duration = Duration::from_secs(1);
/// The rule about secrets, whose lines are shown to nobody.
const SECRETS_RULE: &str = "plaintext";

/// A line of a WAML, and the place in it that a violation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The number of the line, from 1.
    pub number: u32,
    /// The line before the place; the end of it, if it is long.
    pub before: String,
    /// The place.
    pub place: String,
    /// The line after the place; the beginning of it, if it is long.
    pub after: String,
}

impl Deployments {
    /// Returns of each violation of a deployment that has ended the line of its WAML; `None` where there is none to show.
    pub(crate) async fn violation_sources(&self, record: &Deployment) -> Vec<Option<SourceLine>> {
        let violations = &record.violations;
        let release = &record.request.release;
        let path = self.waml_path(release.app.as_ref());
        let is_of_waml = |violation: &Violation| {
            violation.position.as_ref().is_some_and(|place| *place.file == *path)
        };
        if !record.state.is_final() || !violations.iter().any(is_of_waml) {
            return Vec::new();
        }
        let violations: Vec<Violation> = violations.to_vec();
        let reading = async {
            let WamlText { path, bytes, .. } = self.read_release_waml(release).await.ok()?;
            let find = move || find_lines(&String::from_utf8_lossy(&bytes), &violations, &path);
            self.cpu_pool.run_blocking(find).await.ok()
        };
        let lines = tokio::time::timeout(SOURCE_WAIT, reading).await;
        lines.ok().flatten().unwrap_or_default()
    }
}

/// Finds the line of each violation in that file.
fn find_lines(text: &str, violations: &[Violation], path: &str) -> Vec<Option<SourceLine>> {
    // Positions do not count a byte order mark.
    let text = with_line_feeds(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mask = ValueMask::new(&text);
    let mut count = 0;
    let line = |violation: &Violation| {
        let place = violation.position.as_ref().filter(|place| *place.file == *path)?;
        if violation.rule == SECRETS_RULE || count == MAX_LINES {
            return None;
        }
        count += 1;
        let text = mask.mask(&place.range_in(mask.text()));
        let range = place.range_in(&text);
        let begin = text.get(..range.start)?.rfind('\n').map_or(0, |at| at + 1);
        let end = text.get(range.end..)?.find('\n').map_or(text.len(), |at| range.end + at);
        let before: Vec<char> = text.get(begin..range.start)?.chars().collect();
        let before = before.get(before.len().saturating_sub(MAX_PART)..)?;
        Some(SourceLine {
            number: place.line,
            before: make_visible(&before.iter().collect::<String>()),
            place: make_visible(text.get(range.clone())?),
            after: make_visible(text.get(range.end..end)?.trim_end_matches('\r')),
        })
    };
    violations.iter().map(line).collect()
}

/// Makes a part of a hostile line fit for a page, and cuts it.
fn make_visible(part: &str) -> String {
    let text = reveal_invisible(part);
    let plain = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    truncate_chars(&text.chars().map(plain).collect::<String>(), MAX_PART).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::violation::Position;

    fn violation(rule: &'static str, line: u32, column: u32, length: u32) -> Violation {
        let file: Arc<str> = ".weave.yaml".into();
        let position = Some(Position { file, line, column, length });
        Violation { position, ..Violation::error(rule, "it is wrong") }
    }

    fn lines(text: &str, violations: &[Violation]) -> Vec<Option<String>> {
        let lines = find_lines(text, violations, ".weave.yaml").into_iter();
        let text = |SourceLine { number, before, place, after }: SourceLine| {
            format!("{number} {before}[{place}]{after}")
        };
        lines.map(|line| line.map(text)).collect()
    }

    #[test]
    fn the_line_is_shown_with_the_place_and_without_secrets() {
        let text =
            "\u{feff}slug: shop\r\nenv:\n- name: PASSWORD\n  value: hunter2\nport: 80 # why\n";
        let list = [
            violation("ports", 5, 7, 2),
            violation("env", 4, 10, 7),
            violation("plaintext", 4, 10, 7),
            violation("ports", 1, 1, 400),
            violation("ports", 99, 1, 1),
        ];
        let shown = lines(text, &list);
        assert_eq!(shown[0].as_deref(), Some("5 port: [80] # why"));
        assert!(!shown[1].as_ref().unwrap().contains("hunter2"), "{shown:?}");
        assert_eq!(shown[2], None);
        assert_eq!(shown[3].as_deref(), Some("1 [slug: shop]"));
        assert_eq!(shown[4].as_deref(), Some("99 []"));
        let elsewhere = Position { file: "defaults.yaml".into(), line: 1, column: 1, length: 1 };
        let elsewhere = Violation { position: Some(elsewhere), ..violation("ports", 1, 1, 1) };
        let nowhere = Violation::error("ports", "it is wrong");
        assert_eq!(lines(text, &[elsewhere, nowhere]), [None, None]);
    }

    #[test]
    fn long_lines_and_long_lists_are_cut() {
        let text = format!("{}80{}", "a ".repeat(2_500), " b".repeat(2_500));
        let list = vec![violation("ports", 1, 5_001, 2); MAX_LINES + 1];
        let shown = lines(&text, &list);
        let line = shown[0].as_ref().unwrap();
        assert!(line.contains("a [80] b") && line.chars().count() < 3 * MAX_PART, "{line}");
        assert_eq!(shown.iter().filter(|line| line.is_some()).count(), MAX_LINES);
    }
}
