//! A pack of exactly the new objects, as `git receive-pack` accepts it.
//!
//! It is written by hand: every object and its base are known, so that there is nothing to search. Format:
//! `gitformat-pack(5)`.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use flate2::{Compress, Compression, FlushCompress, Status};
use git2::{ObjectType, Odb, Oid, Repository};
use indexmap::IndexMap;
use sha1::{Digest as _, Sha1};

use crate::git::objects::pack_index::{self, SUM};
use crate::git::objects::{NewObject, NewObjectMap};

/// The longest chain of deltas; git itself writes none that is longer.
const DEPTH: usize = 50;

/// The number of objects from which they become one pack and not as many files; git's own number.
const PACKED: usize = 100;

/// The deltas that a pack may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum Deltas {
    /// The pack has deltas to objects that the server has: a thin pack, in git's words.
    Thin,
    /// None: every object is whole, for a server that trips over the others.
    None,
}

/// The load of a push: its objects, and their thin pack, which is sent, and kept when the server accepted it.
pub(in crate::git) struct NewObjects {
    new: NewObjectMap,
    thin: OnceCell<Pack>,
}

impl NewObjects {
    pub(in crate::git) fn of(new: NewObjectMap) -> Self {
        Self { new, thin: OnceCell::new() }
    }

    pub(in crate::git) fn objects(&self) -> &NewObjectMap {
        &self.new
    }

    /// Puts the objects into a clone, once the server has them.
    pub(in crate::git) fn save_to(&self, repo: &Repository) -> Result<(), git2::Error> {
        let odb = repo.odb()?;
        if self.objects().len() < PACKED {
            for object in self.objects().values() {
                odb.write(object.kind, &object.bytes)?;
            }
            return Ok(());
        }
        let full_pack = self.thin_pack().with_bases(&odb)?;
        let objects: Vec<(Oid, usize)> =
            full_pack.written.iter().map(|(id, (at, _))| (*id, *at)).collect();
        let result =
            pack_index::save(&repo.path().join("objects/pack"), &full_pack.bytes, &objects);
        result.map_err(|error| git2::Error::from_str(&format!("a pack was not kept: {error}")))?;
        odb.refresh()
    }

    /// Returns the bytes of the thin pack, built once.
    pub(in crate::git) fn thin(&self) -> &[u8] {
        &self.thin_pack().bytes
    }

    fn thin_pack(&self) -> &Pack {
        self.thin.get_or_init(|| Pack::of(&self.new, Deltas::Thin))
    }

    /// Returns the bytes of a pack of whole objects.
    pub(in crate::git) fn undeltified_bytes(&self) -> Vec<u8> {
        Pack::of(&self.new, Deltas::None).bytes
    }
}

fn header(count: usize) -> Vec<u8> {
    let count = u32::try_from(count).expect("a push has no four billion objects");
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend(count.to_be_bytes());
    bytes
}

/// A pack, and where its objects begin.
struct Pack {
    bytes: Vec<u8>,
    /// The offset of each object, and the length of its chain of deltas; in the order of the bytes.
    written: IndexMap<Oid, (usize, usize)>,
    /// The objects that differences begin with and that are not in it.
    bases: BTreeSet<Oid>,
    /// The compressor of all objects: one takes more memory than most objects.
    compress: Compress,
}

impl Pack {
    fn new(bytes: Vec<u8>, written: IndexMap<Oid, (usize, usize)>) -> Self {
        // Packs are sent over fast lines once, and packed anew by the server later.
        let compress = Compress::new(Compression::fast(), true);
        Self { bytes, written, bases: BTreeSet::new(), compress }
    }

    fn of(new: &NewObjectMap, deltas: Deltas) -> Self {
        let mut pack = Self::new(header(new.len()), IndexMap::new());
        for (id, object) in new {
            pack.add(*id, object, deltas);
        }
        pack.seal();
        pack
    }

    /// Builds the pack with the bases of its deltas: a repository may keep no other.
    fn with_bases(&self, odb: &Odb<'_>) -> Result<Self, git2::Error> {
        let missing_bases = || self.bases.iter().filter(|id| !self.written.contains_key(*id));
        let mut bytes = header(self.written.len() + missing_bases().count());
        let objects = self.bytes.get(bytes.len()..self.bytes.len() - SUM);
        bytes.extend_from_slice(objects.unwrap_or_default());
        let mut pack = Self::new(bytes, self.written.clone());
        for id in missing_bases() {
            let base = odb.read(*id)?;
            pack.add_whole(*id, base.kind(), base.data());
        }
        pack.seal();
        Ok(pack)
    }

    fn seal(&mut self) {
        let sum = Sha1::digest(&self.bytes);
        self.bytes.extend_from_slice(&sum);
    }

    fn add(&mut self, id: Oid, object: &NewObject, deltas: Deltas) {
        let at = self.bytes.len();
        // The base of other deltas must not itself be a delta of one of them.
        let deltas = if self.bases.contains(&id) { Deltas::None } else { deltas };
        match self.difference(object, deltas) {
            Some(depth) => drop(self.written.insert(id, (at, depth))),
            None => self.add_whole(id, object.kind, &object.bytes),
        }
    }

    fn add_whole(&mut self, id: Oid, kind: ObjectType, bytes: &[u8]) {
        let at = self.bytes.len();
        self.entry(number(kind), bytes.len());
        self.deflate(bytes);
        self.written.insert(id, (at, 0));
    }

    /// Writes the object as a difference, if it may be; how many differences lead to it then.
    fn difference(&mut self, object: &NewObject, deltas: Deltas) -> Option<usize> {
        let delta = object.delta.as_ref().filter(|_| deltas == Deltas::Thin)?;
        let depth = match self.written.get(&delta.base).copied() {
            Some((_, depth)) if depth >= DEPTH => return None,
            Some((base, depth)) => {
                let back = self.bytes.len() - base;
                self.entry(OFS_DELTA, delta.bytes.len());
                self.offset(back);
                depth + 1
            }
            None => {
                self.entry(REF_DELTA, delta.bytes.len());
                self.bytes.extend_from_slice(delta.base.as_bytes());
                self.bases.insert(delta.base);
                1
            }
        };
        self.deflate(&delta.bytes);
        Some(depth)
    }

    /// Writes kind and length: four bits of it in the first byte, then seven a byte, the lowest first.
    fn entry(&mut self, kind: u8, length: usize) {
        let mut byte = (kind << 4) | low_bits(length, 4);
        let mut rest = length >> 4;
        while rest > 0 {
            self.bytes.push(byte | 0x80);
            byte = low_bits(rest, 7);
            rest >>= 7;
        }
        self.bytes.push(byte);
    }

    /// Writes how far back the base is: seven bits a byte, the highest first, each next group one
    /// less.
    fn offset(&mut self, mut back: usize) {
        let mut groups = vec![low_bits(back, 7)];
        back >>= 7;
        while back > 0 {
            back -= 1;
            groups.push(low_bits(back, 7) | 0x80);
            back >>= 7;
        }
        self.bytes.extend(groups.iter().rev());
    }

    fn deflate(&mut self, bytes: &[u8]) {
        self.compress.reset();
        let (mut rest, mut status) = (bytes, Status::Ok);
        while status != Status::StreamEnd {
            self.bytes.reserve(rest.len() + 64);
            let before = self.compress.total_in();
            let result = self.compress.compress_vec(rest, &mut self.bytes, FlushCompress::Finish);
            status = result.expect("memory takes what is written to it");
            let consumed = usize::try_from(self.compress.total_in() - before).unwrap_or(rest.len());
            rest = rest.get(consumed..).unwrap_or_default();
        }
    }
}

const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

fn number(kind: ObjectType) -> u8 {
    match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Blob | ObjectType::Any | ObjectType::Tag => 3,
    }
}

fn low_bits(number: usize, bits: u32) -> u8 {
    u8::try_from(number & ((1 << bits) - 1)).expect("at most seven bits are a byte")
}
