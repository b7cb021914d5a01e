//! Child processes that wait for permission to work, with a known number of system calls; and counters for them.

#![allow(clippy::unwrap_used, clippy::panic)]

use overhead_kernel::{CounterOptions, Error, KernelCounters, ProcessSelection};
use overhead_model::record;
use std::ffi::CString;
use std::fs;
use std::hint::black_box;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A forked process, killed on drop.
pub struct Child {
    pub pid: u32,
    go: Pipe,
    done: Pipe,
}

/// Resources of an ended child (`wait4`).
#[derive(Debug)]
pub struct Usage {
    /// By the process's own clock, just before it ended.
    pub cpu_ns: u64,
    pub switches: u64,
    /// It exited with status 0.
    pub ended_well: bool,
}

/// Held during a fork and while [`free_port`] has a listener, which the child would otherwise keep open.
static FORKING: Mutex<()> = Mutex::new(());

/// Limit for one step of a child, so that a failing test ends.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy)]
struct Pipe {
    read: i32,
    write: i32,
}

impl Pipe {
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        Self { read: ends[0], write: ends[1] }
    }

    fn give(self) {
        // SAFETY: one byte is read from a valid place.
        assert_eq!(unsafe { libc::write(self.write, [1_u8].as_ptr().cast(), 1) }, 1);
    }

    /// Waits for a byte from process `pid`. Panics if it has ended or takes longer than [`PATIENCE`]. The pipe shows
    /// no end of file, because concurrently forked children have it open too.
    fn take_from(self, pid: u32) {
        let end = Instant::now() + PATIENCE;
        let mut ready = libc::pollfd { fd: self.read, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor is polled, which outlives the call.
        while unsafe { libc::poll(&raw mut ready, 1, 20) } != 1 {
            assert!(
                !has_ended(pid) || is_ready(self.read),
                "child {pid} ended before it was ready: its own message is above"
            );
            assert!(Instant::now() < end, "child {pid} was not ready after {PATIENCE:?}");
        }
        self.take();
    }

    fn take(self) {
        let mut byte = [0_u8];
        // SAFETY: one byte is written to a valid place.
        assert_eq!(unsafe { libc::read(self.read, byte.as_mut_ptr().cast(), 1) }, 1);
    }
}

impl Child {
    /// Forks a process that waits, works and ends.
    pub fn waiting(work: impl FnOnce()) -> Self {
        Self::waiting_after(|| (), |()| work())
    }

    /// Forks a process that prepares, waits, works and ends. Returns once it has prepared.
    pub fn waiting_after<T>(prepare: impl FnOnce() -> T, work: impl FnOnce(T)) -> Self {
        let (go, done) = (Pipe::new(), Pipe::new());
        let pid = fork(|| {
            let prepared = prepare();
            done.give();
            go.take();
            work(prepared);
        });
        let child = Self { pid, go, done };
        done.take_from(pid);
        child
    }

    /// Forks a process whose threads wait with it and work first.
    pub fn with_waiting_threads(count: usize, thread: fn(), work: impl FnOnce()) -> Self {
        let start = Pipe::new();
        Self::waiting_after(
            || {
                let handles: Vec<_> = (0..count)
                    .map(|_| {
                        std::thread::spawn(move || {
                            start.take();
                            thread();
                        })
                    })
                    .collect();
                handles
            },
            |handles| {
                for _ in &handles {
                    start.give();
                }
                for handle in handles {
                    handle.join().unwrap();
                }
                work();
            },
        )
    }

    /// Forks a process with a child that waits with it and works first.
    pub fn with_waiting_fork(fork_work: impl FnOnce(), work: impl FnOnce()) -> Self {
        let start = Pipe::new();
        Self::waiting_after(
            || {
                fork(|| {
                    start.take();
                    fork_work();
                })
            },
            |pid| {
                start.give();
                wait(pid);
                work();
            },
        )
    }

    /// Forks a process that works at each [`Self::step`].
    pub fn in_steps(work: impl Fn(u64)) -> Self {
        let (go, done) = (Pipe::new(), Pipe::new());
        let pid = fork(|| {
            for step in 0.. {
                go.take();
                work(step);
                done.give();
            }
        });
        Self { pid, go, done }
    }

    /// Runs one step.
    pub fn step(&mut self) {
        self.go.give();
        self.done.take_from(self.pid);
    }

    pub fn let_go(self) -> Self {
        self.go.give();
        self
    }

    /// Waits until it ends successfully.
    pub fn join(mut self) -> Usage {
        let end = Instant::now() + PATIENCE;
        while !has_ended(self.pid) {
            // Dropping `self` kills the child.
            assert!(Instant::now() < end, "child {} had not ended after {PATIENCE:?}", self.pid);
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = std::mem::take(&mut self.pid);
        let usage = wait(pid);
        assert!(usage.ended_well, "child {pid} failed: its own message is above");
        usage
    }

    /// Lets it work and waits until it ends.
    pub fn run(self) -> Usage {
        self.let_go().join()
    }

    /// Returns the process's CPU time, read from outside.
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(self.pid)
    }

    /// Returns the first number of its `schedstat`.
    pub fn schedstat_ns(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    pub fn kill(&mut self) {
        let pid = std::mem::take(&mut self.pid);
        if pid != 0 {
            // SAFETY: the process is our child and was not waited for, so the number is still its own.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
            wait(pid);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        for fd in [self.go.read, self.go.write, self.done.read, self.done.write] {
            // SAFETY: the descriptors were opened by `Pipe::new` and are closed once.
            unsafe { libc::close(fd) };
        }
    }
}

fn fork(work: impl FnOnce()) -> u32 {
    let guard = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the tests' allocator and standard output survive a fork, and the child leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    drop(guard);
    assert!(pid >= 0);
    if pid == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: only ends the process.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    pid as u32
}

/// Waits for a child and reads its clock while it is a zombie.
fn wait(pid: u32) -> Usage {
    // SAFETY: plain numbers, so zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` has room for what is written.
    unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, libc::WEXITED | libc::WNOWAIT) };
    let cpu_ns = cpu_ns(pid);
    // SAFETY: plain numbers, so zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: `usage` has room for what is written.
    unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage) };
    let ended_well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    Usage { cpu_ns, switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64, ended_well }
}

/// Returns whether a child has ended but was not waited for.
fn has_ended(pid: u32) -> bool {
    // SAFETY: plain numbers, so zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` has room for what is written; the child stays to be waited for.
    let found = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, libc::WEXITED | libc::WNOWAIT | libc::WNOHANG) };
    // SAFETY: `waitid` fills this field, or leaves its zero.
    found == 0 && unsafe { info.si_pid() } != 0
}

/// Returns whether there is something to read.
fn is_ready(fd: i32) -> bool {
    let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is polled, which outlives the call.
    unsafe { libc::poll(&raw mut ready, 1, 0) == 1 }
}

fn cpu_ns(pid: u32) -> u64 {
    let mut clock = 0;
    // SAFETY: `clock` has room for the number.
    assert_eq!(unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) }, 0);
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the time.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the started programs; `None` if this machine cannot run them.
pub fn or_skip<T>(started: Result<T, Error>) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(error) => {
            let is_skipped = match error {
                Error::NoBtf(_) | Error::PidNamespace => true,
                Error::Permission(_) => !is_root(),
                _ => false,
            };
            assert!(is_skipped, "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// Loads counters; `None` if this machine cannot count.
pub fn counters(options: &CounterOptions) -> Option<KernelCounters> {
    or_skip(KernelCounters::load(options))
}

/// Selects only processes that are added later.
pub fn named() -> CounterOptions {
    let mut options = CounterOptions::for_ports([]);
    options.server = ProcessSelection::Named("no server was named".to_owned());
    options.client = ProcessSelection::Named("no client was named".to_owned());
    options
}

pub fn calls(role: &record::Role, name: &str) -> u64 {
    role.syscalls.get(name).map_or(0, |call| call.count)
}

pub fn is_root() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns a port that no other test gets and that the system does not assign (its ports start at 32768).
pub fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let _guard = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        // Concurrent programs start at different places.
        let number = std::process::id().wrapping_mul(97).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + number % COUNT) as u16;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

pub fn getppid(times: u64) {
    for _ in 0..times {
        // SAFETY: has no arguments and cannot fail.
        black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
}

pub fn close_nothing(times: u64) {
    for _ in 0..times {
        // SAFETY: there is no such descriptor.
        assert_eq!(unsafe { libc::close(-1) }, -1);
    }
}

/// Handles a signal this many times.
pub fn handle_signals(times: u64) {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, and the signals are this thread's own.
    unsafe {
        libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t);
        for _ in 0..times {
            assert_eq!(libc::raise(libc::SIGUSR1), 0);
        }
    }
}

/// Calls a number without a system call.
pub fn no_call(number: i64, times: u64) {
    for _ in 0..times {
        // SAFETY: the kernel refuses it.
        assert_eq!(unsafe { libc::syscall(number) }, -1);
    }
}

/// Makes seccomp refuse `getppid` to this process from now on.
pub fn refuse_getppid() {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let (load, jump, give) = (libc::BPF_LD | libc::BPF_W, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let step = |code, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(load | libc::BPF_ABS, 0, 0, 0),
        step(jump | libc::BPF_K, 0, 1, libc::SYS_getppid as u32),
        step(give | libc::BPF_K, 0, 0, refused),
        step(give | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the filter, whose length is given.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

pub fn fork_and_wait(work: impl FnOnce()) {
    wait(fork(work));
}

pub fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for value in 0..1_000 {
            black_box(value);
        }
    }
}

pub fn read_zeroes(times: u64, bytes: usize) {
    use std::io::Read as _;
    let mut zero = fs::File::open("/dev/zero").unwrap();
    let mut buffer = vec![0; bytes];
    for _ in 0..times {
        zero.read_exact(&mut buffer).unwrap();
    }
}

pub fn sleep_often(times: u64, time: Duration) {
    for _ in 0..times {
        std::thread::sleep(time);
    }
}

/// Returns false if that is not permitted.
pub fn leave_network_namespace() -> bool {
    // SAFETY: plain flags; this process has one thread.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

pub fn take_name(name: &str) {
    let name = CString::new(name).unwrap();
    // SAFETY: a C string that outlives the call.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

pub fn exec(command: &[&str]) {
    let words: Vec<CString> = command.iter().map(|word| CString::new(*word).unwrap()).collect();
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a list of C strings that ends with a null pointer.
    unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
}

/// Brings up loopback in this network namespace.
pub fn raise_loopback() {
    // SAFETY: makes a socket of plain numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    // SAFETY: plain numbers, so zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = libc::c_char::from_ne_bytes([b'l']);
    request.ifr_name[1] = libc::c_char::from_ne_bytes([b'o']);
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the request names an interface and its flags, and outlives the call.
    assert_eq!(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) }, 0);
    // SAFETY: the descriptor was opened above and is closed once.
    unsafe { libc::close(socket) };
}

/// `getppid` as a 32-bit program calls it: number 64 of another table.
#[cfg(target_arch = "x86_64")]
pub fn getppid_32(times: u64) {
    for _ in 0..times {
        let number = 64_u64;
        // SAFETY: the call has no arguments and accesses no memory of ours.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") number => _, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
    }
}

/// Sends `bytes` through a connection to `listener` and back.
pub fn talk_to_itself(listener: &TcpListener, bytes: usize) {
    use std::io::{Read as _, Write as _};
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = vec![0; 1_000];
    for _ in 0..bytes / buffer.len() {
        client.write_all(&buffer).unwrap();
        server.read_exact(&mut buffer).unwrap();
    }
}

/// Returns a socket bound to a known local address.
pub fn bound(local: std::net::SocketAddr) -> i32 {
    // SAFETY: makes a socket of plain numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    let place = ipv4(local);
    // SAFETY: the address outlives the call, which gets its size.
    assert_eq!(unsafe { libc::bind(socket, (&raw const place).cast(), size_of_val(&place) as u32) }, 0);
    socket
}

/// Returns how many segments the socket has retransmitted, from `TCP_INFO`.
pub fn retransmitted_segments(stream: &std::net::TcpStream) -> u32 {
    // SAFETY: the structure is plain integers, and the kernel writes at most `length` bytes of it.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of_val(&info) as libc::socklen_t;
        let target = (&raw mut info).cast();
        let result = libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, target, &raw mut length);
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        info.tcpi_total_retrans
    }
}

pub fn connected(socket: i32, to: std::net::SocketAddr) -> std::net::TcpStream {
    use std::os::fd::FromRawFd as _;
    let place = ipv4(to);
    // SAFETY: the address outlives the call, which gets its size.
    assert_eq!(unsafe { libc::connect(socket, (&raw const place).cast(), size_of_val(&place) as u32) }, 0);
    // SAFETY: the descriptor is a socket without another owner.
    unsafe { std::net::TcpStream::from_raw_fd(socket) }
}

fn ipv4(address: std::net::SocketAddr) -> libc::sockaddr_in {
    let std::net::SocketAddr::V4(address) = address else { panic!("{address} is not of IPv4") };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: address.ip().to_bits().to_be() },
        sin_zero: [0; 8],
    }
}
