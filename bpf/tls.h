/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * What the programs at the calls of a TLS library and user space share; the Rust side is generated from the BTF of these types.
 */
#ifndef OVERHEAD_TLS_H
#define OVERHEAD_TLS_H

enum tls_limits {
	/* Processes that can be followed at a time. */
	TLS_PROCESSES = 16384,
	/* Threads that can be inside a call at a time. */
	TLS_CALLS = 16384,
	/* SSL objects that are remembered; the one unused for longest makes room. */
	TLS_OBJECTS = 65536,
	/* Bytes in one event at most: what a record of TLS can carry. A power of two. */
	TLS_CHUNK = 16384,
	/* Smaller events, for shorter calls. Powers of two. */
	TLS_SHORT = 256,
	TLS_MIDDLE = 2048,
	/* Bytes of the set of ports. */
	TLS_PORT_BYTES = 8192,
	/* Events of one call at most: 256 MiB. */
	TLS_CHUNKS = 16384,
};

/* Which function of the library, as the attachment says. */
enum tls_function {
	TLS_READ = 0,
	TLS_READ_EX = 1,
	TLS_WRITE = 2,
	TLS_WRITE_EX = 3,
	TLS_SENDFILE = 4,
};

enum tls_flags {
	/* Bytes that the process has sent, not received. */
	TLS_SENT = 1,
	/* The connection is known, and `from` and `to` are numbers of it. */
	TLS_JOINED = 2,
	/* The bytes could not be read; `len` of them are missing. */
	TLS_UNREAD = 4,
	/* The content is a file's, which the library has read by itself. */
	TLS_FILE = 8,
};

/* A connection as the socket of one of its ends sees it. Addresses are those of IPv6, of IPv4 the mapped ones. */
struct tls_connection {
	__u32 netns;
	__u16 local_port;
	__u16 remote_port;
	__u32 local[4];
	__u32 remote[4];
};

/* A part of what one call has read or written. */
struct tls_event {
	/* CLOCK_MONOTONIC at the return of the call. */
	__u64 time_ns;
	/* Number of the SSL object, unique in this run. */
	__u64 stream;
	/* Where its bytes lie in what the SSL object has sent, or received, since it was first seen. */
	__u64 offset;
	/* Bytes of the call, and how many of them are in events before this one. */
	__u64 call_bytes;
	__u64 call_before;
	__u32 tgid;
	__u32 tid;
	struct tls_connection connection;
	/* TCP sequence numbers: what was sent or received through the socket since the last call that moved bytes, this one included. */
	__u32 from;
	__u32 to;
	__u32 flags;
	__u32 len;
	__u8 bytes[];
};

/* A call of a thread that has not returned. */
struct tls_call {
	__u64 ssl;
	__u64 buffer;
	/* Where the function puts how much it has moved; 0 where that is its result. */
	__u64 moved;
	__u32 function;
	__u32 unused;
};

struct tls_object_key {
	__u64 ssl;
	__u32 tgid;
	__u32 unused;
};

/* One direction of an SSL object. */
struct tls_direction {
	__u64 offset;
	__u32 from;
	__u32 to;
	/* `from` stands: something was moved since the last call that succeeded. */
	__u32 is_begun;
	__u32 unused;
};

/* An SSL object. */
struct tls_object {
	__u64 stream;
	/* Its socket, or 0. */
	__u64 socket;
	struct tls_connection connection;
	struct tls_direction directions[2];
};

/* Ports whose connections are wanted: one bit for each. */
struct tls_ports {
	__u32 only_these;
	__u8 set[TLS_PORT_BYTES];
};

/* What is counted, since the programs were loaded. */
struct tls_counts {
	/* Events and the bytes of the calls that found no room. */
	__u64 lost_events;
	__u64 lost_bytes;
	/* Bytes that were not to be read. */
	__u64 unread_bytes;
	/* Bytes that the library has sent out of files by itself. */
	__u64 file_bytes;
	/* Bytes of connections of other ports, and of calls whose socket is not known. */
	__u64 elsewhere_bytes;
	__u64 unjoined_bytes;
	/* Calls that moved bytes, and their bytes. */
	__u64 calls;
	__u64 bytes;
};

#endif
