/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types that the programs for UNIX stream sockets share with user space. The Rust side is generated from their BTF.
 */
#ifndef OVERHEAD_STREAMS_H
#define OVERHEAD_STREAMS_H

enum stream_limits {
	/* Bytes of a call in one record of the ring. A power of two. */
	PIECE_BYTES = 65536,
	/* Bytes of a socket's name (`sun_path`). */
	NAME_BYTES = 108,
	/* Wanted names, and files behind them. */
	WANTED_SLOTS = 64,
	/* Parts of one call; further ones are counted but not copied. */
	MOST_STEPS = 65536,
};

/* Why bytes of a call were not copied. */
enum absence {
	ABSENT_NOT = 0,
	/* Beyond the limit per call. */
	ABSENT_LIMIT = 1,
	/* Not in memory when the call returned. */
	ABSENT_FAULT = 2,
	/* The call has no user buffer: sendfile, splice. */
	ABSENT_CALL = 3,
	/* io_uring, and its request was not found. */
	ABSENT_RING = 4,
};

/* A socket's name, padded with zeros. An abstract name starts with a zero. */
struct stream_name {
	__u8 bytes[NAME_BYTES];
};

/* The file that a name leads to. */
struct stream_file {
	__u64 inode;
	__u64 device;
};

/* One end of a socket pair. State of both ends is kept with the server's. */
struct end {
	/* One of `end_kind`. */
	__u32 kind;
	/* Index of the wanted name. */
	__u32 wanted;
	/* Number of the connection, from 1. */
	__u64 id;
	/* The connection is older than the capture. */
	__u32 is_old;
	/* Process that connected, according to the server's socket. */
	__u32 client_pid;
	/* Bytes written and bytes read, to the server and from it. */
	__u64 sent[2];
	__u64 received[2];
	/* When bytes of a call were first read before it returned; 0 if there are none. */
	__u64 early_ns[2];
	/* Bytes that the writer's end had read of the other direction then. */
	__u64 early_seen[2];
};

enum end_kind {
	END_UNKNOWN = 0,
	END_OTHER = 1,
	END_SERVER = 2,
	END_CLIENT = 3,
};

/* Header of each record in the ring. */
struct piece {
	/* CLOCK_MONOTONIC when the call returned, or when its bytes were first read if that was earlier. */
	__u64 time_ns;
	__u64 id;
	/* Bytes of the direction before these. */
	__u64 offset;
	/* Bytes of the other direction that the writer had read. */
	__u64 seen;
	/* Length of this piece, and how much follows in this record. */
	__u32 length;
	__u32 captured;
	__u32 client_pid;
	__u32 wanted;
	/* System call number. */
	__s32 call;
	__u8 to_server;
	__u8 is_old;
	/* One of `absence`. */
	__u8 absent;
	/* A 32-bit program's call. */
	__u8 is_compat;
};

/* Totals, one copy per CPU. */
struct stream_sums {
	/* Calls on wanted sockets that wrote at least one byte, and their bytes. */
	__u64 calls;
	__u64 bytes;
	__u64 copied;
	/* Records that found no room in the ring, and their bytes. */
	__u64 lost;
	__u64 lost_bytes;
};

/* Settings that user space may change while the programs run. */
struct stream_settings {
	/* Bytes copied per call. */
	__u64 limit;
	/*
	 * 0 until the iterator has visited all connections. Those seen before that are older than the capture.
	 */
	__u64 marked;
};

/* A live connection, as the iterator writes it. */
struct stream_alive {
	__u64 id;
	__u64 client_pid;
};

#endif
