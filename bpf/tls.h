/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types that the programs for TLS secrets share with user space. The Rust side is generated from their BTF.
 */
#ifndef OVERHEAD_TLS_H
#define OVERHEAD_TLS_H

#include "connection.h"

enum tls_limits {
	/* Processes followed at a time. */
	TLS_PROCESSES = 16384,
	/* Bytes of a label with its NUL, of a client's random, and of the longest secret. */
	TLS_LABEL = 48,
	TLS_RANDOM = 32,
	TLS_SECRET = 64,
	/* Descriptors of a process among which the socket of a handshake is searched. */
	TLS_DESCRIPTORS = 4096,
	/* Sockets reported for a handshake, and watched for their end. */
	TLS_CANDIDATES = 64,
	TLS_SOCKETS = 65536,
	/* Bytes that a handshake exchanges in each direction, at most, and ticks since its last packet. */
	TLS_HANDSHAKE_BYTES = 65536,
	TLS_HANDSHAKE_TICKS = 250,
};

/* A secret, or a process that starts a program, whose `secret_len` is 0. */
struct tls_event {
	/* CLOCK_MONOTONIC at the call. */
	__u64 time_ns;
	/* Address of the library's object of the connection; others may have had it before. */
	__u64 object;
	__u32 tgid;
	__u32 tid;
	/* 0 if the function does not have the client's random. */
	__u32 random_len;
	__u32 secret_len;
	__u8 label[TLS_LABEL];
	__u8 random[TLS_RANDOM];
	__u8 secret[TLS_SECRET];
};

/*
 * A TCP socket of the process whose thread derived the latest secret, perhaps that of the handshake; or such a socket that
 * has closed. Shorter than a secret.
 */
struct tls_socket {
	struct connection_key ends;
	__u32 tid;
	__u32 is_closed;
	/* Sequence numbers of the next bytes to send and to read. */
	__u32 write_seq;
	__u32 copied_seq;
};

struct tls_settings {
	/* Take the secrets of all processes, not only of followed ones, and report programs that start. */
	__u32 all;
	/* Report the sockets that may be those of a handshake, and their end. */
	__u32 sockets;
};

/* Totals since the programs were loaded. */
struct tls_counts {
	__u64 secrets;
	/* No room in the ring buffer. */
	__u64 lost;
	/* Not readable in the process, or of a length that no secret has. */
	__u64 unread;
};

#endif
