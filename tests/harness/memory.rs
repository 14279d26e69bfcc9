//! Measures memory: of this thread while a function runs, and of another process.
//!
//! [`peak`] asks an allocator that counts for each thread, so tests that run beside each other in one
//! process do not disturb it. The allocator is the crate's, which is why no `unsafe` of ours is needed;
//! it is the allocator of all integration tests, and of nothing else.

/// A mebibyte, in bytes.
pub(crate) const MIB: u64 = 1024 * 1024;

/// Runs the function and says how many bytes it held at once at most, beyond what was held before.
/// Only what this thread allocates counts: let the function start no other, and assert outside of it.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(work()));
    (made.unwrap(), counted.bytes_max)
}

/// The most memory that a running process ever had resident, in bytes.
pub(crate) fn resident_peak(process: u32) -> u64 {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().unwrap();
    kib * 1024
}

#[test]
fn the_peak_counts_what_is_held_at_once_and_by_this_thread_alone() {
    let hold = |n: usize| std::hint::black_box(vec![1_u8; n]);
    let elsewhere = std::thread::spawn(move || (0..64).map(|_| hold(1 << 20).len()).sum::<usize>());
    let ((), one_after_the_other) = peak(|| (0..64).for_each(|_| drop(hold(1 << 20))));
    let (_, together) = peak(|| (0..8).map(|_| hold(1 << 20)).collect::<Vec<_>>());
    assert_eq!(elsewhere.join().unwrap(), 64 << 20);
    assert!((MIB..MIB + 4096).contains(&one_after_the_other), "{one_after_the_other}");
    assert!((8 * MIB..8 * MIB + 4096).contains(&together), "{together}");
}

#[test]
fn the_resident_peak_of_a_process_stays_when_it_has_let_go() {
    drop(std::hint::black_box(vec![1_u8; 64 << 20]));
    assert!(resident_peak(std::process::id()) >= 64 * MIB);
}
