//! The writer of a pack into a clone, with the index of its objects.
//!
//! The writer of the pack knows the index already; libgit2 would inflate and hash every object to compute it. Format:
//! the second version of `gitformat-pack(5)`.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;

use flate2::Crc;
use git2::Oid;
use sha1::{Digest as _, Sha1};

/// The length of the checksum at the end of a pack.
pub(in crate::git) const SUM: usize = 20;

/// Saves a pack that has the bases of all its deltas; `objects` has the offset of each, in the order of the bytes. No
/// reader sees a part of it: the index comes last, and each file gets its name when it is whole.
pub(in crate::git) fn save(folder: &Path, pack: &[u8], objects: &[(Oid, usize)]) -> Result<()> {
    let index = build_index(pack, objects).ok_or_else(|| Error::other("a pack of over 2 GiB"))?;
    fs::create_dir_all(folder)?;
    let sum = hex::encode(pack.get(pack.len() - SUM..).unwrap_or_default());
    let is_kept = folder.join(format!("pack-{sum}.idx")).exists();
    let result = save_files(folder, &sum, pack, &index);
    if result.is_err() && !is_kept {
        // The disk may be full: the next try needs the room.
        for unfinished in
            [format!("tmp_pack_{sum}"), format!("tmp_idx_{sum}"), format!("pack-{sum}.pack")]
        {
            let _best_effort = fs::remove_file(folder.join(unfinished));
        }
    }
    result
}

/// Gives both files their names once both are whole; a pack without an index is not seen.
fn save_files(folder: &Path, sum: &str, pack: &[u8], index: &[u8]) -> Result<()> {
    let files = [("pack", pack), ("idx", index)];
    // As git names files that it has not finished: `git gc` clears up what a crash left.
    for (kind, bytes) in files {
        fs::write(folder.join(format!("tmp_{kind}_{sum}")), bytes)?;
    }
    for (kind, _) in files {
        let unfinished = folder.join(format!("tmp_{kind}_{sum}"));
        fs::rename(unfinished, folder.join(format!("pack-{sum}.{kind}")))?;
    }
    Ok(())
}

/// Builds the index's bytes; `None` where a pack is too large for the short form.
fn build_index(pack: &[u8], objects: &[(Oid, usize)]) -> Option<Vec<u8>> {
    let objects_end = pack.len() - SUM;
    let ends = objects.iter().skip(1).map(|(_, at)| *at).chain([objects_end]);
    let mut entries = Vec::with_capacity(objects.len());
    for ((id, at), end) in objects.iter().zip(ends) {
        let mut crc = Crc::new();
        crc.update(pack.get(*at..end)?);
        let at = u32::try_from(*at).ok().filter(|at| *at < 1 << 31)?;
        entries.push((id, crc.sum(), at));
    }
    entries.sort_unstable_by_key(|(id, ..)| *id);
    let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=u8::MAX {
        // The number of ids that begin with this byte or a lower one.
        let count = entries.partition_point(|(id, ..)| id.as_bytes().first() <= Some(&first));
        bytes.extend(u32::try_from(count).ok()?.to_be_bytes());
    }
    bytes.extend(entries.iter().flat_map(|(id, ..)| id.as_bytes()));
    bytes.extend(entries.iter().flat_map(|(_, crc, _)| crc.to_be_bytes()));
    bytes.extend(entries.iter().flat_map(|(.., at)| at.to_be_bytes()));
    bytes.extend_from_slice(pack.get(objects_end..)?);
    let sum = Sha1::digest(&bytes);
    bytes.extend_from_slice(&sum);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use git2::{ObjectType, Oid, Repository};

    use crate::git::objects::pack::NewObjects;
    use crate::git::objects::{Delta, NewObject, NewObjectMap};

    fn object(kind: ObjectType, bytes: Vec<u8>, delta: Option<Delta>) -> (Oid, NewObject) {
        (Oid::hash_object(kind, &bytes).unwrap(), NewObject { kind, bytes, delta })
    }

    fn files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(folder.join("objects/pack")).unwrap();
        let read_entry = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        };
        let mut files: Vec<_> = entries.map(read_entry).collect();
        files.sort_unstable();
        files
    }

    /// A folder of so many files, whose ids are their numbers.
    fn folder(files: u8) -> Vec<u8> {
        let entry = |n: u8| [format!("100644 {n:03}\0").into_bytes(), vec![n; 20]].concat();
        (0..files).flat_map(entry).collect()
    }

    #[test]
    fn a_kept_pack_has_the_index_that_libgit2_makes() {
        let (own_folder, other_folder) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let repo = Repository::init_bare(own_folder.path()).unwrap();
        let base = repo.odb().unwrap().write(ObjectType::Tree, &folder(20)).unwrap();
        let mut new: NewObjectMap = (0..120)
            .map(|n| object(ObjectType::Blob, format!("{n}\n").repeat(n).into(), None))
            .collect();
        // On what the server has, and on what it gets before it.
        let mut base = base;
        for n in 21..30 {
            let bytes =
                crate::git::objects::delta::compute_delta(&folder(n - 1), &folder(n)).unwrap();
            let (id, tree) = object(ObjectType::Tree, folder(n), Some(Delta { base, bytes }));
            new.insert(id, tree);
            base = id;
        }
        let load = NewObjects::of(new);
        load.save_to(&repo).unwrap();

        let own_files = files(own_folder.path());
        let names: Vec<_> =
            own_files.iter().map(|(name, _)| name.rsplit('.').next().unwrap()).collect();
        assert_eq!(names, ["idx", "pack"]);
        let other_repo = Repository::init_bare(other_folder.path()).unwrap();
        let odb = other_repo.odb().unwrap();
        let mut writer = odb.packwriter().unwrap();
        writer.write_all(&own_files[1].1).unwrap();
        writer.commit().unwrap();
        assert_eq!(
            files(other_folder.path()).iter().filter(|file| own_files.contains(file)).count(),
            2
        );
        let reopened = Repository::open_bare(own_folder.path()).unwrap();
        for (id, object) in load.objects() {
            assert_eq!(reopened.odb().unwrap().read(*id).unwrap().data(), object.bytes, "{id}");
        }
    }
}
