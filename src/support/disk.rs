//! Checks by trial whether the disk under a folder is writable, and whether this process may open files.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// The name of the trial file. One that a killed process left is overwritten.
const TRIAL: &str = "the-deployer.trial";

/// The size of the trial file in bytes: more than the blocks that a file system reserves for small files.
const SIZE: usize = 64 << 10;

/// The system's error numbers for too many open files: of a process, and of the machine.
const OPEN_FILES: [i32; 2] = [24, 23];

/// The system's error numbers for a full disk, an exhausted quota, a file that is too large, and a read-only disk.
const NO_ROOM: [i32; 4] = [28, 122, 27, 30];

/// Writes a file into the folder, and removes it.
///
/// # Errors
/// The error of the system.
pub fn try_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(TRIAL);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    let result = options.open(&path).and_then(|mut file| {
        file.write_all(&vec![b'.'; SIZE])?;
        file.flush()
    });
    match (result, std::fs::remove_file(&path)) {
        (Err(error), _) => Err(error),
        // Another process with the same folder removed it first.
        (Ok(()), Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
        (Ok(()), _) => Ok(()),
    }
}

/// Finds the reason why this process cannot write into the folder, after a library failed with these words: by the
/// words, else by a trial. `None` if the machine is not the reason.
pub fn shortage(folder: &Path, words: &str) -> Option<String> {
    if OPEN_FILES.iter().chain(&NO_ROOM).any(|code| words.contains(&text_of(*code))) {
        return Some(words.to_owned());
    }
    match try_write(folder) {
        Ok(()) => None,
        // The folder itself is missing: that is damage, or another path.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        Err(error) => Some(format!("{words}; {error}")),
    }
}

/// Finds the reason why this process cannot read, by the words, else by a trial: too many open files.
pub fn shortage_of_files(folder: &Path, words: &str) -> Option<String> {
    if OPEN_FILES.iter().any(|code| words.contains(&text_of(*code))) {
        return Some(words.to_owned());
    }
    let error = File::open(folder).err()?;
    let code = error.raw_os_error()?;
    OPEN_FILES.contains(&code).then(|| format!("{words}; {error}"))
}

/// Returns the system's message for an error number, as C libraries pass it on.
fn text_of(code: i32) -> String {
    let text = io::Error::from_raw_os_error(code).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Describes what a service is waiting for when the system refuses a file. Has no paths, so that everybody may see it.
pub fn describe_io_error(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "room: the disk is full, or a quota is used up"
        }
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            "the right to write: the disk or the folder is read-only"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => "the folder, which is gone",
        _ if error.raw_os_error().is_some_and(|code| OPEN_FILES.contains(&code)) => {
            "fewer open files: raise the limit of open files"
        }
        _ => "the disk, which refuses writes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_writes_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        try_write(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_librarys_words_are_recognised_and_other_words_are_tried() {
        let folder = tempfile::tempdir().unwrap();
        let full = "failed to write object: No space left on device";
        assert_eq!(shortage(folder.path(), full).as_deref(), Some(full));
        let files = "could not open the pack: Too many open files";
        assert_eq!(shortage_of_files(folder.path(), files).as_deref(), Some(files));
        for words in ["object not found", "could not open the pack: No such file or directory"] {
            assert_eq!(shortage(folder.path(), words), None, "{words}");
            assert_eq!(shortage_of_files(folder.path(), words), None, "{words}");
        }
        assert_eq!(shortage(Path::new("/not/here"), "object not found"), None);
    }

    #[test]
    fn a_folder_that_is_gone_is_named_without_its_path() {
        let error = try_write(Path::new("/not/here")).unwrap_err();
        assert_eq!(describe_io_error(&error), "the folder, which is gone");
    }

    #[test]
    fn what_the_system_says_is_told_apart() {
        let advice_for = |code| describe_io_error(&io::Error::from_raw_os_error(code));
        assert!(
            advice_for(28).starts_with("room")
                && advice_for(122).starts_with("room")
                && advice_for(27).starts_with("room")
        );
        assert!(
            advice_for(30).starts_with("the right")
                && advice_for(24).starts_with("fewer open files")
        );
        assert!(advice_for(5).starts_with("the disk"));
    }
}
