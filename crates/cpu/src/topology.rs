//! What the operating system says about cores and memory.

use std::collections::BTreeSet;
use std::fs;

/// Physical cores among the processors this process may run on, at least 1.
pub(crate) fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    match linux_cores() {
        Some(cores) if cores > 0 => cores.min(allowed),
        _ => allowed,
    }
}

/// Distinct `(package, core)` pairs of the processors in this process's affinity mask.
fn linux_cores() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = BTreeSet::new();
    for cpu in parse_cpu_list(list.trim())? {
        let read = |file: &str| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}")).ok()
        };
        cores.insert((read("physical_package_id")?, read("core_id")?));
    }
    Some(cores.len())
}

/// Processors of a kernel list such as `0-3,8`.
fn parse_cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// Bytes that can be allocated without swapping; `None` where the system does not say.
pub(crate) fn available_memory() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("7"), Some(vec![7]));
        assert_eq!(parse_cpu_list("x"), None);
    }

    #[test]
    fn available_memory_is_in_bytes() {
        let text = "MemTotal: 10 kB\nMemAvailable:    123 kB\n";
        assert_eq!(parse_available(text), Some(123 * 1024));
        assert_eq!(parse_available("MemTotal: 10 kB\n"), None);
    }

    #[test]
    fn at_least_one_core() {
        assert!(physical_cores() >= 1);
    }
}
