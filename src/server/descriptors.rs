//! Raises the limit of open files, and lowers the number of connections to it: each connection is a file.

/// The number of files for the rest of the program: the database, repositories, child processes, outgoing calls.
const OTHERS: u64 = 512;

/// Raises the soft limit of open files to the hard one, and returns the limit that holds then; `None` if the system
/// reports none.
pub fn raise() -> Option<u64> {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => Some(limit),
        Err(error) => {
            tracing::warn!(%error, "limit of open files could not be raised");
            rlimit::Resource::NOFILE.get().ok().map(|(soft, _)| soft)
        }
    }
}

/// Returns the number of connections that the limit leaves room for, at most the wanted one.
pub fn room_for_connections(requested: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return requested };
    // With a very low limit, half of it is better than nothing.
    let room = limit.saturating_sub(OTHERS).max(limit / 2);
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(requested);
    if room < requested {
        tracing::warn!(
            limit,
            wanted = requested,
            room,
            "limits.connections is lowered: the limit of open files is too low"
        );
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let limit = raise().unwrap();
        let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
        assert_eq!((soft, limit), (hard, hard));
    }

    #[test]
    fn files_are_left_for_everything_else() {
        assert_eq!(room_for_connections(2048, Some(65_536)), 2048);
        assert_eq!(room_for_connections(2048, Some(1024)), 512);
        assert_eq!(room_for_connections(2048, Some(100)), 50);
        assert_eq!(room_for_connections(2048, None), 2048);
    }
}
