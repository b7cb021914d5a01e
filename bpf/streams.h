/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * What the program that takes the bytes of UNIX stream sockets shares with user space, which has its types generated from
 * these.
 */
#ifndef OVERHEAD_STREAMS_H
#define OVERHEAD_STREAMS_H

enum stream_limits {
	/* Bytes of a call in one record of the ring, at most. A power of two. */
	PIECE_BYTES = 65536,
	/* Bytes of a socket's name (`sun_path`). */
	NAME_BYTES = 108,
	/* Names, and files behind them, that can be wanted. */
	WANTED_SLOTS = 64,
	/* Parts of one call: what is beyond is counted and not copied. */
	MOST_STEPS = 65536,
};

/* Why the bytes of a call were not copied, or not all of them. */
enum absence {
	ABSENT_NOT = 0,
	/* Beyond the limit per call that was asked for. */
	ABSENT_LIMIT = 1,
	/* Not in memory when the call returned. */
	ABSENT_FAULT = 2,
	/* The call has no buffer of the process: sendfile, splice. */
	ABSENT_CALL = 3,
	/* io_uring, and its request was not found. */
	ABSENT_RING = 4,
};

/* A socket's name, zeros behind it; an abstract one begins with a zero. */
struct stream_name {
	__u8 bytes[NAME_BYTES];
};

/* The file that a name leads to. */
struct stream_file {
	__u64 inode;
	__u64 device;
};

/* One end of a socket pair; what both have in common is kept with the server's. */
struct end {
	/* One of `end_kind`. */
	__u32 kind;
	/* Index of the wanted name. */
	__u32 wanted;
	/* Number of the connection, from 1. */
	__u64 id;
	/* It was there before the capture. */
	__u32 is_old;
	/* Process that connected, as the server's socket has it. */
	__u32 client_pid;
	/* By direction, to the server and from it: bytes written, and bytes read. */
	__u64 sent[2];
	__u64 received[2];
	/* When bytes were first read whose call had not returned yet; 0 where all have. */
	__u64 early_ns[2];
	/* What their writer's end had read of the other direction then. */
	__u64 early_seen[2];
};

enum end_kind {
	END_UNKNOWN = 0,
	END_OTHER = 1,
	END_SERVER = 2,
	END_CLIENT = 3,
};

/* What stands before the bytes of each record in the ring. */
struct piece {
	/* CLOCK_MONOTONIC when the call returned, or when its bytes were first read, whichever was earlier. */
	__u64 time_ns;
	__u64 id;
	/* Bytes of the direction before these. */
	__u64 offset;
	/* Bytes of the other direction that the writer had read. */
	__u64 seen;
	/* Length of this piece, and how much of it follows. */
	__u32 length;
	__u32 captured;
	__u32 client_pid;
	__u32 wanted;
	/* Number of the system call. */
	__s32 call;
	__u8 to_server;
	__u8 is_old;
	/* One of `absence`. */
	__u8 absent;
	/* The call was one of a 32-bit program. */
	__u8 is_compat;
};

/* What was done, one copy for each CPU. */
struct stream_sums {
	/* Calls on the wanted sockets that wrote at least one byte, and their bytes. */
	__u64 calls;
	__u64 bytes;
	__u64 copied;
	/* Records that found no room in the ring, and their bytes. */
	__u64 lost;
	__u64 lost_bytes;
};

/* What user space may change while the programs run. */
struct stream_settings {
	/* Bytes that are copied of each call, at most. */
	__u64 limit;
	/*
	 * 0 until the iterator has passed over the connections that are there when the programs run: those, and all that
	 * is seen until then, are older than the capture.
	 */
	__u64 marked;
};

/* A live connection, as the iterator writes it. */
struct stream_alive {
	__u64 id;
	__u64 client_pid;
};

#endif
