//! What the allocator does with memory that is freed.

/// Has large blocks go back to the system when they are freed, for all of this process.
///
/// The GNU C library counts a block as large from 128 kB on, until the first such block is freed: from then on only what is larger than that
/// one. Buffers of packet files and batches of frames would be cut out of its heap after that, between small blocks that outlive them, and a
/// capture that goes on for long would grow although it holds no more than before. Other libraries keep no such account.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 128 << 10;
        // SAFETY: it sets a number of the allocator, under the allocator's own lock.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    /// Bytes of the address space that hold data.
    fn data_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_freed_block_is_given_back_whatever_lies_behind_it() {
        return_large_blocks();
        // Without that, freeing this one would have the next ones lie in the heap.
        drop(vec![1_u8; 8 << 20]);
        let before = data_bytes();
        let mut small = Vec::new();
        for _ in 0..64 {
            let large = vec![1_u8; 1 << 20];
            small.push(Box::new([1_u8; 64]));
            drop(large);
            small.push(Box::new([1_u8; 64]));
        }
        let large: Vec<Vec<u8>> = (0..64)
            .map(|_| {
                small.push(Box::new([1_u8; 64]));
                vec![1_u8; 1 << 20]
            })
            .collect();
        small.push(Box::new([1_u8; 64]));
        drop(large);
        let grown = data_bytes().saturating_sub(before);
        assert!(grown < 16 << 20, "{grown} bytes more than before, with {} small blocks", small.len());
    }
}
