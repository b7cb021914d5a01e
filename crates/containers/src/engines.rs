//! What engines keep of the containers that they run, in files that need no daemon to read:
//!
//! | engine | files | names |
//! |---|---|---|
//! | Docker | `/var/lib/docker/containers/ID/config.v2.json`, or where the daemon was told to keep it | `Name`, labels of Kubernetes (`cri-dockerd`) |
//! | podman, CRI-O | `…/containers/storage/DRIVER-containers/containers.json`, `…/ID/userdata/config.json` | `names`, annotations |
//! | containerd | `/run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json`, `init.pid` | annotations of Kubernetes and of nerdctl |
//! | runc | `/run/runc/ID/state.json` | the id |
//! | crun | `/run/crun/ID/status` | the id |
//!
//! What is named first prevails: runc also keeps files of the containers of others.

use crate::files::{HostPaths, RootFiles};
use crate::{Pod, SHOWN};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Docker keeps containers, unless `data-root` in its settings or on its command line says otherwise.
const DOCKER: &str = "/var/lib/docker";
const DOCKER_SETTINGS: &str = "/etc/docker/daemon.json";
const DOCKER_DAEMON: &str = "dockerd";
const DOCKER_OPTION: &str = "--data-root";
/// Where containerd keeps what it runs: its own folder, and that of the one in k3s.
const CONTAINERD: [&str; 2] =
    ["/run/containerd/io.containerd.runtime.v2.task", "/run/k3s/containerd/io.containerd.runtime.v2.task"];
/// The namespace in which Docker has containerd run its containers.
const DOCKER_NAMESPACE: &str = "moby";
/// Where podman and CRI-O keep containers of root; below the home of a user, for podman without root.
const STORAGE: &str = "/var/lib/containers/storage";
const STORAGE_AT_HOME: &str = ".local/share/containers/storage";
/// Where they keep what is of running ones.
const RUNNING: &str = "/run/containers/storage";
const RUNC: &str = "/run/runc";
const CRUN: &str = "/run/crun";

/// Kubernetes' name of the container, of its pod and of the pod's namespace: as containerd, as CRI-O and Docker have them.
const KUBERNETES: [[&str; 3]; 2] = [
    ["io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace"],
    ["io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"],
];
/// Who says whether a container is a pod's sandbox, and how.
const SANDBOX: [(&str, &str); 3] = [
    ("io.kubernetes.cri.container-type", "sandbox"),
    ("io.kubernetes.cri-o.ContainerType", "sandbox"),
    ("io.kubernetes.docker.type", "podsandbox"),
];
/// The name of a container, for nerdctl.
const NERDCTL: &str = "nerdctl/name";
/// What wrote the annotations, podman (`libpod`) or CRI-O.
const MANAGER: &str = "io.container.manager";

/// What an engine says of a container, running or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineEntry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) engine: &'static str,
    pub(crate) pod: Option<Pod>,
    pub(crate) is_sandbox: bool,
    /// Its first process, where that is kept; it may be of before the last restart.
    pub(crate) init: Option<u32>,
}

impl EngineEntry {
    fn new(engine: &'static str, id: &str) -> Self {
        Self { id: id.to_owned(), name: short(id).to_owned(), engine, pod: None, is_sandbox: false, init: None }
    }

    /// Takes the names of Kubernetes, where there are any.
    fn with_annotations(mut self, annotations: &Value) -> Self {
        let of = |key: &str| annotations.get(key)?.as_str().filter(|text| !text.is_empty());
        if let Some([container, pod, namespace]) = KUBERNETES.iter().find(|[_, pod, _]| of(pod).is_some())
            && let Some(name) = of(pod)
        {
            self.pod = Some(Pod { name: name.to_owned(), namespace: of(namespace).unwrap_or("default").to_owned() });
            if let Some(container) = of(container) {
                container.clone_into(&mut self.name);
            }
        }
        if let Some(name) = of(NERDCTL) {
            name.clone_into(&mut self.name);
        }
        self.is_sandbox = SANDBOX.iter().any(|(key, value)| of(key) == Some(value));
        self
    }
}

/// Returns a container's number as it is shown. Other engines take any name for an id, which is shown whole.
pub(crate) fn short(id: &str) -> &str {
    let is_number = id.len() > SHOWN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.get(..SHOWN).filter(|_| is_number).unwrap_or(id)
}

/// Returns what all engines say, of each container once, and the folders that may not be read.
pub(crate) fn entries(host: &HostPaths) -> (Vec<EngineEntry>, Vec<PathBuf>) {
    let (mut all, mut unreadable, mut seen) = (Vec::<EngineEntry>::new(), Vec::new(), BTreeSet::new());
    let told = docker_folders(host);
    for root in &host.roots {
        let files = RootFiles::below(root);
        for entries in [docker(&files, &told), storage(&files), containerd(&files), runc(&files), crun(&files)] {
            all.extend(entries.into_iter().filter(|entry| seen.insert(entry.id.clone())));
        }
        // Where the files of this root can be read, those of another one are not missed.
        if std::ptr::eq(root, host.roots.first().unwrap_or(root)) {
            unreadable = files.unreadable();
        }
    }
    (all, unreadable)
}

/// Returns the folders that running daemons of Docker were told on their command lines, as the one of snap is.
fn docker_folders(host: &HostPaths) -> BTreeSet<PathBuf> {
    let processes = fs::read_dir(&host.proc).into_iter().flatten().flatten();
    let of = |process: fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        words.next().filter(|program| program.rsplit('/').next() == Some(DOCKER_DAEMON))?;
        let told = words.find_map(|word| word.strip_prefix(DOCKER_OPTION).map(ToOwned::to_owned))?;
        // `--data-root FOLDER`, or `--data-root=FOLDER`.
        let folder = if told.is_empty() { words.next()? } else { told.strip_prefix('=')?.to_owned() };
        Some(PathBuf::from(folder))
    };
    processes.filter_map(of).collect()
}

fn docker(files: &RootFiles<'_>, told: &BTreeSet<PathBuf>) -> Vec<EngineEntry> {
    let settings = files.json(Path::new(DOCKER_SETTINGS));
    let moved = settings.as_ref().and_then(|settings| settings.get("data-root")?.as_str());
    let folders = told.iter().map(PathBuf::as_path).chain([Path::new(moved.unwrap_or(DOCKER))]);
    let of = |folder: &PathBuf| {
        let config = files.json(&folder.join("config.v2.json"))?;
        let mut entry = EngineEntry::new("docker", config.get("ID")?.as_str()?);
        if let Some(name) = config.get("Name").and_then(Value::as_str) {
            name.trim_start_matches('/').clone_into(&mut entry.name);
        }
        entry.init = config.pointer("/State/Pid").and_then(number);
        Some(match config.pointer("/Config/Labels") {
            Some(labels) => entry.with_annotations(labels),
            None => entry,
        })
    };
    folders.flat_map(|folder| files.list(&folder.join("containers"))).filter_map(|folder| of(&folder)).collect()
}

fn storage(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    let mut homes = files.list(Path::new("/home"));
    homes.push("/root".into());
    let of_users = homes.iter().map(|home| home.join(STORAGE_AT_HOME));
    let drivers = |storage: PathBuf| files.list(&storage);
    let is_driver = |folder: &PathBuf| folder.to_string_lossy().ends_with("-containers");
    let folders = std::iter::once(PathBuf::from(STORAGE)).chain(of_users).flat_map(drivers).filter(is_driver);
    folders.flat_map(|folder| stored(files, &folder)).collect()
}

/// The containers of one storage driver.
fn stored(files: &RootFiles<'_>, folder: &Path) -> Vec<EngineEntry> {
    let Some(Value::Array(list)) = files.json(&folder.join("containers.json")) else { return Vec::new() };
    let of = |stored: &Value| {
        let id = stored.get("id")?.as_str()?;
        let mut entry = EngineEntry::new("podman", id);
        if let Some(name) = stored.pointer("/names/0").and_then(Value::as_str) {
            name.clone_into(&mut entry.name);
        }
        let running = Path::new(RUNNING).join(folder.file_name()?).join(id).join("userdata/pidfile");
        entry.init = files.text(&running).and_then(|text| text.trim().parse().ok());
        // podman keeps the infrastructure of a pod as a container with this end to its name.
        let is_infra = entry.name.ends_with("-infra");
        if let Some(config) = files.json(&folder.join(id).join("userdata/config.json"))
            && let Some(annotations) = config.get("annotations")
        {
            if annotations.get(MANAGER).and_then(Value::as_str) == Some("cri-o") {
                entry.engine = "cri-o";
            }
            entry = entry.with_annotations(annotations);
        }
        entry.is_sandbox |= is_infra && entry.engine == "podman";
        Some(entry)
    };
    list.iter().filter_map(of).collect()
}

fn containerd(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    let namespaces = CONTAINERD.iter().flat_map(|folder| files.list(Path::new(folder)));
    let of = |folder: PathBuf| {
        let is_dockers = folder.parent()?.file_name()? == DOCKER_NAMESPACE;
        let mut entry =
            EngineEntry::new(if is_dockers { "docker" } else { "containerd" }, folder.file_name()?.to_str()?);
        entry.init = files.text(&folder.join("init.pid")).and_then(|text| text.trim().parse().ok());
        let config = files.json(&folder.join("config.json"));
        Some(match config.as_ref().and_then(|config| config.get("annotations")) {
            Some(annotations) => entry.with_annotations(annotations),
            None => entry,
        })
    };
    namespaces.flat_map(|namespace| files.list(&namespace)).filter_map(of).collect()
}

fn runc(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    low_level(files, "runc", RUNC, "state.json", "init_process_pid")
}

fn crun(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    low_level(files, "crun", CRUN, "status", "pid")
}

/// The containers of a runtime that was started without an engine above it.
fn low_level(files: &RootFiles<'_>, engine: &'static str, folder: &str, file: &str, pid: &str) -> Vec<EngineEntry> {
    let of = |folder: &PathBuf| {
        let state = files.json(&folder.join(file))?;
        let mut entry = EngineEntry::new(engine, folder.file_name()?.to_str()?);
        entry.init = state.get(pid).and_then(number);
        Some(entry)
    };
    files.list(Path::new(folder)).iter().filter_map(of).collect()
}

/// A process number; engines write 0 for a container that does not run.
fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok().filter(|pid| *pid > 0)
}
