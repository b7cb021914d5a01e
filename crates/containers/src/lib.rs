//! Which container a process is in, and what its engine and Kubernetes call it.
//!
//! Two things are read, and no daemon is asked: the control groups of all processes (`/proc/PID/cgroup`), in whose paths engines
//! put the number of a container, and the files that engines keep of running containers (`engines`). A container without
//! processes is none here.

mod engines;
mod error;
mod files;
mod groups;

pub use error::Error;
pub use files::HostPaths;

use engines::EngineEntry;
use groups::CgroupProcess;
use overhead_model::record;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Characters of a container's number that are shown, as engines do it.
const SHOWN: usize = 12;

/// A container with running processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// Its number or name, as its engine's files and control groups have it: all of it.
    pub id: String,
    /// What it is called; the number, shortened, where nobody has said.
    pub name: String,
    /// What runs it: `docker`, `podman`, `containerd`, `cri-o`, `runc` or `crun`; `None` where only its control group is known.
    pub engine: Option<&'static str>,
    /// The pod of Kubernetes that it belongs to; `None` for others.
    pub pod: Option<Pod>,
    /// It holds the network namespace of a pod, and runs nothing of anybody's.
    pub is_sandbox: bool,
    /// Its processes, as this host numbers them.
    pub pids: BTreeSet<u32>,
    /// Number of its network namespace; `None` where it may not be seen.
    pub network_namespace: Option<u64>,
}

/// A pod of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

impl RunningContainer {
    /// Returns the number as it is shown: its first twelve characters.
    pub fn short_id(&self) -> &str {
        engines::short(&self.id)
    }

    /// Returns how it is named on a command line, without mistaking it for another one of a pod: `cache`, or `default/cache-0/redis`.
    pub fn argument(&self) -> String {
        self.record().full_name()
    }

    /// Returns what it is, in words: `cache (docker 3f2a91c0de12)`, or `default/cache-0/redis (containerd 3f2a91c0de12)`.
    pub fn in_words(&self) -> String {
        let id = if self.name == self.id { "" } else { self.short_id() };
        let about = [self.engine.unwrap_or_default(), id].into_iter().filter(|word| !word.is_empty());
        let about = about.collect::<Vec<_>>().join(" ");
        if about.is_empty() { self.argument() } else { format!("{} ({about})", self.argument()) }
    }

    /// Returns it as a record has it.
    pub fn record(&self) -> record::Container {
        record::Container {
            name: self.name.clone(),
            id: self.short_id().to_owned(),
            engine: self.engine.map(ToOwned::to_owned),
            pod: self.pod.as_ref().map(|pod| pod.name.clone()),
            namespace: self.pod.as_ref().map(|pod| pod.namespace.clone()),
        }
    }

    /// Returns whether it is called so: by its name, by that of its pod, or by both, with or without the namespace of the pod.
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
    all: Vec<RunningContainer>,
    /// The network namespace of the process that looks.
    own_namespace: Option<u64>,
    unreadable: Vec<PathBuf>,
}

impl HostContainers {
    /// Looks at all processes, and at the files of the engines.
    ///
    /// # Errors
    ///
    /// [`Error::Proc`] where the processes cannot be listed. Files that cannot be read are no error: containers they tell of
    /// are known by their numbers alone.
    pub fn of(host: &HostPaths) -> Result<Self, Error> {
        let processes = groups::processes(host).map_err(|error| Error::Proc(error.to_string()))?;
        let (entries, unreadable) = engines::entries(host);
        let mut all = join(&entries, &processes);
        for container in &mut all {
            container.network_namespace =
                container.pids.first().and_then(|pid| groups::network_namespace(host, &pid.to_string()));
        }
        Ok(Self { all, own_namespace: groups::network_namespace(host, "self"), unreadable })
    }

    /// Returns all, in the order of their names.
    pub fn all(&self) -> &[RunningContainer] {
        &self.all
    }

    /// Returns the container of a process; `None` for one that is in none.
    pub fn of_process(&self, pid: u32) -> Option<&RunningContainer> {
        self.all.iter().find(|container| container.pids.contains(&pid))
    }

    /// Returns the container that alone has this network namespace; `None` for those of several containers, such as a pod's, and
    /// for that of the host.
    pub fn of_network_namespace(&self, number: u64) -> Option<&RunningContainer> {
        let mut inside = self.all.iter().filter(|it| !it.is_sandbox && it.network_namespace == Some(number));
        inside.next().filter(|_| inside.next().is_none() && self.own_namespace != Some(number))
    }

    /// Returns the container of this name, of this pod, or whose number begins so.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`], which names those that there are; [`Error::Ambiguous`], which names those that are meant.
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

/// Gives each process to its container.
fn join(entries: &[EngineEntry], processes: &[CgroupProcess]) -> Vec<RunningContainer> {
    let mut members = BTreeMap::<&str, BTreeSet<u32>>::new();
    let mut nameless = BTreeMap::<&str, (Option<&'static str>, BTreeSet<u32>)>::new();
    let known: BTreeSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    for process in processes {
        // The innermost that is known; of a container in a container, the inner engine's files are not on this host.
        let numbers = process.numbers();
        match numbers.iter().rev().find(|number| known.contains(number.id)) {
            Some(number) => {
                members.entry(number.id).or_default().insert(process.pid);
            }
            None => {
                if let Some(number) = numbers.last() {
                    let (engine, pids) = nameless.entry(number.id).or_default();
                    *engine = engine.or(number.engine);
                    pids.insert(process.pid);
                }
            }
        }
    }
    let taken: BTreeSet<u32> =
        members.values().chain(nameless.values().map(|(_, pids)| pids)).flatten().copied().collect();
    // Others are known by their first process: by its control group, or by its PID namespace where it has no group of its own.
    for entry in entries.iter().filter(|entry| !members.contains_key(entry.id.as_str())).collect::<Vec<_>>() {
        let pids = groups::container_processes(entry.init, processes, &taken);
        if !pids.is_empty() {
            members.insert(&entry.id, pids);
        }
    }
    let named = entries.iter().filter_map(|entry| {
        let pids = members.remove(entry.id.as_str())?;
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
