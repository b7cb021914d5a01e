//! Options that several programs share, and how they report mistakes in them.
//!
//! Each group of options lowers itself into a plan of `overhead-reading`, which holds decisions.

#![allow(clippy::missing_errors_doc)]
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod decode;
mod exit;
mod generate;
mod parse;
mod usage;

pub use decode::{DecodeArgs, KeyArgs, SampleArgs, WindowArgs};
pub use exit::code;
pub use generate::generate;
pub use parse::{matches, no_color, parsed};

/// Makes the allocator map blocks of a megabyte or more, so that they grow in place and return to the system when freed. By
/// default, glibc raises this limit while a program runs, and tables that grow next to each other then leave holes three times
/// their own size. A fixed limit would also fix the heap's trim size at 128 KiB: every compressor, made and freed, would fault
/// in its pages again.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: The call only sets allocator parameters, and no other thread is running yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 << 20);
    }
}
