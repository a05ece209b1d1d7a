//! Linux states what the machine has free in `/proc/meminfo`. A container may have less: every control
//! group above the process can have a limit (cgroup-v2.rst and cgroup-v1/memory.rst of the kernel's documentation).

use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn available_memory() -> Option<u64> {
    available(|path| fs::read_to_string(path).ok())
}

fn available(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = free_in_machine(&read(Path::new("/proc/meminfo"))?)?;
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| free_in_groups(line, &read));
    limits.chain([machine]).min()
}

fn free_in_machine(meminfo: &str) -> Option<u64> {
    let kib = field(meminfo, "MemAvailable:")?.strip_suffix("kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Files of a control group, by version of the interface.
struct Interface {
    root: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Field of `memory.stat` with the bytes of files that are dropped before anything fails.
    reclaimable: &'static str,
}

const V2: Interface = Interface {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};

const V1: Interface = Interface {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

/// Bytes left in each limited group that a line of `/proc/self/cgroup` (`id:controllers:path`) names, from the
/// innermost to the root. A container often sees only the root, which is then its own group.
fn free_in_groups(line: &str, read: &impl Fn(&Path) -> Option<String>) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let interface = match controllers {
        "" => V2,
        list if list.split(',').any(|name| name == "memory") => V1,
        _ => return Vec::new(),
    };
    let innermost = PathBuf::from(format!("{}{path}", interface.root));
    let groups = innermost.ancestors();
    groups
        .take_while(|group| group.starts_with(interface.root))
        .filter_map(|group| interface.free(group, read))
        .collect()
}

impl Interface {
    /// Bytes left in a group; `None` if it has no limit or does not exist.
    fn free(&self, group: &Path, read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
        let number = |file| read(&group.join(file))?.trim().parse::<u64>().ok();
        let limit = number(self.limit)?;
        let usage = number(self.usage)?;
        let stat = read(&group.join("memory.stat")).unwrap_or_default();
        let reclaimable = field(&stat, self.reclaimable).and_then(|n| n.parse().ok());
        Some(limit.saturating_sub(usage.saturating_sub(reclaimable.unwrap_or(0))))
    }
}

/// What follows `name` on its line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text.lines().filter_map(|line| line.strip_prefix(name));
    rest.next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal: 9 kB\nMemAvailable:    4000 kB\n",
    );

    fn with(files: &[(&str, &str)]) -> Option<u64> {
        available(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn without_groups_the_machine_counts() {
        assert_eq!(with(&[MEMINFO]), Some(4000 * 1024));
        assert_eq!(with(&[("/proc/meminfo", "MemTotal: 9 kB\n")]), None);
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "500\n"),
            ("/sys/fs/cgroup/a/memory.max", "900000\n"),
            ("/sys/fs/cgroup/a/memory.current", "500000\n"),
            (
                "/sys/fs/cgroup/a/memory.stat",
                "anon 7\ninactive_file 100000\n",
            ),
        ];
        assert_eq!(with(&files), Some(500_000));
    }

    #[test]
    fn the_older_interface_is_read_too() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "5:devices:/x\n4:memory:/unseen/here\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200\n"),
        ];
        assert_eq!(with(&files), Some(0));
    }
}
