//! Medians, percentiles, memory and processor time. Reads Linux's `/proc`.

use std::time::Duration;

/// The value that so many of a hundred do not exceed.
pub fn percentile(times: &[Duration], percent: f64) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    let place = (percent / 100.0 * sorted.len() as f64).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small index")]
    let place = (place as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

pub fn median(times: &[Duration]) -> Duration {
    percentile(times, 50.0)
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The most memory that a process ever had resident, and what it has now, in MiB.
pub fn memory(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        number.unwrap_or(f64::NAN) / 1024.0
    };
    (field("VmHWM:"), field("VmRSS:"))
}

/// Processor seconds of a process and of its children that have ended.
pub fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces; what follows it does not.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    let ticks: f64 = (11..15).filter_map(|n| fields.get(n)?.parse::<f64>().ok()).sum();
    // Linux counts in hundredths of a second for every program.
    ticks / 100.0
}

/// Bytes below a folder.
pub fn size(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Files below a folder.
pub fn count(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => count(&entry.path()),
        _ => 1,
    };
    entries.map(below).sum()
}
