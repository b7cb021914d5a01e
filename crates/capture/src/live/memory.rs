/// Makes the allocator return freed large blocks to the system, for the whole process.
///
/// By default glibc raises its threshold for large blocks (128 kB) whenever one is freed. Later packet buffers and
/// frame batches would then come from the heap, between small blocks that outlive them, and a long capture would
/// grow. Other libraries have no such threshold.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 128 << 10;
        // SAFETY: sets a number in the allocator, under the allocator's lock.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    /// Returns the bytes of data in the address space (`VmData`).
    fn data_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_freed_block_is_given_back_whatever_lies_behind_it() {
        return_large_blocks();
        // Without the setting, freeing this block would put the next ones into the heap.
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
