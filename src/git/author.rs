//! The author of a commit: the person or program that asked for the change. Pure.
//!
//! A git host finds a person by the e-mail address. GitHub gives each login an address without a mailbox,
//! `LOGIN@users.noreply.HOST`, so no real address gets into a repository. Only an account that the code host itself
//! names gets such an address: another name may be a stranger's login there.

use crate::model::event::GHOST;
use crate::support::text::is_invisible;

/// A name is longer nowhere; a login has 39 characters.
const LONGEST: usize = 100;
/// The host of addresses that belong to no person.
const NOWHERE: &str = "localhost";

/// The name and e-mail address of an author or committer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitIdentity {
    /// `the-deployer`
    pub name: String,
    /// `the-deployer@example.com`
    pub email: String,
}

/// The person or program that asked for a change; free text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitAuthor<'a> {
    /// An account that the code host names: the actor of a deployment.
    Login(&'a str),
    /// The name of a token of the service: the person who asked for a removal or a rollback.
    Named(&'a str),
}

/// Returns the author's identity at a code host whose people have addresses at `people`; `None` where the name has no
/// character that a commit can hold, or where the host does not know the account any more.
pub(super) fn author(asker: CommitAuthor<'_>, people: &str) -> Option<CommitIdentity> {
    let (CommitAuthor::Login(actor) | CommitAuthor::Named(actor)) = asker;
    if asker == CommitAuthor::Login(GHOST) {
        return None;
    }
    let name: String = actor.chars().map(|c| if is_of_a_name(c) { c } else { ' ' }).collect();
    let words: Vec<&str> = name.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(LONGEST).collect();
    // git itself takes these away at both ends, and what is left must not be nothing.
    let name = name.trim_matches([' ', '.', ',', ':', ';', '"', '\\', '\'']).to_owned();
    let mailbox: String = name.chars().map(|c| if is_of_a_login(c) { c } else { '-' }).collect();
    // A mailbox that differs from the login may be the login of another person.
    let is_mailbox_login = matches!(asker, CommitAuthor::Login(login) if login == mailbox);
    let domain = if is_mailbox_login { people } else { NOWHERE };
    (!name.is_empty()).then(|| CommitIdentity { name, email: format!("{mailbox}@{domain}") })
}

/// Returns whether a character may be in a name: none that ends it in a commit, or makes it look
/// like another one.
fn is_of_a_name(c: char) -> bool {
    !c.is_control() && !is_invisible(c) && !matches!(c, '<' | '>')
}

/// Checks for a character of a login, as in `dependabot[bot]`. Without `+`, before which GitHub reads an account's
/// number.
fn is_of_a_login(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_author(asker: CommitAuthor<'_>) -> Option<String> {
        author(asker, "users.noreply.github.com")
            .map(|CommitIdentity { name, email }| format!("{name} <{email}>"))
    }

    #[test]
    fn a_login_is_the_author_at_its_hosts_address() {
        for (actor, expected) in [
            ("alice", "alice <alice@users.noreply.github.com>"),
            ("dependabot[bot]", "dependabot[bot] <dependabot[bot]@users.noreply.github.com>"),
        ] {
            assert_eq!(format_author(CommitAuthor::Login(actor)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_name_that_is_no_login_is_no_strangers_address() {
        for (asker, expected) in [
            (CommitAuthor::Named("alice"), "alice <alice@localhost>"),
            (
                CommitAuthor::Named("unknown, on this machine"),
                "unknown, on this machine <unknown--on-this-machine@localhost>",
            ),
            (CommitAuthor::Login("Jo  van Dam"), "Jo van Dam <Jo-van-Dam@localhost>"),
            (CommitAuthor::Login("Æsa"), "Æsa <-sa@localhost>"),
            (CommitAuthor::Login("583231+octocat"), "583231+octocat <583231-octocat@localhost>"),
            (CommitAuthor::Login(".eve"), "eve <eve@localhost>"),
            (CommitAuthor::Named("ghost"), "ghost <ghost@localhost>"),
        ] {
            assert_eq!(format_author(asker).as_deref(), Some(expected));
        }
        assert_eq!(
            format_author(CommitAuthor::Login("ghost")),
            None,
            "GitHub's word for nobody, and an account there"
        );
    }

    #[test]
    fn no_actor_can_be_another_persons_address_or_end_the_line() {
        for actor in
            ["eve <root@example.com>\nx", "eve\0", "eve\u{202e}", "\"eve;", "eve>\r\ncommitter x"]
        {
            for asker in [CommitAuthor::Login(actor), CommitAuthor::Named(actor)] {
                let text = format_author(asker).unwrap();
                assert_eq!(text.matches(['<', '>']).count(), 2, "{text}");
                assert!(text.starts_with("eve") && !text.contains(char::is_control), "{text}");
                let CommitIdentity { name, email } = author(asker, "example.com").unwrap();
                assert!(email.ends_with("@localhost"), "{email}");
                assert_eq!(email.matches('@').count(), 1, "{text}");
                git2::Signature::new(&name, &email, &git2::Time::new(0, 0)).unwrap();
            }
        }
        let long = author(CommitAuthor::Login(&"x".repeat(10_000)), "example.com").unwrap();
        assert_eq!(long.name.len(), LONGEST);
    }

    #[test]
    fn who_has_no_name_is_no_author() {
        for actor in ["", " ", "<>", "\n", " . ", "\"\""] {
            assert_eq!(format_author(CommitAuthor::Login(actor)), None, "{actor:?}");
        }
    }
}
