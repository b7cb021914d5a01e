/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types that the programs for TLS libraries share with user space. The Rust side is generated from their BTF.
 */
#ifndef OVERHEAD_TLS_H
#define OVERHEAD_TLS_H

enum tls_limits {
	/* Processes followed at a time. */
	TLS_PROCESSES = 16384,
	/* Threads inside a call at a time. */
	TLS_CALLS = 16384,
	/* SSL objects; the least recently used one is evicted. */
	TLS_OBJECTS = 65536,
	/* Bytes per event: the payload of a TLS record. A power of two. */
	TLS_CHUNK = 16384,
	/* Smaller events, for shorter calls. Powers of two. */
	TLS_SHORT = 256,
	TLS_MIDDLE = 2048,
	/* One bit per port. */
	TLS_PORT_BYTES = 8192,
	/* Events per call: 256 MiB. */
	TLS_CHUNKS = 16384,
};

/* Function of the library, from the attachment's cookie. */
enum tls_function {
	TLS_READ = 0,
	TLS_READ_EX = 1,
	TLS_WRITE = 2,
	TLS_WRITE_EX = 3,
	TLS_SENDFILE = 4,
};

enum tls_flags {
	/* Sent by the process, not received. */
	TLS_SENT = 1,
	/* The connection is known, with sequence numbers in `from` and `to`. */
	TLS_JOINED = 2,
	/* The `len` bytes could not be read. */
	TLS_UNREAD = 4,
	/* The library read the bytes from a file itself. */
	TLS_FILE = 8,
};

/* All or a part of what one call has read or written. */
struct tls_event {
	/* CLOCK_MONOTONIC at the return of the call. */
	__u64 time_ns;
	/* Number of the SSL object, unique in this run. */
	__u64 stream;
	/* Offset of the bytes in this direction of the SSL object, since it was first seen. */
	__u64 offset;
	/* Bytes of the call, and how many are in earlier events. */
	__u64 call_bytes;
	__u64 call_before;
	__u32 tgid;
	__u32 tid;
	struct connection_key connection;
	/* TCP sequence numbers of the socket: from the end of the previous call that moved bytes to the end of
	   this one. */
	__u32 from;
	__u32 to;
	__u32 flags;
	__u32 len;
	__u8 bytes[];
};

/* A call that has not returned. */
struct tls_call {
	__u64 ssl;
	__u64 buffer;
	/* Address of the function's output for the number of bytes; 0 if its result is the number. */
	__u64 moved;
	__u32 function;
	__u32 unused;
};

struct tls_object_key {
	__u64 ssl;
	__u32 tgid;
	__u32 unused;
};

struct tls_direction {
	__u64 offset;
	__u32 from;
	__u32 to;
	/* `from` is valid: something was moved since the last successful call. */
	__u32 is_begun;
	__u32 unused;
};

struct tls_object {
	__u64 stream;
	/* Its socket, or 0. */
	__u64 socket;
	struct connection_key connection;
	struct tls_direction directions[2];
};

struct tls_ports {
	__u32 only_these;
	__u8 set[TLS_PORT_BYTES];
};

/* Totals since the programs were loaded. */
struct tls_counts {
	/* Events that found no room, and their bytes. */
	__u64 lost_events;
	__u64 lost_bytes;
	/* Bytes that could not be read. */
	__u64 unread_bytes;
	/* Bytes that the library sent from files. */
	__u64 file_bytes;
	/* Bytes of connections on other ports, and of calls whose socket is unknown. */
	__u64 elsewhere_bytes;
	__u64 unjoined_bytes;
	/* Calls that moved bytes, and their bytes. */
	__u64 calls;
	__u64 bytes;
};

#endif
