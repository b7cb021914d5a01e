//! Prints what this kernel can measure, or why not: one tab-separated line each.
//! `sudo cargo run -p overhead-kernel --example capabilities`

use overhead_kernel::doctor;

fn main() {
    for capability in doctor() {
        match capability.outcome {
            Ok(()) => println!("capability\t{}\tyes", capability.name),
            Err(absence) => println!("capability\t{}\tno\t{}", capability.name, absence.reason),
        }
    }
}
