/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * What the BPF programs and user space share. The Rust side is generated from the BTF of these types when the crate
 * `overhead-kernel` is built: nothing here is written a second time.
 *
 * Units: `_ns` is nanoseconds, bytes are bytes, everything else is a count.
 */
#ifndef OVERHEAD_H
#define OVERHEAD_H

enum limits {
	/* System call numbers with a slot of their own; today's last one is below 480. The last slot takes all others. */
	CALL_SLOTS = 512,
	/* Processes that can be known at a time: a following one is counted by its parent's role, without an entry here. */
	PROCESS_SLOTS = 16384,
	/* CPUs for which a cycle counter can be kept. */
	CPU_SLOTS = 1024,
	/* Bytes of a command name, the final NUL included. */
	COMM_BYTES = 16,
	/* Bytes of the set of ports: one bit for each. */
	PORT_SET_BYTES = 8192,
	/* One system call in this many is timed, on average. A power of two. */
	TIMED_EVERY = 16,
	/* Connections whose owners are remembered; the one unused for longest makes room. */
	CONNECTION_SLOTS = 65536,
	/* Different 32-bit system calls, over all slots. */
	COMPAT_SLOTS = 1024,
};

enum role {
	ROLE_NONE = 0,
	ROLE_SERVER = 1,
	ROLE_CLIENT = 2,
};

/*
 * Counts are kept in slots: one for each family (a process and its descendants) of a role, so that a family that has
 * nothing to do with the captured traffic can be left out at the end. Odd slots are of servers, even ones of clients.
 */
enum slot {
	SLOT_NONE = 0,
	/* For all families of a role that found no slot of their own. */
	SLOT_SERVERS = ROLE_SERVER,
	SLOT_CLIENTS = ROLE_CLIENT,
	SLOT_FIRST = 3,
};

/* Which cycle counters the table `cycle_events` holds. */
enum cycle_mode {
	CYCLES_OFF = 0,
	/* Index `cpu`: user mode; index `CPU_SLOTS + cpu`: kernel mode. */
	CYCLES_SPLIT = 1,
};

/* One system call of one slot. */
struct call {
	/* Calls that returned, or never return. */
	__u64 count;
	/* Of these, the ones that returned -4095..-1. */
	__u64 errors;
	/* Of these, the ones timed. */
	__u64 timed;
	/* CPU time inside the timed ones; waiting is not in it. */
	__u64 timed_ns;
};

/* What the scheduler itself keeps of a task. */
struct usage {
	/* Time on a CPU, the current slice included. */
	__u64 cpu_ns;
	/* The kernel's own account of user and system mode, as it is kept (by clock ticks on most kernels). */
	__u64 user_ns;
	__u64 system_ns;
	__u64 voluntary;
	__u64 involuntary;
	__u64 migrations;
	/* Page faults: time in the kernel outside system calls. */
	__u64 faults;
};

/* Sends and receives at the socket layer that moved at least one byte. */
struct socket_use {
	__u64 send_calls;
	__u64 send_bytes;
	__u64 recv_calls;
	__u64 recv_bytes;
};

/* Cycles by mode, with the times a perf event was wanted and really counted. */
struct cycle_use {
	__u64 user;
	__u64 kernel;
	__u64 enabled_ns;
	__u64 running_ns;
	/* Slices whose beginning was not seen, and which are therefore not in the above. */
	__u64 missed;
};

/* Everything that is added up per slot; one copy per CPU. */
struct totals {
	struct call calls[CALL_SLOTS];
	/* Use by threads that have ended. */
	struct usage ended;
	/* Changes to `ended`: unequal before and after a reading means that the reading is to be repeated. */
	__u64 settlements;
	__u64 wakeups;
	struct socket_use socket;
	/* Sent and received through UNIX sockets, and as the server of other ports. */
	__u64 elsewhere_bytes;
	__u64 retransmissions;
	struct cycle_use cycles;
	/* Processes that found no free slot. */
	__u64 nameless;
};

/* State of one CPU that belongs to no role. */
struct cpu {
	/* CLOCK_MONOTONIC minus the scheduler's clock on this CPU, as of the last switch to a thread of a role. */
	__u64 clock_offset;
	__u64 rx_start_ns;
	__u64 rx_count;
	__u64 rx_ns;
	__u64 tx_start_ns;
	__u64 tx_count;
	__u64 tx_ns;
	/* Thread whose cycles are being counted, or 0; its slot; the counters as they stood when it came. */
	__u32 cycles_tid;
	__u32 cycles_slot;
	struct cycle_use cycles_from;
};

/* A process that has a slot. */
struct process {
	__u32 slot;
	/* Number of its network namespace when it was first seen; 0 where that is not known. */
	__u32 netns;
	/* 0 when its last thread has ended: its number may be given to another process. */
	__u32 alive;
	/* 1 where the slot is that of its own family, not its parent's. */
	__u32 founder;
	/* CLOCK_MONOTONIC when it was first seen. */
	__u64 since_ns;
	__u8 comm[COMM_BYTES];
};

/* A thread of any process: a slot, or the verdict that it has none. */
struct thread {
	__u32 slot;
	/* Value of `generation` when its process was last looked up. */
	__u32 generation;
	/* System call it is in, or one of `call_state`. */
	__s32 call;
	/* System calls until the next timed one. */
	__u32 countdown;
	/* State of the generator that spreads the timed calls. */
	__u32 random;
	/* The current call is a timed one. */
	__u32 timing;
	__u64 timed_from_ns;
	/* What it had used when it got its slot, or when it was last moved to `totals.ended`. */
	struct usage from;
	__u64 calls;
	struct socket_use socket;
};

/* Values of `thread.call` that are no system call numbers. */
enum call_state {
	CALL_NONE = -1,
	/* It got its slot while in a system call, perhaps. */
	CALL_UNKNOWN = -2,
	/* Set beside the number of a 32-bit call. */
	CALL_COMPAT = 1 << 29,
};

/* A 32-bit system call of one slot. */
struct compat_key {
	__u32 slot;
	__u32 number;
};

/* A connection as the socket of one of its ends sees it. Addresses are those of IPv6, of IPv4 the mapped ones. */
struct connection_key {
	__u32 netns;
	__u16 local_port;
	__u16 remote_port;
	__u32 local[4];
	__u32 remote[4];
};

/* Who owns the socket. */
struct connection {
	/* Of the process that first sent or received through it. */
	__u32 slot;
	/* 1 where a protocol in the kernel (TLS) lies between the process and TCP: bytes are counted before it. */
	__u32 layered;
};

/* A socket that counts. */
struct socket {
	__u32 slot;
	/* Sends and receives, modulo 2^32. */
	__u32 uses;
};

/* A live thread of a slot, as the iterator writes it. */
struct reading {
	__u32 tid;
	__u32 tgid;
	__u32 slot;
	__u32 on_cpu;
	__u8 comm[COMM_BYTES];
	/* Use since it got its slot. */
	struct usage used;
	__u64 calls;
	struct socket_use socket;
};

#endif
