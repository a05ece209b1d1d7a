//! What the operating system says about cores.

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
    fn at_least_one_core() {
        assert!(physical_cores() >= 1);
    }
}
