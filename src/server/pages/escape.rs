//! How a text becomes HTML: markup is only itself, and what nobody sees is shown. All templates use it
//! (`askama.toml`).

use std::fmt;

use askama::filters::{Escaper, Html};

use crate::support::text::reveal_invisible;

/// Escapes a text for HTML, with each invisible character as `\u{202e}`: a name must not turn the rest of its line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: fmt::Write>(&self, to: W, text: &str) -> fmt::Result {
        Html.write_escaped_str(to, &reveal_invisible(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_what_nobody_sees_are_only_themselves() {
        let mut html = String::new();
        Visible.write_escaped_str(&mut html, "<b>ops\u{202e}\u{200b}</b> größer 👩‍💻").unwrap();
        assert!(html.contains("ops\\u{202e}\\u{200b}") && html.contains("größer 👩‍💻"), "{html}");
        assert!(!html.contains("<b>"), "{html}");
    }
}
