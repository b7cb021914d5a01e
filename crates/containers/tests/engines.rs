//! Hosts made of folders: processes with control groups, and engines' files in their real format, shortened.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_containers::{Error, HostContainers, HostPaths};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{Duration, Instant};

const ONE: &str = "40a021d090fa4fbf81b5f0fe947dc82d1c915f359e8289130eba193cf9bf3e6e";
const TWO: &str = "4203dda74c877fc9bfe62aef0d4cec9289c6508a0197ef4a1fd4853dca866712";
const THREE: &str = "9999dda74c877fc9bfe62aef0d4cec9289c6508a0197ef4a1fd4853dca866712";

/// A host below a folder.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        let lab = Self(tempfile::tempdir().unwrap());
        lab.process(1, 0, "/init.scope");
        lab
    }

    fn put(&self, path: &str, text: &str) {
        self.put_bytes(path, text.as_bytes());
    }

    fn put_bytes(&self, path: &str, text: &[u8]) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, parent: u32, group: &str) {
        self.put(&format!("proc/{pid}/cgroup"), &format!("9:name=systemd:/\n4:memory:{group}\n0::{group}\n"));
        self.put(&format!("proc/{pid}/stat"), &format!("{pid} (a name) S {parent} {pid} {pid} 0 -1"));
    }

    fn docker(&self, root: &str, id: &str, name: &str, pid: u32, labels: &str) {
        let config = format!(
            r#"{{"StreamConfig":{{}},"State":{{"Running":true,"Pid":{pid},"Health":null}},"ID":"{id}","Config":{{"Labels":{labels}}},"Name":"/{name}"}}"#
        );
        self.put(&format!("{root}/containers/{id}/config.v2.json"), &config);
    }

    fn containers(&self) -> HostContainers {
        HostContainers::read(&HostPaths::at(self.0.path().join("proc"), self.0.path())).unwrap()
    }

    /// Returns names, engines and processes.
    fn found(&self) -> Vec<(String, Option<&'static str>, Vec<u32>)> {
        let containers = self.containers();
        let all = containers.all.iter();
        all.map(|it| (it.argument(), it.engine, it.pids.iter().copied().collect())).collect()
    }
}

#[test]
fn docker_with_the_driver_of_groups_of_version_1_and_another_root() {
    let lab = Lab::new();
    lab.put("etc/docker/daemon.json", r#"{"data-root": "/srv/docker"}"#);
    lab.docker("srv/docker", ONE, "dcache", 26_549, "{}");
    lab.docker("srv/docker", TWO, "stopped", 0, "{}");
    lab.process(26_549, 26_500, &format!("/docker/{ONE}"));
    lab.process(26_560, 26_549, &format!("/docker/{ONE}"));
    lab.process(26_500, 1, "/system.slice/docker.service");
    assert_eq!(lab.found(), [("dcache".into(), Some("docker"), vec![26_549, 26_560])]);
    let containers = lab.containers();
    assert_eq!(containers.by_process(26_560).unwrap().in_words(), "dcache (docker 40a021d090fa)");
    assert_eq!(containers.by_process(26_500), None);
}

#[test]
fn docker_with_a_root_that_its_daemon_was_told() {
    for words in [&b"/snap/docker/1/bin/dockerd\0--data-root=/srv/d\0"[..], b"dockerd\0-D\0--data-root\0/srv/d\0"] {
        let lab = Lab::new();
        lab.put_bytes("proc/50/cmdline", words);
        lab.put("proc/50/status", "Name:\tdockerd\nUid:\t0\t0\t0\t0\n");
        lab.put_bytes("proc/51/cmdline", b"other\0--data-root\0/srv/other\0");
        lab.docker("srv/d", ONE, "cache", 70, "{}");
        lab.docker("srv/other", TWO, "none", 71, "{}");
        lab.process(70, 1, &format!("/docker/{ONE}"));
        assert_eq!(lab.found(), [("cache".into(), Some("docker"), vec![70])]);
    }
}

#[test]
fn names_that_are_no_utf_8_hide_no_container() {
    let lab = Lab::new();
    lab.docker("var/lib/docker", ONE, "cache", 70, "{}");
    lab.process(70, 1, "/");
    let mut groups = format!("0::/docker/{ONE}\n1:name=mine:/").into_bytes();
    groups.extend(b"\xff\xfe\n");
    lab.put_bytes("proc/70/cgroup", &groups);
    lab.put_bytes("proc/70/stat", b"70 (\xff\xfe) S 1 70 70 0 -1");
    let mut config = format!(r#"[{{"id":"{TWO}","names":["ca"#).into_bytes();
    config.extend(b"\xffche\"]}]");
    lab.put_bytes("var/lib/containers/storage/overlay-containers/containers.json", &config);
    lab.process(71, 1, &format!("/libpod_parent/libpod-{TWO}"));
    let wanted = [("cache".into(), Some("docker"), vec![70]), ("ca\u{fffd}che".into(), Some("podman"), vec![71])];
    assert_eq!(lab.found(), wanted);
}

#[test]
fn podman_and_the_process_that_watches() {
    let lab = Lab::new();
    let storage = "var/lib/containers/storage/overlay-containers";
    lab.put(
        &format!("{storage}/containers.json"),
        &format!(r#"[{{"id":"{TWO}","names":["ctest"],"metadata":"{{}}"}}]"#),
    );
    let annotations = r#"{"ociVersion":"1.0.2","annotations":{"io.container.manager":"libpod","org.opencontainers.image.stopSignal":"15"}}"#;
    lab.put(&format!("{storage}/{TWO}/userdata/config.json"), annotations);
    lab.process(25_351, 25_339, &format!("/libpod_parent/libpod-{TWO}"));
    lab.process(25_339, 1, "/libpod_parent/conmon");
    lab.process(25_340, 1, &format!("/machine.slice/libpod-conmon-{TWO}.scope"));
    assert_eq!(lab.found(), [("ctest".into(), Some("podman"), vec![25_351])]);
}

#[test]
fn a_pod_of_containerd_with_its_sandbox() {
    let lab = Lab::new();
    let task = |id: &str, notes: &str, pid: u32| {
        let folder = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
        lab.put(&format!("{folder}/config.json"), &format!(r#"{{"annotations":{{{notes}}}}}"#));
        lab.put(&format!("{folder}/init.pid"), &pid.to_string());
        lab.process(pid, 99, &format!("/kubepods.slice/kubepods-pod7c3e.slice/cri-containerd-{id}.scope"));
    };
    let pod = r#""io.kubernetes.cri.sandbox-name":"basket-0","io.kubernetes.cri.sandbox-namespace":"shop""#;
    task(ONE, &format!(r#"{pod},"io.kubernetes.cri.container-type":"sandbox""#), 50);
    task(
        TWO,
        &format!(r#"{pod},"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"redis""#),
        51,
    );
    let containers = lab.containers();
    for name in ["redis", "basket-0", "shop/basket-0", "basket-0/redis", "shop/basket-0/redis", "4203", TWO] {
        assert_eq!(containers.find(name).unwrap().pids.first(), Some(&51), "{name}");
    }
    assert!(containers.find("4").unwrap_err().to_string().contains("basket-0"), "the sandbox's id has the same start");
    task(
        THREE,
        &format!(
            r#"{pod},"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"exporter""#
        ),
        52,
    );
    let containers = lab.containers();
    let several = containers.find("basket-0").unwrap_err();
    assert!(matches!(several, Error::Ambiguous { .. }), "{several}");
    assert!(
        several.to_string().contains("shop/basket-0/exporter (containerd 9999dda74c87), shop/basket-0/redis"),
        "{several}"
    );
    let record = containers.find("basket-0/redis").unwrap().record();
    assert_eq!(
        (record.pod.as_deref(), record.namespace.as_deref(), &*record.id),
        (Some("basket-0"), Some("shop"), &TWO[..12])
    );
}

#[test]
fn a_pod_of_cri_o() {
    let lab = Lab::new();
    let storage = "var/lib/containers/storage/overlay-containers";
    let list = format!(r#"[{{"id":"{ONE}","names":["k8s_redis_basket-0_shop_7c3e_0"]}}]"#);
    lab.put(&format!("{storage}/containers.json"), &list);
    let notes = r#""io.container.manager":"cri-o","io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.container.name":"redis","io.kubernetes.pod.name":"basket-0","io.kubernetes.pod.namespace":"shop""#;
    lab.put(&format!("{storage}/{ONE}/userdata/config.json"), &format!(r#"{{"annotations":{{{notes}}}}}"#));
    lab.process(51, 1, &format!("/kubepods.slice/kubepods-pod7c3e.slice/crio-{ONE}.scope"));
    lab.process(50, 1, &format!("/kubepods.slice/kubepods-pod7c3e.slice/crio-conmon-{ONE}.scope"));
    assert_eq!(lab.found(), [("shop/basket-0/redis".into(), Some("cri-o"), vec![51])]);
}

#[test]
fn ids_that_are_any_text_are_found_by_their_first_process() {
    let lab = Lab::new();
    lab.put(
        "run/runc/cache/state.json",
        r#"{"id":"cache","init_process_pid":60,"cgroup_paths":{"":"/sys/fs/cgroup/cache"}}"#,
    );
    lab.put("run/crun/other/status", r#"{"pid":70,"bundle":"/b","cgroup-path":"/other"}"#);
    lab.put("run/runc/gone/state.json", r#"{"id":"gone","init_process_pid":61}"#);
    lab.process(59, 1, "/user.slice/session-3.scope");
    lab.process(60, 59, "/cache");
    lab.process(62, 60, "/cache/below");
    lab.process(70, 59, "/user.slice/session-3.scope");
    let wanted = [("cache".into(), Some("runc"), vec![60, 62]), ("other".into(), Some("crun"), vec![70])];
    assert_eq!(lab.found(), wanted, "one that is in the group of its parent is taken alone");
}

#[test]
fn a_container_that_no_file_tells_of_goes_by_its_number() {
    let lab = Lab::new();
    lab.process(51, 1, &format!("/system.slice/docker-{ONE}.scope"));
    assert_eq!(lab.found(), [("40a021d090fa".into(), Some("docker"), vec![51])]);
    let unknown = lab.containers().find("cache").unwrap_err().to_string();
    assert_eq!(unknown, "no running container matches cache: found 40a021d090fa (docker 40a021d090fa)");
    assert_eq!(lab.containers().find("40a021d090fa").unwrap().id, ONE);
}

/// A user, not root.
const USER: u32 = 60_001;

impl Lab {
    /// Gives what is below a path to the user, or returns false without the right to.
    fn give(&self, path: &str) -> bool {
        let path = self.0.path().join(path);
        let below = fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
        let below: Vec<_> = below.collect();
        chown(&path, Some(USER), None).is_ok()
            && below.iter().all(|path| self.give(path.strip_prefix(self.0.path()).unwrap().to_str().unwrap()))
    }

    fn status(&self, pid: u32, user: u32) {
        self.put(&format!("proc/{pid}/status"), &format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n"));
    }
}

#[test]
fn a_users_files_describe_that_users_processes_alone() {
    let lab = Lab::new();
    let storage = "home/mallory/.local/share/containers/storage/overlay-containers/containers.json";
    let list = format!(
        r#"[{{"id":"{ONE}","names":["forged"]}},{{"id":"{TWO}","names":["own"]}},{{"id":"{THREE}","names":["inside"]}}]"#
    );
    lab.put(storage, &list);
    lab.docker("var/lib/docker", ONE, "real", 0, "{}");
    if !lab.give("home/mallory") {
        println!("skipped: it takes root's rights");
        return;
    }
    for (pid, id, user) in [(50, ONE, 0), (51, TWO, USER), (52, THREE, 100_998)] {
        lab.process(pid, 1, &format!("/libpod_parent/libpod-{id}"));
        lab.status(pid, user);
    }
    lab.put("proc/50/uid_map", "0 0 4294967295\n");
    // As in a container of podman that the user started, where 999 runs the database.
    lab.put("proc/52/uid_map", &format!("0 {USER} 1\n1 100000 65536\n"));
    let wanted = [("inside", "podman", 52), ("own", "podman", 51), ("real", "docker", 50)];
    assert_eq!(lab.found(), wanted.map(|(name, engine, pid)| (name.into(), Some(engine), vec![pid])));
}

#[test]
fn a_users_group_with_the_name_of_a_container_is_none_of_roots() {
    let lab = Lab::new();
    lab.docker("var/lib/docker", ONE, "real", 70, "{}");
    lab.process(70, 1, &format!("/system.slice/docker-{ONE}.scope"));
    lab.process(71, 1, &format!("/user.slice/user-{USER}.slice/user@{USER}.service/docker-{ONE}.scope"));
    assert_eq!(lab.containers().find("real").unwrap().pids, [70].into());
}

#[test]
fn a_daemon_of_a_user_leads_to_what_that_user_controls() {
    for (owner, wanted) in [(0, "40a021d090fa"), (USER, "real"), (60_002, "40a021d090fa")] {
        let lab = Lab::new();
        lab.put_bytes("proc/50/cmdline", b"dockerd\0--data-root\0/tmp/d\0");
        lab.status(50, owner);
        lab.docker("tmp/d", ONE, "real", 70, "{}");
        lab.docker("tmp/d", TWO, "forged", 71, "{}");
        for (pid, id, user) in [(70, ONE, USER), (71, TWO, 0)] {
            lab.process(pid, 1, &format!("/docker/{id}"));
            lab.status(pid, user);
        }
        if !lab.give("tmp/d") {
            println!("skipped: it takes root's rights");
            return;
        }
        let found = lab.found();
        let names: Vec<&str> = found.iter().map(|(name, ..)| &**name).collect();
        assert!(names.contains(&wanted) && !names.contains(&"forged"), "{owner}: {names:?}");
    }
}

#[test]
fn a_fifo_and_many_links_to_one_long_file_take_no_time() {
    let lab = Lab::new();
    let storage = "home/mallory/.local/share/containers/storage";
    let list: Vec<String> = (0..200_000).map(|number| format!(r#"{{"id":"{number:x}"}}"#)).collect();
    lab.put(&format!("{storage}/a-containers/containers.json"), &format!("[{}]", list.join(",")));
    let file = lab.0.path().join(storage).join("a-containers/containers.json");
    for number in 0..300 {
        let folder = lab.0.path().join(storage).join(format!("b{number}-containers"));
        fs::create_dir(&folder).unwrap();
        fs::hard_link(&file, folder.join("containers.json")).unwrap();
    }
    let fifo = lab.0.path().join(storage).join("c-containers");
    fs::create_dir(&fifo).unwrap();
    mknodat(CWD, fifo.join("containers.json"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    lab.docker("var/lib/docker", ONE, "real", 70, "{}");
    lab.process(70, 1, &format!("/docker/{ONE}"));
    if !lab.give("home/mallory") {
        println!("skipped: it takes root's rights");
        return;
    }
    let started = Instant::now();
    assert_eq!(lab.found(), [("real".into(), Some("docker"), vec![70])]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn files_that_are_damaged_are_passed_over() {
    let lab = Lab::new();
    lab.put(&format!("var/lib/docker/containers/{ONE}/config.v2.json"), "{\"ID\": ");
    lab.put("var/lib/containers/storage/overlay-containers/containers.json", "[1, {\"id\": 2}, null]");
    lab.put("run/runc/x/state.json", "[]");
    lab.put("run/containerd/io.containerd.runtime.v2.task/default/y/init.pid", "many");
    lab.process(51, 1, &format!("/docker/{ONE}"));
    assert_eq!(lab.found(), [("40a021d090fa".into(), None, vec![51])]);
    assert!(!Path::new("/nowhere").exists());
    assert!(matches!(HostContainers::read(&HostPaths::at("/nowhere", "/nowhere")), Err(Error::Proc(_))));
}
