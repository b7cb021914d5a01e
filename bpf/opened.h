/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types that the programs for opened connections share with user space. The Rust side is generated from their BTF.
 */
#ifndef OVERHEAD_OPENED_H
#define OVERHEAD_OPENED_H

enum opened_limits {
	/* Sockets between connect() and the transmission of their SYN, at a time. */
	OPENING_SLOTS = 65536,
	/* Connections by SYN, until its frame is read, and by both ends. The least recently used one is evicted. */
	OPENED_SLOTS = 131072,
	/* One bit per port. */
	OPENED_PORT_BYTES = 8192,
};

struct opened_settings {
	/* The process whose children are the command. */
	__u32 own_tgid;
	/* The captured network namespace. The ends of a connection on another one's loopback mean nothing there. */
	__u32 netns;
	__u8 ports[OPENED_PORT_BYTES];
};

/* A SYN, identified by fields that address translation usually keeps. */
struct syn_key {
	/* Initial sequence number. */
	__u32 sequence;
	__u32 client_port;
};

struct opened {
	/* CLOCK_MONOTONIC when the SYN was first sent. */
	__u64 time_ns;
	/* 1 if a process of the command opened it. */
	__u32 by_command;
	/* 1 once user space has read the frame of the SYN. */
	__u32 seen;
};

/* Totals since the programs were loaded. */
struct opened_counts {
	/* Connections that the command's processes opened. */
	__u64 by_command;
	/* Connections whose owner found no room. */
	__u64 lost;
};

#endif
