//! Runs empty BPF programs at both ends of every system call (with `--return`, only at the return) until killed.
//! Their cost to a load is the least that any counter of system calls has. For `lab/measure/bench-peers.py`, as root.

mod empty;

use overhead_kernel::Error;

fn main() -> Result<(), Error> {
    let _attached = empty::attach(std::env::args().all(|word| word != "--return"))?;
    loop {
        std::thread::park();
    }
}
