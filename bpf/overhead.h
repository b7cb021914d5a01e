/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types shared by the BPF programs and user space. `overhead-kernel` generates its types from their BTF.
 *
 * Units: `_ns` is nanoseconds, bytes are bytes, everything else is a count.
 */
#ifndef OVERHEAD_H
#define OVERHEAD_H

enum limits {
	/* System call numbers counted separately, all of today's (below 480). The last slot takes all others. */
	CALL_SLOTS = 512,
	/* Processes known at a time. Further descendants are counted by their parent's role, without an entry here. */
	PROCESS_SLOTS = 16384,
	/* CPUs with cycle counters. */
	CPU_SLOTS = 1024,
	/* Bytes of a command name, including the NUL. */
	COMM_BYTES = 16,
	/* One bit per port. */
	PORT_SET_BYTES = 8192,
	/* Connections with known owners; the least recently used one is evicted. */
	CONNECTION_SLOTS = 65536,
	/* Different 32-bit system calls, over all slots. */
	COMPAT_SLOTS = 1024,
	/* Different system calls counted separately in a slice. */
	SLICE_CALLS = 8,
	/* Size of the ring buffer of slices. A power of two. */
	SLICE_BUFFER_BYTES = 4 << 20,
};

enum role {
	ROLE_NONE = 0,
	ROLE_SERVER = 1,
	ROLE_CLIENT = 2,
};

/*
 * Counts are kept in slots, one for each family (a process and its descendants) of a role, so that families
 * unrelated to the captured traffic can be left out at the end. Odd slots are servers', even ones clients'.
 */
enum slot {
	SLOT_NONE = 0,
	/* For all families of a role that found no free slot. */
	SLOT_SERVERS = ROLE_SERVER,
	SLOT_CLIENTS = ROLE_CLIENT,
	SLOT_FIRST = 3,
};

/* Which cycle counters `cycle_events` holds. */
enum cycle_mode {
	CYCLES_OFF = 0,
	/* Index `cpu`: user mode; index `CPU_SLOTS + cpu`: kernel mode. */
	CYCLES_SPLIT = 1,
};

struct call {
	/* Calls that returned, or never return. */
	__u64 count;
	/* Of these, calls that returned -4095..-1. */
	__u64 errors;
	/* Of these, timed calls. */
	__u64 timed;
	/* CPU time inside the timed calls, without waiting. */
	__u64 timed_ns;
};

/* The scheduler's accounting of a task. */
struct usage {
	/* Time on a CPU, including the current slice. */
	__u64 cpu_ns;
	/* The kernel's account of user and system mode (by clock ticks on most kernels). */
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

/* Cycles by mode, and how long a perf event was enabled and running. */
struct cycle_use {
	__u64 user;
	__u64 kernel;
	__u64 enabled_ns;
	__u64 running_ns;
	/* Slices whose beginning was not seen, which are not counted above. */
	__u64 missed;
};

/* Sums per slot; one copy per CPU. */
struct totals {
	struct call calls[CALL_SLOTS];
	/* Usage of ended threads. */
	struct usage ended;
	/* Changes to `ended`: if it differs before and after a reading, the reading is repeated. */
	__u64 settlements;
	__u64 wakeups;
	struct socket_use socket;
	/* Sent and received through UNIX sockets, and as the server of other ports. */
	__u64 elsewhere_bytes;
	__u64 retransmissions;
	struct cycle_use cycles;
	/* Processes that found no free slot. */
	__u64 nameless;
	/* Threads that got the slot. */
	__u64 threads;
	/* Of these, threads that had the slot from before their process's first connect. */
	__u64 moved;
};

struct cpu {
	/* The running thread's slot as of the last switch, */
	__u32 slot;
	/* the `generation` of that lookup, 0 if it was never looked up, */
	__u32 generation;
	/* and 1 if it has bits of `observed`. */
	__u32 is_observed;
	__u32 spare;
	/* CLOCK_MONOTONIC minus the scheduler's clock on this CPU, as of the last switch to a thread with a role. */
	__u64 clock_offset;
	__u64 rx_start_ns;
	__u64 rx_count;
	__u64 rx_ns;
	__u64 tx_start_ns;
	__u64 tx_count;
	__u64 tx_ns;
	/* Thread whose cycles are being counted, or 0; its slot; the counters at its switch. */
	__u32 cycles_tid;
	__u32 cycles_slot;
	struct cycle_use cycles_from;
};

/* Which calls are timed while the program at the entry is attached. Written by user space. */
struct timing_window {
	/* One in this many. A power of two. */
	__u32 one_in;
	__u32 spare;
	/* CLOCK_MONOTONIC. */
	__u64 end_ns;
};

/* A process that has a slot. */
struct process {
	__u32 slot;
	/* Inode of its network namespace when first seen; 0 if unknown. */
	__u32 netns;
	/* 0 after its last thread has ended: the number may be reused. */
	__u32 alive;
	/* 1 if the slot is its own family's, not inherited. */
	__u32 founder;
	/* 1 if the slot has only what a client does from its first connect on. */
	__u32 connected;
	/* The slot before that connect; SLOT_NONE if it had none. */
	__u32 slot_before;
	/* CLOCK_MONOTONIC when first seen. */
	__u64 since_ns;
	__u8 comm[COMM_BYTES];
};

/* A thread of any process: its slot, or that it has none. */
struct thread {
	__u32 slot;
	/* Value of `generation` at the last lookup of its process. */
	__u32 generation;
	/* Bits of `observed`. */
	__u32 observed;
	__u32 spare;
	/* CPU time at the entry to a timed call. */
	__u64 timed_from_ns;
	/* Usage when it got its slot, or when it was last moved to `totals.ended`. */
	struct usage from;
};

/* Special values next to system call numbers. */
enum call_numbers {
	CALL_NONE = -1,
	/* Flag of a 32-bit call's number. */
	CALL_COMPAT = 1 << 29,
};

struct compat_key {
	__u32 slot;
	__u32 number;
};

struct connection {
	/* Slot of the process that first sent or received through the socket. */
	__u32 slot;
	/* 1 if kernel TLS lies between the process and TCP, so that bytes are counted before it. */
	__u32 layered;
};

struct socket {
	__u32 slot;
	/* Sends and receives, modulo 2^32. */
	__u32 uses;
};

/* Bits of `thread.observed`. */
enum observed {
	/* In a timed system call. */
	OBSERVED_TIME = 1,
	/* In a system call whose entry was sampled. */
	OBSERVED_CALL = 2,
	/* A slice is open. */
	OBSERVED_SLICE = 4,
};

/* Slices that start in this window are reported. User space writes the struct before each window. */
struct sampling_window {
	/* Time the entries of system calls. */
	__u32 armed;
	__u32 number;
	/* CLOCK_MONOTONIC. The end moves forward once no more slices may start. */
	__u64 start_ns;
	__u64 end_ns;
	/* Slices that may still start. */
	__s64 left;
	/* Slices that found no room in the buffer, since the programs were loaded. */
	__u64 dropped;
};

/* The start of the slice: a socket, or the event loop's wait. */
enum slice_kind {
	SLICE_LOOP = 1,
	SLICE_RECEIVE = 2,
	SLICE_SEND = 3,
	/* A socket on no captured port, or one with kernel TLS. */
	SLICE_ELSEWHERE = 4,
};

/* One thread's work from the entry to a system call that touches a socket to the entry to the next one. */
struct slice {
	__u32 window;
	__u32 tid;
	__u32 slot;
	__u16 kind;
	/* 1 if no byte was moved: `from` is the byte before, or one that was peeked at. */
	__u16 is_empty;
	/* TCP sequence number of the first byte, and number of bytes. */
	__u32 from;
	__u32 len;
	struct connection_key connection;
	/* Time on a CPU, and its part in system calls. */
	__u64 ns;
	__u64 in_calls_ns;
	/* System call numbers plus 1; 0 marks a free entry. */
	__u16 numbers[SLICE_CALLS];
	__u16 counts[SLICE_CALLS];
	/* Calls without an entry. */
	__u64 other_calls;
};

/* An open slice, and the system call that its thread is in. */
struct slice_under_way {
	struct slice slice;
	/* On the clock of the thread's CPU time. */
	__u64 begun_ns;
	__u64 entered_ns;
	/* Time that sampling itself took: in the slice before this call, and in this call since the slice started. */
	__u64 own_ns;
	__u64 own_in_call_ns;
	/* The socket. */
	__u64 sk;
	/* The call was entered in a window. */
	__u32 is_in_window;
	/* The call has touched a socket. */
	__u32 has_touched;
};

/* A live thread with a slot, as the iterator writes it. */
struct reading {
	__u32 tid;
	__u32 tgid;
	__u32 slot;
	__u32 on_cpu;
	__u8 comm[COMM_BYTES];
	/* Usage since it got its slot. */
	struct usage used;
};

#endif
