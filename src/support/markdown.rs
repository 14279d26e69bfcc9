//! Foreign text in Markdown that cannot break out of its place. Pure.

use crate::support::text::reveal_invisible;

/// Escapes a foreign text in running Markdown: no markup, no HTML, no line of its own, no mention.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in reveal_invisible(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A zero-width character after it: the reader sees it, and no mention or issue is made of it.
            '@' | '#' => out.extend([c, '\u{200b}']),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '$' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Writes a message in running Markdown: a text in backticks is code, the rest is text. A quoted value may have
/// backticks too; both kinds are harmless, however the pairs fall.
pub fn message(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut out = String::new();
    for (n, part) in parts.iter().enumerate() {
        let quoted = n % 2 == 1 && n + 1 < parts.len() && !part.trim().is_empty();
        if quoted && out.ends_with('`') {
            out.push(' ');
        }
        out.push_str(&if quoted { code(part) } else { escape(part) });
    }
    out
}

/// Escapes a foreign text in HTML within Markdown.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in reveal_invisible(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Writes a name in a code span, also within a table.
pub fn code(text: &str) -> String {
    let plain = |c: char| if c.is_control() || matches!(c, '`' | '|') { ' ' } else { c };
    let text: String = reveal_invisible(text).chars().map(plain).collect();
    format!("`{}`", text.trim())
}

/// Writes a block that shows the text as it is, with invisible characters; its fence is longer than any in the text.
pub fn fence(language: &str, text: &str) -> String {
    let text = reveal_invisible(text);
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// Writes `1 target`, `2 targets`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fence_in_a_text_ends_its_block() {
        for text in ["a", "```", "a\n````diff\nb", "`````", "</details>\n~~~\n```"] {
            let block = fence("diff", text);
            let fence: String = block.chars().take_while(|c| *c == '`').collect();
            assert!(!text.contains(&fence), "{block}");
            assert!(block.ends_with(&format!("\n{fence}\n")), "{block}");
        }
    }

    #[test]
    fn a_foreign_text_is_no_markup() {
        let text = "<img src=x> **a** [x](http://y) `c` @acme/all #1 a|b\nnext\u{1b}[0m";
        let markup_free = escape(text);
        for markup in ["<img", "**", "[x]", "@acme", "#1", "a|b"] {
            assert!(
                !markup_free.replace('\\', "\u{0}").contains(markup),
                "{markup} in {markup_free}"
            );
        }
        assert!(!markup_free.contains('\n') && !markup_free.contains('\u{1b}'));
        assert_eq!(code("a`b|c"), "`a b c`");
        let text_with_override = "a\u{202e}b";
        assert_eq!(
            [code(text_with_override), html(text_with_override)],
            [r"`a\u{202e}b`", r"a\u{202e}b"]
        );
        assert!(
            escape(text_with_override).contains(r"\\u{202e}")
                && fence("", text_with_override).contains(r"a\u{202e}b")
        );
        assert_eq!(html("<b>&"), "&lt;b&gt;&amp;");
    }

    #[test]
    fn what_a_message_quotes_is_code_and_nothing_breaks_out_of_it() {
        assert_eq!(message("`a[0]` has no key `b`: *no*"), "`a[0]` has no key `b`: \\*no\\*");
        assert_eq!(message("``x`` `"), "x ");
        assert_eq!(message("`a``<b>`"), "`a` `<b>`");
        assert_eq!(message("one ` <b>"), "one  &lt;b&gt;");
    }
}
