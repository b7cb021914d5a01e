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
	/* Connections whose owners are remembered; the one unused for longest makes room. */
	CONNECTION_SLOTS = 65536,
	/* Different 32-bit system calls, over all slots. */
	COMPAT_SLOTS = 1024,
	/* Different system calls that one slice tells apart. */
	SLICE_CALLS = 8,
	/* Bytes of the buffer for slices. A power of two. */
	SLICE_BUFFER_BYTES = 4 << 20,
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

/* State of one CPU. */
struct cpu {
	/* Of the thread that runs on it, as of its switch to it: its slot, */
	__u32 slot;
	/* the `generation` that this is the verdict of, 0 where it was never judged, */
	__u32 generation;
	/* and 1 where it has bits of `observed`. */
	__u32 is_observed;
	__u32 spare;
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

/* Which of the calls that are entered while the program at the entry is attached are timed. User space writes it. */
struct timing_window {
	/* One in so many: a power of two. */
	__u32 one_in;
	__u32 spare;
	/* CLOCK_MONOTONIC. */
	__u64 end_ns;
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
	/* Bits of `observed`. */
	__u32 observed;
	__u32 spare;
	/* Time on a CPU as of the entry to a call that is timed. */
	__u64 timed_from_ns;
	/* What it had used when it got its slot, or when it was last moved to `totals.ended`. */
	struct usage from;
};

/* Beside the numbers of system calls. */
enum call_numbers {
	CALL_NONE = -1,
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

/* Bits of `thread.observed`. */
enum observed {
	/* It is in a system call that is timed. */
	OBSERVED_TIME = 1,
	/* It is in a system call whose entry sampling saw. */
	OBSERVED_CALL = 2,
	/* A slice of it is open. */
	OBSERVED_SLICE = 4,
};

/* Which slices are to be told of: those that begin in a window. User space writes all of it before each window. */
struct sampling_window {
	/* Entries of system calls are timed. */
	__u32 armed;
	__u32 number;
	/* CLOCK_MONOTONIC. The end moves forward to when no more slices may begin. */
	__u64 start_ns;
	__u64 end_ns;
	/* Slices that may still begin. */
	__s64 left;
	/* Slices that found no room in the buffer, since the programs were loaded. */
	__u64 dropped;
};

/* What a thread did from a touch of a socket on, or from the loop's waiting on. */
enum slice_kind {
	SLICE_LOOP = 1,
	SLICE_RECEIVE = 2,
	SLICE_SEND = 3,
	/* A socket of no captured port, or one whose bytes are not those of TCP. */
	SLICE_ELSEWHERE = 4,
};

/* A slice: the work of one thread from the entry of the system call that touched a socket to that of the next that does. */
struct slice {
	__u32 window;
	__u32 tid;
	__u32 slot;
	__u16 kind;
	/* 1 where no byte was moved: `from` is the byte before, or one that was peeked at. */
	__u16 is_empty;
	/* The bytes moved: TCP sequence number of the first, and how many. */
	__u32 from;
	__u32 len;
	struct connection_key connection;
	/* Time on a CPU, and of it in system calls. */
	__u64 ns;
	__u64 in_calls_ns;
	/* System calls by number, each plus 1; 0 for a free place. */
	__u16 numbers[SLICE_CALLS];
	__u16 counts[SLICE_CALLS];
	/* Those that found no place. */
	__u64 other_calls;
};

/* A slice that is not over, and the system call that its thread is in. */
struct slice_under_way {
	struct slice slice;
	/* On the clock of the thread's time on a CPU. */
	__u64 begun_ns;
	__u64 entered_ns;
	/* Time that sampling itself took: in the slice up to this call, and in this call since the slice began. */
	__u64 own_ns;
	__u64 own_in_call_ns;
	/* The socket. */
	__u64 sk;
	/* The call was entered in a window. */
	__u32 is_in_window;
	/* The call has touched a socket. */
	__u32 has_touched;
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
};

#endif
