//! What an error of a database's driver means for the person who runs the service. Pure.

use std::fmt;

/// What ails a database. Its words may be shown to anybody: no names, no paths, no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// There is no room for a write.
    Full,
    /// Another process has the lock that a write needs.
    Locked,
    /// Nothing may be written.
    ReadOnly,
    /// What is read is not what was written.
    Damaged,
    /// The disk does not do what it must.
    Disk,
    /// The file cannot be opened.
    NotOpened,
    /// No connection, or it broke off.
    Unreachable,
    /// A write did not end in time.
    NoAnswer,
    /// Something else; only the log says what.
    Other,
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "room: its disk is full",
            Self::Locked => "its write lock, which another process holds",
            Self::ReadOnly => "the right to write: it is read-only",
            Self::Damaged => "a repair: it is damaged, see the log",
            Self::Disk => "its disk, which fails or has no room",
            Self::NotOpened => "its file, which cannot be opened: it is gone, or too many are open",
            Self::Unreachable => "a connection",
            Self::NoAnswer => {
                "the end of a write: another process may hold its write lock, or it is slow"
            }
            Self::Other => "a write that succeeds, see the log",
        })
    }
}

pub(super) fn ailment(error: &sqlx::Error) -> Ailment {
    match error {
        sqlx::Error::Database(error) => {
            error.code().map_or(Ailment::Other, |code| of_code(code.as_ref()))
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Ailment::Unreachable,
        _ => Ailment::Other,
    }
}

/// PostgreSQL has codes of five characters ("PostgreSQL Error Codes"), SQLite has numbers of at most
/// four digits, whose low byte is the kind ("Result and Error Codes").
fn of_code(code: &str) -> Ailment {
    if code.len() == 5 {
        return match code {
            "53100" => Ailment::Full,
            "55P03" => Ailment::Locked,
            "25006" => Ailment::ReadOnly,
            "XX001" | "XX002" => Ailment::Damaged,
            "58030" => Ailment::Disk,
            "57014" => Ailment::NoAnswer,
            _ if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
                Ailment::Unreachable
            }
            _ => Ailment::Other,
        };
    }
    match code.parse::<u32>().map(|code| code & 0xff) {
        Ok(13) => Ailment::Full,
        Ok(5 | 6) => Ailment::Locked,
        Ok(8) => Ailment::ReadOnly,
        Ok(11 | 26) => Ailment::Damaged,
        Ok(10) => Ailment::Disk,
        Ok(14) => Ailment::NotOpened,
        Ok(_) | Err(_) => Ailment::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_databases_are_told_apart() {
        for (code, means) in [
            ("13", Ailment::Full),
            ("5", Ailment::Locked),
            ("517", Ailment::Locked),
            ("1032", Ailment::ReadOnly),
            ("11", Ailment::Damaged),
            ("26", Ailment::Damaged),
            ("778", Ailment::Disk),
            ("14", Ailment::NotOpened),
            ("2067", Ailment::Other),
            ("53100", Ailment::Full),
            ("55P03", Ailment::Locked),
            ("XX001", Ailment::Damaged),
            ("57P01", Ailment::Unreachable),
            ("23505", Ailment::Other),
            ("", Ailment::Other),
        ] {
            assert_eq!(of_code(code), means, "{code}");
        }
    }
}
