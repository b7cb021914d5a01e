//! Sharding of keys.

pub use crate::driver::keys::{MARKER, key};

/// Returns the server of a key: CRC-16 (XMODEM, as in Redis Cluster) modulo the number of servers.
pub fn shard(key: &[u8], shards: usize) -> usize {
    let crc = key.iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    });
    usize::from(crc) % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_redis_cluster() {
        // Redis Cluster specification, appendix A.
        assert_eq!(shard(b"123456789", 65_536), 0x31C3);
    }

    #[test]
    fn shards_share_evenly() {
        let mut counts = [0; 4];
        for id in 0..10_000 {
            counts[shard(&key(id), 4)] += 1;
        }
        assert!(counts.iter().all(|count| (2_200..2_800).contains(count)), "{counts:?}");
    }
}
