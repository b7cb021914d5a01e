//! Control groups of processes, and the container ids in their paths (cgroups(7), `/proc/PID/cgroup`).

use crate::files::HostPaths;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Length of the ids of Docker, podman, containerd (for Kubernetes) and CRI-O: SHA-256 in hexadecimal.
const DIGITS: usize = 64;
/// Prefixes of ids in systemd's group names, and their engines.
const ENGINES: [(&str, &str); 4] =
    [("docker", "docker"), ("libpod", "podman"), ("cri-containerd", "containerd"), ("crio", "cri-o")];
/// Part of the group name of a container's monitor process, which is outside the container.
const MONITOR: &str = "conmon";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupProcess {
    pub(crate) pid: u32,
    /// Parent process; 0 if unknown.
    parent: u32,
    /// `None` if it may not be inspected.
    pid_namespace: Option<u64>,
    /// Hierarchy and path.
    paths: Vec<(String, String)>,
}

/// A container id in the path of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainerId<'a> {
    pub(crate) id: &'a str,
    pub(crate) engine: Option<&'static str>,
}

impl CgroupProcess {
    /// Returns the container ids in the process's group paths, the innermost last.
    pub(crate) fn container_ids(&self) -> Vec<ContainerId<'_>> {
        let of_path = |path: &'_ str| path.split('/').flat_map(ids_in).count();
        // Some version 1 hierarchies may lack them, so the path with the most ids counts.
        let best = self.paths.iter().max_by_key(|(_, path)| of_path(path));
        best.map(|(_, path)| path.split('/').flat_map(ids_in).collect()).unwrap_or_default()
    }

    /// Returns the user, other than root, in whose slice the process is: such a user may make groups of any name there.
    pub(crate) fn slice_user(&self) -> Option<u32> {
        let mut names = self.paths.iter().flat_map(|(_, path)| path.split('/'));
        let user = |name: &str| name.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok();
        names.find_map(|name| user(name).filter(|user| *user != 0))
    }
}

/// Finds ids in a path component: `docker-ID.scope`, `ID`, `kubepods-podUID.slice:cri-containerd:ID`.
fn ids_in(name: &str) -> impl Iterator<Item = ContainerId<'_>> {
    let is_number =
        |word: &&str| word.len() == DIGITS && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let words = name.split(['-', ':', '.']).filter(is_number);
    let engine = ENGINES.iter().find(|(prefix, _)| name.starts_with(prefix) || name.contains(&format!(":{prefix}:")));
    words
        .filter(|_| !name.contains(MONITOR))
        .map(move |id| ContainerId { id, engine: engine.map(|(_, engine)| *engine) })
}

/// Returns all processes with their groups, by number.
pub(crate) fn processes(host: &HostPaths) -> io::Result<Vec<CgroupProcess>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(&host.proc)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It has ended.
        let Ok(groups) = text(&entry.path().join("cgroup")) else { continue };
        let pid_namespace = fs::metadata(entry.path().join("ns/pid")).ok().map(|namespace| namespace.ino());
        let parent = text(&entry.path().join("stat")).ok().and_then(|stat| parent(&stat)).unwrap_or(0);
        all.push(CgroupProcess { pid, parent, pid_namespace, paths: groups.lines().filter_map(path).collect() });
    }
    all.sort_by_key(|process| process.pid);
    Ok(all)
}

/// Reads a text file. Group and process names may hold any bytes, but no relevant name holds invalid UTF-8.
fn text(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// Returns the user of a process, real and effective; `None` if these differ. The owner of its folder may be root instead.
pub(crate) fn user(process: &Path) -> Option<u32> {
    let status = text(&process.join("status")).ok()?;
    let mut users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace();
    let user = users.next()?;
    users.next().filter(|effective| *effective == user)?.parse().ok()
}

/// Returns whether a process is a user's: it runs as this user, or in a user namespace that has this user but not root.
pub(crate) fn is_of_user(host: &HostPaths, pid: u32, user: u32) -> bool {
    let process = host.proc.join(pid.to_string());
    let map = text(&process.join("uid_map")).unwrap_or_default();
    let has = |user: u64| {
        // Inside, outside, length.
        map.lines().any(|line| {
            let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
            matches!(*numbers, [_, first, length] if (first..first + length).contains(&user))
        })
    };
    self::user(&process) == Some(user) || (has(user.into()) && !has(0))
}

/// Returns the inode of a process's network namespace; `None` if it may not be inspected.
pub(crate) fn network_namespace(host: &HostPaths, process: &str) -> Option<u64> {
    fs::metadata(host.proc.join(process).join("ns/net")).ok().map(|namespace| namespace.ino())
}

/// Parses the parent in `pid (name) state parent …`. The name may hold anything (`proc_pid_stat(5)`).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Parses hierarchy and path of a line, `hierarchy-ID:controllers:path`.
fn path(line: &str) -> Option<(String, String)> {
    let mut parts = line.splitn(3, ':');
    let hierarchy = parts.next()?;
    let path = parts.nth(1)?;
    Some((hierarchy.to_owned(), path.to_owned()))
}

/// Returns the processes of the container with this first process: those in its control group and below; if it shares
/// its parent's groups, those in its PID namespace; else only itself. Excludes processes `taken` by others.
pub(crate) fn container_processes(
    init: Option<u32>,
    processes: &[CgroupProcess],
    taken: &BTreeSet<u32>,
) -> BTreeSet<u32> {
    let find = |pid: u32| processes.iter().find(|process| process.pid == pid);
    let Some(init) = init.and_then(find).filter(|init| !taken.contains(&init.pid)) else { return BTreeSet::new() };
    let first = find(1);
    // A runtime starts a container's first process from outside.
    let outside = find(init.parent).or(first);
    let is_own = |(hierarchy, path): &&(String, String)| {
        let is_outside =
            |process: &CgroupProcess| process.paths.iter().any(|(of, other)| of == hierarchy && other == path);
        path != "/" && !outside.is_some_and(is_outside)
    };
    // The deepest path is the container's own; parents may be shared.
    let own = init.paths.iter().filter(is_own).max_by_key(|(_, path)| path.matches('/').count());
    let is_below =
        |path: &str, group: &str| path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let belongs = |process: &&CgroupProcess| {
        if let Some((hierarchy, group)) = own {
            return process.paths.iter().any(|(of, path)| of == hierarchy && is_below(path, group));
        }
        let is_apart =
            first.is_some_and(|first| first.pid_namespace != init.pid_namespace) && init.pid_namespace.is_some();
        process.pid == init.pid || (is_apart && process.pid_namespace == init.pid_namespace)
    };
    processes.iter().filter(belongs).map(|process| process.pid).filter(|pid| !taken.contains(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a91c0de12aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0";
    const INNER: &str = "4444444444444444444444444444444444444444444444444444444444444444";

    fn process(pid: u32, paths: &[&str]) -> CgroupProcess {
        let paths = paths.iter().enumerate().map(|(number, path)| (number.to_string(), (*path).to_owned()));
        CgroupProcess { pid, parent: 1, pid_namespace: None, paths: paths.collect() }
    }

    #[test]
    fn every_engine_puts_the_number_somewhere_else() {
        let table = [
            (format!("/docker/{ID}"), None),
            (format!("/system.slice/docker-{ID}.scope/init"), Some("docker")),
            (format!("/machine.slice/libpod-{ID}.scope/container"), Some("podman")),
            (format!("/libpod_parent/libpod-{ID}"), Some("podman")),
            (format!("/kubepods/burstable/pod7c3e-11/{ID}"), None),
            (format!("/kubepods.slice/kubepods-pod7c3e_11.slice/cri-containerd-{ID}.scope"), Some("containerd")),
            (format!("/kubepods-besteffort-pod7c3e.slice:cri-containerd:{ID}"), Some("containerd")),
            (format!("/kubepods.slice/kubepods-pod7c3e.slice/crio-{ID}.scope"), Some("cri-o")),
        ];
        for (path, engine) in table {
            let process = process(7, &["/", &path]);
            assert_eq!(process.container_ids(), [ContainerId { id: ID, engine }], "{path}");
        }
    }

    #[test]
    fn the_process_that_watches_a_container_is_not_in_it() {
        for path in
            [format!("/machine.slice/libpod-conmon-{ID}.scope"), format!("/system.slice/crio-conmon-{ID}.scope")]
        {
            assert_eq!(process(7, &[&path]).container_ids(), [], "{path}");
        }
        assert_eq!(process(7, &["/user.slice/session-3.scope"]).container_ids(), []);
    }

    #[test]
    fn nested_containers_end_with_the_inner_one() {
        let path = format!("/docker/{ID}/docker/{INNER}");
        let process = process(7, &[&path]);
        assert_eq!(process.container_ids().iter().map(|id| id.id).collect::<Vec<_>>(), [ID, INNER]);
    }

    #[test]
    fn a_group_has_all_below_it_and_none_beside_it() {
        let all = [
            process(1, &["/init"]),
            process(7, &["/a/redis"]),
            process(8, &["/a/redis/below"]),
            process(9, &["/a/redis2"]),
            process(10, &["/init"]),
        ];
        assert_eq!(container_processes(Some(7), &all, &BTreeSet::new()), BTreeSet::from([7, 8]));
        assert_eq!(container_processes(Some(7), &all, &BTreeSet::from([7])), BTreeSet::new());
        assert_eq!(
            container_processes(Some(10), &all, &BTreeSet::new()),
            BTreeSet::from([10]),
            "the group of its parent is not its own"
        );
        assert_eq!(container_processes(Some(11), &all, &BTreeSet::new()), BTreeSet::new(), "one that has ended");
    }

    #[test]
    fn parents_stand_behind_a_name_that_may_hold_anything() {
        assert_eq!(parent("7 (a) S 1 (b) Z 3 7 7 0"), Some(3));
        assert_eq!(parent("7 (cut"), None);
    }

    #[test]
    fn without_a_group_of_its_own_a_container_is_its_pid_namespace() {
        let mut all = [process(1, &["/"]), process(7, &["/"]), process(8, &["/"]), process(9, &["/"])];
        for (process, namespace) in all.iter_mut().zip([1, 2, 2, 1]) {
            process.pid_namespace = Some(namespace);
        }
        assert_eq!(container_processes(Some(7), &all, &BTreeSet::new()), BTreeSet::from([7, 8]));
    }
}
