//! The kernel's numbers of cgroups, and their paths: probes tell the number, people want the path.

use crate::Root;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cgroups known at a time.
const MAX: usize = 10_000;
/// Numbers nobody knows are looked for again, but not more often than this.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Paths of the unified hierarchy by number, which is the inode number of the folder. Numbers are never used twice, so
/// those of cgroups that are gone stay until there is no more room.
#[derive(Debug)]
pub struct CgroupNames {
    /// Where the hierarchy is mounted, and which part of it that is.
    mounted: Option<(PathBuf, String)>,
    paths: HashMap<u64, String>,
    read: Option<Instant>,
}

impl Default for CgroupNames {
    fn default() -> CgroupNames {
        CgroupNames::new(&Root::default())
    }
}

impl CgroupNames {
    /// Finds the hierarchy by `proc/self/mountinfo`, on hosts that use the old ones beside it too.
    pub fn new(root: &Root) -> CgroupNames {
        let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
        let mounted = unified(&mounts).map(|(point, part)| (root.path(&point), part));
        CgroupNames { mounted, paths: HashMap::new(), read: None }
    }

    /// The path of a cgroup; nothing where it was gone before anybody asked.
    pub fn path(&mut self, id: u64) -> Option<&str> {
        if id == 0 {
            return None;
        }
        if !self.paths.contains_key(&id) && self.read.is_none_or(|read| read.elapsed() >= REFRESH_EVERY) {
            self.refresh();
        }
        self.paths.get(&id).map(String::as_str)
    }

    fn refresh(&mut self) {
        self.read = Some(Instant::now());
        let Some((folder, part)) = &self.mounted else { return };
        let mut found = HashMap::new();
        walk(folder, part, &mut found);
        if self.paths.len() + found.len() > MAX {
            self.paths.clear();
        }
        self.paths.extend(found);
    }
}

/// All folders below, up to the limit: those near the root first, as deep ones are the most and the shortest-lived.
fn walk(folder: &Path, part: &str, found: &mut HashMap<u64, String>) {
    use std::os::unix::fs::MetadataExt;
    if let Ok(metadata) = fs::symlink_metadata(folder) {
        let shown = if part.is_empty() { "/" } else { part };
        found.insert(metadata.ino(), shown.to_string());
    }
    let mut level = vec![(folder.to_path_buf(), part.to_string())];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (folder, shown) in level {
            // One that went away meanwhile has no more folders.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.filter_map(Result::ok) {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                if found.len() >= MAX {
                    return;
                }
                let shown = format!("{shown}/{}", entry.file_name().to_string_lossy());
                found.insert(entry.ino(), shown.clone());
                next.push((entry.path(), shown));
            }
        }
        level = next;
    }
}

/// Mount point and mounted part of the unified hierarchy:
/// `41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw`.
fn unified(mountinfo: &str) -> Option<(String, String)> {
    let mut mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (part, point) = (place.next()?, place.next()?);
        (kind.split(' ').next()? == "cgroup2")
            .then(|| (point.to_string(), part.trim_end_matches('/').to_string()))
    });
    let first = mounts.next()?;
    // A mount of the whole hierarchy knows more than one of a part.
    Some(std::iter::once(first.clone()).chain(mounts).find(|(_, part)| part.is_empty()).unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_unified_hierarchy_is_found_on_hybrid_hosts() {
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(unified(hybrid), Some(("/sys/fs/cgroup/unified".into(), String::new())));
        let part = "1 2 0:3 /pod1 /c rw - cgroup2 c rw\n1 2 0:3 / /sys/fs/cgroup rw - cgroup2 c rw\n";
        assert_eq!(unified(part), Some(("/sys/fs/cgroup".into(), String::new())));
        assert_eq!(unified("1 2 0:3 /../.. /c rw - cgroup2 c rw"), Some(("/c".into(), "/../..".into())));
        assert_eq!(unified("nonsense\n - cgroup2"), None);
    }

    #[test]
    fn numbers_have_paths_and_new_ones_are_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("proc/self")).unwrap();
        fs::create_dir_all(at("cg/a.slice/b.scope")).unwrap();
        fs::write(at("cg/cgroup.procs"), "").unwrap();
        fs::write(at("proc/self/mountinfo"), "1 2 0:3 / /cg rw - cgroup2 c rw\n").unwrap();
        let id = |path: &str| fs::metadata(at(path)).unwrap().ino();
        let mut names = CgroupNames::new(&Root::at(folder.path()));
        assert_eq!(names.path(id("cg/a.slice/b.scope")), Some("/a.slice/b.scope"));
        assert_eq!(names.path(id("cg")), Some("/"));
        fs::create_dir_all(at("cg/new")).unwrap();
        let new = id("cg/new");
        assert_eq!(names.path(new), None, "not looked for twice in a second");
        names.read = None;
        assert_eq!(names.path(new), Some("/new"));
        // What is gone keeps its name.
        fs::remove_dir(at("cg/new")).unwrap();
        names.read = None;
        assert_eq!(names.path(new), Some("/new"));
        assert_eq!(names.path(0), None);
        assert_eq!(CgroupNames::new(&Root::at(&at("absent"))).path(5), None);
    }
}
