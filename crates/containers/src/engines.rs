//! Reads what container engines store in files, without asking a daemon:
//!
//! | engine | files | names |
//! |---|---|---|
//! | Docker | `/var/lib/docker/containers/ID/config.v2.json`, or below another `data-root` | `Name`, Kubernetes labels (`cri-dockerd`) |
//! | podman, CRI-O | `…/containers/storage/DRIVER-containers/containers.json`, `…/ID/userdata/config.json` | `names`, annotations |
//! | containerd | `/run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json`, `init.pid` | annotations of Kubernetes and nerdctl |
//! | runc | `/run/runc/ID/state.json` | the id |
//! | crun | `/run/crun/ID/status` | the id |
//!
//! Earlier rows take precedence, because runc also keeps files of other engines' containers.

use crate::files::{HostPaths, RootFiles, UserPath};
use crate::{Pod, SHOWN, groups};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Default of `data-root` in Docker's settings or on its command line.
const DOCKER: &str = "/var/lib/docker";
const DOCKER_SETTINGS: &str = "/etc/docker/daemon.json";
const DOCKER_DAEMON: &str = "dockerd";
const DOCKER_OPTION: &str = "--data-root";
/// containerd's folder, and that of k3s.
const CONTAINERD: [&str; 2] =
    ["/run/containerd/io.containerd.runtime.v2.task", "/run/k3s/containerd/io.containerd.runtime.v2.task"];
/// Docker's namespace in containerd.
const DOCKER_NAMESPACE: &str = "moby";
/// Container storage of podman and CRI-O: root's, and a user's below the home folder.
const STORAGE: &str = "/var/lib/containers/storage";
const STORAGE_AT_HOME: &str = ".local/share/containers/storage";
/// State of running containers there.
const RUNNING: &str = "/run/containers/storage";
const RUNC: &str = "/run/runc";
const CRUN: &str = "/run/crun";

/// Keys of the names of container, pod and pod namespace: for containerd, then for CRI-O and Docker.
const KUBERNETES: [[&str; 3]; 2] = [
    ["io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace"],
    ["io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"],
];
/// Keys and values that mark a pod's sandbox.
const SANDBOX: [(&str, &str); 3] = [
    ("io.kubernetes.cri.container-type", "sandbox"),
    ("io.kubernetes.cri-o.ContainerType", "sandbox"),
    ("io.kubernetes.docker.type", "podsandbox"),
];
/// Key of nerdctl's container name.
const NERDCTL: &str = "nerdctl/name";
/// Key of the program that wrote the annotations: podman (`libpod`) or CRI-O.
const MANAGER: &str = "io.container.manager";

/// An engine's record of a container, running or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineEntry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) engine: &'static str,
    pub(crate) pod: Option<Pod>,
    pub(crate) is_sandbox: bool,
    /// The first process, if stored. May be outdated after a restart.
    pub(crate) init: Option<u32>,
    /// Who controls the files: 0 for root. Files of another user only describe processes of that user.
    pub(crate) user: u32,
}

impl EngineEntry {
    fn new(engine: &'static str, id: &str, user: u32) -> Self {
        Self { id: id.to_owned(), name: short(id).to_owned(), engine, pod: None, is_sandbox: false, init: None, user }
    }

    /// Takes Kubernetes names from annotations, if there are any.
    fn with_annotations(mut self, annotations: Option<&Value>) -> Self {
        let of = |key: &str| annotations?.get(key)?.as_str().filter(|text| !text.is_empty());
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

/// Shortens a hexadecimal id for display. Some engines accept any name as an id, which is shown whole.
pub(crate) fn short(id: &str) -> &str {
    let is_number = id.len() > SHOWN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.get(..SHOWN).filter(|_| is_number).unwrap_or(id)
}

/// Returns the entries of all engines, root's first and each container of a user once, and the unreadable folders.
pub(crate) fn entries(host: &HostPaths) -> (Vec<EngineEntry>, Vec<PathBuf>) {
    let (mut all, mut unreadable, mut seen) = (Vec::<EngineEntry>::new(), Vec::new(), BTreeSet::new());
    let told = docker_folders(host);
    for root in &host.roots {
        let files = RootFiles::below(root);
        let runc = low_level(&files, "runc", RUNC, "state.json", "init_process_pid");
        let crun = low_level(&files, "crun", CRUN, "status", "pid");
        for entries in [docker(&files, &told), storage(&files), containerd(&files), runc, crun] {
            all.extend(entries.into_iter().filter(|entry| seen.insert((entry.user, entry.id.clone()))));
        }
        // If the first root is readable, unreadable files of the others do not matter.
        if std::ptr::eq(root, host.roots.first().unwrap_or(root)) {
            unreadable = files.unreadable.into_inner();
        }
    }
    all.sort_by_key(|entry| entry.user != 0);
    (all, unreadable)
}

/// Returns the `data-root` options of running Docker daemons, such as snap's. Any process may have a daemon's name: only
/// what its user controls counts.
fn docker_folders(host: &HostPaths) -> Vec<UserPath> {
    let processes = fs::read_dir(&host.proc).into_iter().flatten().flatten();
    let of = |process: fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        words.next().filter(|program| program.rsplit('/').next() == Some(DOCKER_DAEMON))?;
        let told = words.find_map(|word| word.strip_prefix(DOCKER_OPTION).map(ToOwned::to_owned))?;
        // `--data-root FOLDER`, or `--data-root=FOLDER`.
        let folder = if told.is_empty() { words.next()? } else { told.strip_prefix('=')?.to_owned() };
        Some(UserPath { path: folder.into(), user: Some(groups::user(&process.path())?) })
    };
    processes.filter_map(of).collect()
}

fn docker(files: &RootFiles<'_>, told: &[UserPath]) -> Vec<EngineEntry> {
    let settings = files.json(&UserPath::of_root(DOCKER_SETTINGS));
    let moved = settings.as_ref().and_then(|(settings, _)| settings.get("data-root")?.as_str());
    let own = UserPath::of_root(moved.unwrap_or(DOCKER));
    let of = |folder: &UserPath| {
        let (config, user) = files.json(&folder.join("config.v2.json"))?;
        let mut entry = EngineEntry::new("docker", config.get("ID")?.as_str()?, folder.user.unwrap_or(user));
        if let Some(name) = config.get("Name").and_then(Value::as_str) {
            name.trim_start_matches('/').clone_into(&mut entry.name);
        }
        entry.init = config.pointer("/State/Pid").and_then(number);
        Some(entry.with_annotations(config.pointer("/Config/Labels")))
    };
    let folders = told.iter().chain([&own]);
    folders.flat_map(|folder| files.list(&folder.join("containers"))).filter_map(|folder| of(&folder)).collect()
}

fn storage(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    let mut homes = files.list(&UserPath::any("/home"));
    homes.push(UserPath::any("/root"));
    let of_users = homes.iter().map(|home| home.join(STORAGE_AT_HOME));
    let drivers = |storage: UserPath| files.list(&storage);
    let is_driver = |folder: &UserPath| folder.path.to_string_lossy().ends_with("-containers");
    let folders = std::iter::once(UserPath::any(STORAGE)).chain(of_users).flat_map(drivers).filter(is_driver);
    folders.flat_map(|folder| stored(files, &folder)).collect()
}

fn stored(files: &RootFiles<'_>, folder: &UserPath) -> Vec<EngineEntry> {
    let Some((Value::Array(list), user)) = files.json(&folder.join("containers.json")) else { return Vec::new() };
    let folder = UserPath { user: Some(user), ..folder.clone() };
    let of = |stored: &Value| {
        let id = stored.get("id")?.as_str()?;
        let mut entry = EngineEntry::new("podman", id, user);
        if let Some(name) = stored.pointer("/names/0").and_then(Value::as_str) {
            name.clone_into(&mut entry.name);
        }
        let running = UserPath { path: Path::new(RUNNING).join(folder.name()?), user: Some(user) };
        entry.init = files.number(&running.join(id).join("userdata/pidfile"));
        // podman's name for the infrastructure container of a pod.
        let is_infra = entry.name.ends_with("-infra");
        if let Some((config, _)) = files.json(&folder.join(id).join("userdata/config.json"))
            && let Some(annotations) = config.get("annotations")
        {
            if annotations.get(MANAGER).and_then(Value::as_str) == Some("cri-o") {
                entry.engine = "cri-o";
            }
            entry = entry.with_annotations(Some(annotations));
        }
        entry.is_sandbox |= is_infra && entry.engine == "podman";
        Some(entry)
    };
    list.iter().take_while(|_| files.files.has_left(user)).filter_map(of).collect()
}

fn containerd(files: &RootFiles<'_>) -> Vec<EngineEntry> {
    let namespaces = CONTAINERD.iter().flat_map(|folder| files.list(&UserPath::of_root(*folder)));
    let of = |folder: UserPath| {
        let is_dockers = folder.path.parent()?.file_name()? == DOCKER_NAMESPACE;
        let engine = if is_dockers { "docker" } else { "containerd" };
        let mut entry = EngineEntry::new(engine, folder.name()?, 0);
        entry.init = files.number(&folder.join("init.pid"));
        let config = files.json(&folder.join("config.json"));
        Some(entry.with_annotations(config.as_ref().and_then(|(config, _)| config.get("annotations"))))
    };
    namespaces.flat_map(|namespace| files.list(&namespace)).filter_map(of).collect()
}

/// Reads the containers of a low-level runtime that was started without an engine.
fn low_level(files: &RootFiles<'_>, engine: &'static str, folder: &str, file: &str, pid: &str) -> Vec<EngineEntry> {
    let of = |folder: &UserPath| {
        let (state, user) = files.json(&folder.join(file))?;
        let mut entry = EngineEntry::new(engine, folder.name()?, user);
        entry.init = state.get(pid).and_then(number);
        Some(entry)
    };
    files.list(&UserPath::of_root(folder)).iter().filter_map(of).collect()
}

/// Parses a process number. Engines write 0 for a stopped container.
fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok().filter(|pid| *pid > 0)
}
