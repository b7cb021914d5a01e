//! BPF programs that do nothing at every system call, until it is ended: at both ends of each call, or with `--return` at the return
//! alone. What a load loses by them, no counter of system calls can be without. For `lab/measure/bench-peers`, as root.

use overhead_kernel::{EmptyPrograms, Error};

fn main() -> Result<(), Error> {
    let _attached = EmptyPrograms::attach(std::env::args().all(|word| word != "--return"))?;
    loop {
        std::thread::park();
    }
}
