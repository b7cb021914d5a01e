//! Finds the container of a process, and its names in its engine and in Kubernetes.
//!
//! It reads control groups of processes (`/proc/PID/cgroup`), whose paths hold container ids, and engines' files
//! (`engines`). No daemon is asked. Containers without processes are ignored.
//!
//! - [`HostContainers`]: all running containers of a host; each is a [`RunningContainer`].
//! - [`HostPaths`]: where to find a host's processes and files.

mod engines;
mod error;
mod files;
mod groups;

pub use error::Error;
pub use files::HostPaths;

use engines::EngineEntry;
use groups::{CgroupProcess, ContainerId};
use overhead_model::record;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Characters shown of a container's id, as engines do.
const SHOWN: usize = 12;

/// A container with at least one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// The full id, from the engine's files or control groups.
    pub id: String,
    /// The shortened id if it has no name.
    pub name: String,
    /// `docker`, `podman`, `containerd`, `cri-o`, `runc` or `crun`; `None` if only the control group is known.
    pub engine: Option<&'static str>,
    /// `None` outside of Kubernetes.
    pub pod: Option<Pod>,
    /// It only holds a pod's network namespace.
    pub is_sandbox: bool,
    /// As this host numbers them.
    pub pids: BTreeSet<u32>,
    /// Inode; `None` if it may not be inspected.
    pub network_namespace: Option<u64>,
}

/// A Kubernetes pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    /// Kubernetes namespace, in which the name is unique.
    pub namespace: String,
}

impl RunningContainer {
    /// Returns the first 12 characters of the id.
    pub fn short_id(&self) -> &str {
        engines::short(&self.id)
    }

    /// Returns an unambiguous name for a command line: `cache`, or `default/cache-0/redis`.
    pub fn argument(&self) -> String {
        self.record().full_name()
    }

    /// Returns a description: `cache (docker 3f2a91c0de12)`, or `default/cache-0/redis (containerd 3f2a91c0de12)`.
    pub fn in_words(&self) -> String {
        let id = if self.name == self.id { "" } else { self.short_id() };
        let about = [self.engine.unwrap_or_default(), id].into_iter().filter(|word| !word.is_empty());
        let about = about.collect::<Vec<_>>().join(" ");
        if about.is_empty() { self.argument() } else { format!("{} ({about})", self.argument()) }
    }

    /// Converts it to the run record.
    pub fn record(&self) -> record::Container {
        record::Container {
            name: self.name.clone(),
            id: self.short_id().to_owned(),
            engine: self.engine.map(ToOwned::to_owned),
            pod: self.pod.as_ref().map(|pod| pod.name.clone()),
            namespace: self.pod.as_ref().map(|pod| pod.namespace.clone()),
        }
    }

    /// Returns whether it has this name, or belongs to this pod, or both (`pod/name`), with or without the pod's
    /// namespace.
    fn is_called(&self, name: &str) -> bool {
        let of_pod = |pod: &Pod| {
            let Pod { name: of, namespace } = pod;
            let pods = [of.clone(), format!("{namespace}/{of}")];
            pods.iter()
                .any(|pod| pod == name || name.strip_prefix(pod).is_some_and(|rest| rest == format!("/{}", self.name)))
        };
        self.name == name || self.pod.as_ref().is_some_and(of_pod)
    }
}

/// The containers of a host at one moment.
#[derive(Clone, Debug, Default)]
pub struct HostContainers {
    /// In the order of their names.
    pub all: Vec<RunningContainer>,
    /// This process's network namespace.
    own_namespace: Option<u64>,
    unreadable: Vec<PathBuf>,
}

impl HostContainers {
    /// Reads all processes and the engines' files.
    ///
    /// # Errors
    ///
    /// [`Error::Proc`] if processes cannot be listed. Unreadable engine files only cost names.
    pub fn read(host: &HostPaths) -> Result<Self, Error> {
        let processes = groups::processes(host).map_err(|error| Error::Proc(error.to_string()))?;
        let (entries, unreadable) = engines::entries(host);
        let mut all = join(&entries, &processes, &|user, pid| user == 0 || groups::is_of_user(host, pid, user));
        for container in &mut all {
            container.network_namespace =
                container.pids.first().and_then(|pid| groups::network_namespace(host, &pid.to_string()));
        }
        Ok(Self { all, own_namespace: groups::network_namespace(host, "self"), unreadable })
    }

    /// Returns the container of a process, if any.
    pub fn by_process(&self, pid: u32) -> Option<&RunningContainer> {
        self.all.iter().find(|container| container.pids.contains(&pid))
    }

    /// Returns the only container in this network namespace; `None` for the host's namespace, and for shared ones
    /// such as a pod's.
    pub fn by_network_namespace(&self, number: u64) -> Option<&RunningContainer> {
        let mut inside = self.all.iter().filter(|it| !it.is_sandbox && it.network_namespace == Some(number));
        inside.next().filter(|_| inside.next().is_none() && self.own_namespace != Some(number))
    }

    /// Returns the container with this name, of this pod, or with an id that starts like this.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Ambiguous`], with the candidates.
    pub fn find(&self, name: &str) -> Result<&RunningContainer, Error> {
        let inner = || self.all.iter().filter(|container| !container.is_sandbox);
        let whole: Vec<&RunningContainer> = inner().filter(|container| container.id == name).collect();
        let named = || inner().filter(|container| container.is_called(name)).collect::<Vec<_>>();
        let begun = || self.all.iter().filter(|it| !name.is_empty() && it.id.starts_with(name)).collect::<Vec<_>>();
        let found = [Some(whole), Some(named()), Some(begun())].into_iter().flatten().find(|found| !found.is_empty());
        match found.as_deref() {
            Some([one]) => Ok(one),
            Some(several) => Err(Error::Ambiguous {
                name: name.to_owned(),
                meant: several.iter().map(|it| it.in_words()).collect::<Vec<_>>().join(", "),
            }),
            None => Err(Error::Unknown {
                name: name.to_owned(),
                found: inner().map(RunningContainer::in_words).collect(),
                unreadable: self.unreadable.clone(),
            }),
        }
    }
}

/// Assigns each process to its container. An entry only has processes that `may_have` allows its user.
fn join(
    entries: &[EngineEntry],
    processes: &[CgroupProcess],
    may_have: &dyn Fn(u32, u32) -> bool,
) -> Vec<RunningContainer> {
    let mut members = BTreeMap::<(u32, &str), BTreeSet<u32>>::new();
    let mut nameless = BTreeMap::<&str, (Option<&'static str>, BTreeSet<u32>)>::new();
    let mut known = BTreeMap::<&str, Vec<u32>>::new();
    for entry in entries {
        known.entry(&entry.id).or_default().push(entry.user);
    }
    for process in processes {
        // The innermost known id counts. In nested containers, the inner engine's files are not on this host.
        let (ids, slice_user) = (process.container_ids(), process.slice_user());
        let of_user = |id: &ContainerId<'_>| {
            let (id, users) = known.get_key_value(id.id)?;
            let may_have = |user: &u32| slice_user.is_none_or(|own| own == *user) && may_have(*user, process.pid);
            Some((users.iter().copied().find(may_have)?, *id))
        };
        match ids.iter().rev().find_map(of_user) {
            Some(found) => {
                members.entry(found).or_default().insert(process.pid);
            }
            None => {
                if let Some(id) = ids.last() {
                    let (engine, pids) = nameless.entry(id.id).or_default();
                    *engine = engine.or(id.engine);
                    pids.insert(process.pid);
                }
            }
        }
    }
    let taken: BTreeSet<u32> =
        members.values().chain(nameless.values().map(|(_, pids)| pids)).flatten().copied().collect();
    // Finds other containers by their first process.
    for entry in entries.iter().filter(|entry| !members.contains_key(&(entry.user, &*entry.id))).collect::<Vec<_>>() {
        let mut pids = groups::container_processes(entry.init, processes, &taken);
        pids.retain(|pid| may_have(entry.user, *pid));
        if !pids.is_empty() {
            members.insert((entry.user, &entry.id), pids);
        }
    }
    let named = entries.iter().filter_map(|entry| {
        let pids = members.remove(&(entry.user, &*entry.id))?;
        let EngineEntry { id, name, engine, pod, is_sandbox, .. } = entry.clone();
        Some(RunningContainer { id, name, engine: Some(engine), pod, is_sandbox, pids, network_namespace: None })
    });
    let mut all: Vec<RunningContainer> = named.collect();
    all.extend(nameless.into_iter().map(|(id, (engine, pids))| RunningContainer {
        id: id.to_owned(),
        name: engines::short(id).to_owned(),
        engine,
        pod: None,
        is_sandbox: false,
        pids,
        network_namespace: None,
    }));
    all.sort_by(|one, other| (one.argument(), &one.id).cmp(&(other.argument(), &other.id)));
    all
}
