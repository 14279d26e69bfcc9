//! Who a commit says has made it: the person who asked. Pure.
//!
//! A git host finds a person by the e-mail address. GitHub gives each login one that takes no mail,
//! `LOGIN@users.noreply.HOST`; nobody's real address gets into a repository that way.

use crate::git::writer::Identity;

/// A name is longer nowhere; a login has 39 characters.
const LONGEST: usize = 100;

/// The author that an actor is at a git host whose people have addresses at `domain`; `None` where
/// nothing is left of the name that a commit can hold.
pub(super) fn author(actor: &str, domain: &str) -> Option<Identity> {
    let name: String = actor.chars().map(|c| if is_of_a_name(c) { c } else { ' ' }).collect();
    let words: Vec<&str> = name.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(LONGEST).collect();
    // git itself takes these away at both ends, and what is left must not be nothing.
    let name = name.trim_matches([' ', '.', ',', ':', ';', '"', '\\', '\'']).to_owned();
    let mailbox: String = name.chars().map(|c| if is_of_a_mailbox(c) { c } else { '-' }).collect();
    (!name.is_empty()).then(|| Identity { name, email: format!("{mailbox}@{domain}") })
}

/// What ends a name in a commit, and what makes it look like another one, is none.
fn is_of_a_name(c: char) -> bool {
    let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' | '\u{feff}');
    !c.is_control() && !turns && !matches!(c, '<' | '>')
}

/// As in `dependabot[bot]@users.noreply.github.com`.
fn is_of_a_mailbox(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '[' | ']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(actor: &str) -> Option<String> {
        author(actor, "users.noreply.github.com")
            .map(|Identity { name, email }| format!("{name} <{email}>"))
    }

    #[test]
    fn a_login_is_the_author_at_its_hosts_address() {
        for (actor, expected) in [
            ("alice", "alice <alice@users.noreply.github.com>"),
            ("dependabot[bot]", "dependabot[bot] <dependabot[bot]@users.noreply.github.com>"),
            ("Jo  van Dam", "Jo van Dam <Jo-van-Dam@users.noreply.github.com>"),
            ("Æsa", "Æsa <-sa@users.noreply.github.com>"),
        ] {
            assert_eq!(of(actor).as_deref(), Some(expected));
        }
    }

    #[test]
    fn no_actor_can_be_another_persons_address_or_end_the_line() {
        for actor in
            ["eve <root@example.com>\nx", "eve\0", "eve\u{202e}", "\"eve;", "eve>\r\ncommitter x"]
        {
            let text = of(actor).unwrap();
            assert_eq!(text.matches(['<', '>']).count(), 2, "{text}");
            assert!(text.starts_with("eve") && !text.contains(char::is_control), "{text}");
            let Identity { name, email } = author(actor, "localhost").unwrap();
            assert_eq!(email.matches('@').count(), 1, "{text}");
            git2::Signature::new(&name, &email, &git2::Time::new(0, 0)).unwrap();
        }
        let long = author(&"x".repeat(10_000), "localhost").unwrap();
        assert_eq!(long.name.len(), LONGEST);
    }

    #[test]
    fn who_has_no_name_is_no_author() {
        for actor in ["", " ", "<>", "\n", " . ", "\"\""] {
            assert_eq!(of(actor), None, "{actor:?}");
        }
    }
}
