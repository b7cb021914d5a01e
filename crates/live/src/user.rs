//! The user who runs the command of a capture.

use anyhow::{Context, Result};
use nix::unistd::{self, getgrouplist};
use overhead_files::FileOwner;
use overhead_model::bail_usage;
use overhead_model::exit::StatusFault;
use rustix::process::{Gid, Uid};
use std::ffi::{CString, OsString};
use tokio::process::Command;

/// A user with groups and environment.
#[derive(Clone, Debug)]
pub struct User {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// Variables that a login would set, as far as they are known.
    environment: Vec<(&'static str, OsString)>,
}

impl User {
    /// Returns the user for the command; `None` for the current user.
    pub fn choose(name: Option<&str>, as_root: bool) -> Result<Option<Self>> {
        match name {
            Some(name) => Self::named(name),
            None if as_root => Ok(None),
            None => FileOwner::sudo_caller().map(|owner| Self::numbered(owner.uid, owner.gid)).transpose(),
        }
    }

    fn named(name: &str) -> Result<Option<Self>> {
        let found = match name.parse() {
            Ok(uid) => unistd::User::from_uid(unistd::Uid::from_raw(uid)),
            Err(_) => unistd::User::from_name(name),
        };
        let found = found.with_context(|| format!("--user {name}: the list of users cannot be read"))?;
        let found = found.ok_or_else(|| StatusFault::usage(format!("--user {name}: unknown user")))?;
        if found.uid == unistd::geteuid() {
            return Ok(None);
        }
        if !unistd::geteuid().is_root() {
            bail_usage!("--user {name}: only root can run a command as another user: run with sudo");
        }
        Self::new(&found).map(Some)
    }

    fn numbered(uid: u32, gid: u32) -> Result<Self> {
        let found = unistd::User::from_uid(unistd::Uid::from_raw(uid)).ok().flatten();
        // Containers may have users without a name.
        let nameless = || Self {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: vec![Gid::from_raw(gid)],
            environment: Vec::new(),
        };
        found.map_or_else(|| Ok(nameless()), |found| Self::new(&found))
    }

    fn new(user: &unistd::User) -> Result<Self> {
        let name = CString::new(user.name.as_str())?;
        let groups =
            getgrouplist(&name, user.gid).with_context(|| format!("the groups of {} cannot be read", user.name))?;
        Ok(Self {
            uid: Uid::from_raw(user.uid.as_raw()),
            gid: Gid::from_raw(user.gid.as_raw()),
            groups: groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect(),
            environment: vec![
                ("HOME", user.dir.clone().into_os_string()),
                ("SHELL", user.shell.clone().into_os_string()),
                ("USER", user.name.clone().into()),
                ("LOGNAME", user.name.clone().into()),
            ],
        })
    }

    /// Makes the command run as this user.
    pub fn runs(self, command: &mut Command) {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"] {
            command.env_remove(name);
        }
        let Self { uid, gid, groups, .. } = self;
        let become_user = move || {
            rustix::thread::set_thread_groups(&groups)?;
            rustix::thread::set_thread_gid(gid)?;
            rustix::thread::set_thread_uid(uid)?;
            Ok(())
        };
        // SAFETY: Between fork and exec there is only one thread. It makes three system calls, without allocations or
        // locks.
        unsafe { command.pre_exec(become_user) };
    }
}
