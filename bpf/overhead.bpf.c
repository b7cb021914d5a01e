/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Counts what the processes of two roles, server and client, ask of the kernel. Every event takes O(1), none is
 * sent to user space, and most system calls read no clock. User space reads the maps at both ends of a window.
 *
 * Every thread has its slot in task-local storage, and each CPU has the running thread's slot from switch to
 * switch, so a system call needs no lookup. A thread that was never looked up, or not since the last process got a
 * slot, is looked up by process at its next event.
 * The owner of each connection is recorded once per socket; user space compares it with the captured connections.
 *
 * System calls are counted at their return. The program at their entry times them; it is attached for a moment at
 * the beginning and then for short windows, or throughout when sampling work by operation.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "connection.h"
#include "overhead.h"

/* Triple licence; the kernel must recognise the first one to allow `bpf_perf_event_read_value`. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Wanted ports, one bit each. */
const volatile __u8 port_set[PORT_SET_BYTES] = {};
/* Listeners on these ports are servers; processes that connect to them are clients. */
const volatile __u32 find_servers = 0;
const volatile __u32 find_clients = 0;
/* Count sockets on these ports only. */
const volatile __u32 only_port_set = 0;
/* Count TCP sockets, UNIX stream sockets. */
const volatile __u32 counts_tcp = 1;
const volatile __u32 counts_unix = 0;
/* The measuring process, which gets no role by discovery. */
const volatile __u32 own_tgid = 0;
/* Its children become clients at their exec. */
const volatile __u32 adopt_children = 0;
/* Lower slots are assigned here, others by user space. */
const volatile __u32 kernel_slots = SLOT_FIRST;
const volatile enum cycle_mode cycle_mode = CYCLES_OFF;
/* The tracepoint also reports failed retransmissions, with the error as its third argument. */
const volatile __u32 retransmit_has_error = 0;
/* System calls by which an event loop waits, one bit per number. */
const volatile __u8 wait_set[CALL_SLOTS / 8] = {};
/* Sample work by operation. */
const volatile __u32 sample_slices = 0;

/* Never read: they export types that are in no map to user space. */
const volatile struct reading reading_type = {};
const volatile enum slot slot_type = SLOT_NONE;
const volatile struct slice slice_type = {};
const volatile enum slice_kind slice_kind_type = SLICE_LOOP;

/* Incremented when user space gives a process a slot, which invalidates earlier lookups. */
__u32 generation = 1;
/* The next slots for families of servers and of clients. */
__u32 next_server = SLOT_FIRST;
__u32 next_client = SLOT_FIRST + 1;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESS_SLOTS);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	/* User space sets the size by the number of CPUs. */
	__uint(max_entries, SLOT_FIRST);
	__type(key, __u32);
	__type(value, struct totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, COMPAT_SLOTS);
	__type(key, struct compat_key);
	__type(value, struct call);
} compat_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTION_SLOTS);
	__type(key, struct connection_key);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 2 * CPU_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} cycle_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timing_window);
} timing_windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sampling_window);
} sampling_windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slice_under_way);
} slices_under_way SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SLICE_BUFFER_BYTES);
} slices SEC(".maps");

/* ---- time ---- */

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/*
 * CPU time up to now. The scheduler's sum is updated at ticks and switches; the time since then is CLOCK_MONOTONIC
 * now minus `exec_start`, which is on the scheduler's clock: `clock_offset` is the difference. Both fields change
 * together, so a reader on another CPU repeats until it has a consistent pair.
 */
static __always_inline __u64 cpu_time_at(struct task_struct *task, __u64 clock_offset, __u64 now)
{
	__u64 start = task->se.exec_start, sum = task->se.sum_exec_runtime, again;

	for (int i = 0; i < 4; i++) {
		again = *(volatile __u64 *)&task->se.exec_start;
		if (again == start)
			break;
		start = again;
		sum = *(volatile __u64 *)&task->se.sum_exec_runtime;
	}
	if (!clock_offset)
		return sum;
	now -= clock_offset;
	return now > start ? sum + (now - start) : sum;
}

static __always_inline __u64 cpu_time(struct task_struct *task, __u64 clock_offset)
{
	return cpu_time_at(task, clock_offset, clock_offset ? bpf_ktime_get_ns() : 0);
}

static __always_inline void read_usage(struct usage *usage, struct task_struct *task, __u64 clock_offset)
{
	usage->cpu_ns = cpu_time(task, clock_offset);
	usage->user_ns = task->utime;
	usage->system_ns = task->stime;
	usage->voluntary = task->nvcsw;
	usage->involuntary = task->nivcsw;
	usage->migrations = task->se.nr_migrations;
	usage->faults = task->min_flt + task->maj_flt;
}

/* The clock offset for a task; 0 (use only its sum) if it is not on a CPU. */
static __always_inline __u64 offset_of(struct task_struct *task)
{
	__u32 zero = 0;
	struct cpu *cpu;

	if (!task->on_cpu)
		return 0;
	cpu = bpf_map_lookup_percpu_elem(&cpus, &zero, task->thread_info.cpu);
	return cpu ? cpu->clock_offset : 0;
}

/* ---- slots ---- */

static __always_inline struct totals *totals_of(__u32 slot)
{
	return bpf_map_lookup_elem(&totals, &slot);
}

static __always_inline bool is_server(__u32 slot)
{
	return slot & 1;
}

/* A slot for a new family, or the shared one if none is left. */
static __always_inline __u32 new_slot(__u32 role)
{
	__u32 *next = role == ROLE_SERVER ? &next_server : &next_client;
	__u32 slot;

	if (*next >= kernel_slots)
		return role;
	slot = __sync_fetch_and_add(next, 2);
	return slot < kernel_slots ? slot : role;
}

static __always_inline bool has_port(__u16 port)
{
	return port_set[(port >> 3) & (PORT_SET_BYTES - 1)] & (1 << (port & 7));
}

/* Moves a thread's usage since the last time to the sums of ended threads. */
static __always_inline void settle(struct thread *thread, struct task_struct *task, __u64 clock_offset)
{
	struct totals *sum = totals_of(thread->slot);
	struct usage now;

	if (!sum)
		return;
	read_usage(&now, task, clock_offset);
	/* The sum may be behind an earlier estimate for the slice that it ends. */
	if (now.cpu_ns > thread->from.cpu_ns) {
		__sync_fetch_and_add(&sum->ended.cpu_ns, now.cpu_ns - thread->from.cpu_ns);
		thread->from.cpu_ns = now.cpu_ns;
	}
	__sync_fetch_and_add(&sum->ended.user_ns, now.user_ns - thread->from.user_ns);
	thread->from.user_ns = now.user_ns;
	__sync_fetch_and_add(&sum->ended.system_ns, now.system_ns - thread->from.system_ns);
	thread->from.system_ns = now.system_ns;
	__sync_fetch_and_add(&sum->ended.voluntary, now.voluntary - thread->from.voluntary);
	thread->from.voluntary = now.voluntary;
	__sync_fetch_and_add(&sum->ended.involuntary, now.involuntary - thread->from.involuntary);
	thread->from.involuntary = now.involuntary;
	__sync_fetch_and_add(&sum->ended.migrations, now.migrations - thread->from.migrations);
	thread->from.migrations = now.migrations;
	__sync_fetch_and_add(&sum->ended.faults, now.faults - thread->from.faults);
	thread->from.faults = now.faults;
	__sync_fetch_and_add(&sum->settlements, 1);
}

static __always_inline void join_slot(struct thread *thread, __u32 slot)
{
	bool moves = thread->slot != SLOT_NONE && is_server(thread->slot) == is_server(slot);
	struct totals *sum = totals_of(slot);

	thread->slot = slot;
	if (!sum)
		return;
	__sync_fetch_and_add(&sum->threads, 1);
	if (moves)
		__sync_fetch_and_add(&sum->moved, 1);
}

/* Looks up a thread's process and gives the thread its slot. */
static __always_inline void judge(struct thread *thread, struct task_struct *task, __u64 clock_offset)
{
	__u32 tgid = task->tgid;
	struct process *process;

	thread->generation = generation;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process || !process->alive || process->slot == thread->slot)
		return;
	/* A client that starts to listen becomes a server. */
	if (thread->slot != SLOT_NONE)
		settle(thread, task, clock_offset);
	else
		read_usage(&thread->from, task, clock_offset);
	join_slot(thread, process->slot);
}

/* The running thread, looked up; null only without memory. */
static __always_inline struct thread *this_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct cpu *cpu;

	if (thread && thread->generation == generation)
		return thread;
	if (!thread)
		thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	cpu = this_cpu();
	if (thread && cpu)
		judge(thread, task, cpu->clock_offset);
	return thread;
}

/* Looks up the running thread and keeps the result for this CPU. Rare, so out of line. */
static __noinline void judge_running(struct cpu *cpu)
{
	__u32 as_of = *(volatile __u32 *)&generation;
	struct thread *thread = this_thread(bpf_get_current_task_btf());

	if (!cpu)
		return;
	cpu->slot = thread ? thread->slot : SLOT_NONE;
	cpu->is_observed = thread && thread->observed;
	cpu->generation = as_of;
}

static __always_inline __u32 running_slot(struct cpu *cpu)
{
	if (cpu->generation != *(volatile __u32 *)&generation)
		judge_running(cpu);
	return cpu->slot;
}

/* A thread whose lookup is still valid; null if it was never looked up. */
static __always_inline struct thread *known_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	return thread && thread->slot != SLOT_NONE ? thread : 0;
}

static __always_inline void enlist(struct task_struct *task, __u32 slot, __u32 founder, __u32 connected)
{
	struct process process = {.slot = slot, .alive = 1, .founder = founder, .connected = connected};
	__u32 tgid = task->tgid;
	struct totals *sum;

	process.since_ns = bpf_ktime_get_ns();
	process.netns = task->nsproxy->net_ns->ns.inum;
	bpf_probe_read_kernel_str(process.comm, sizeof(process.comm), task->group_leader->comm);
	if (bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY)) {
		sum = totals_of(slot);
		if (sum)
			__sync_fetch_and_add(&sum->nameless, 1);
	}
}

/* Makes the running process the root of a new family. */
static __always_inline void found_family(struct task_struct *task, __u32 role, __u32 connected)
{
	enlist(task, new_slot(role), 1, connected);
	__sync_fetch_and_add(&generation, 1);
	this_thread(task);
}

/* Gives a client another slot at its first connect, so that its start can be told from its work for the server. */
static __always_inline void note_first_connect(struct task_struct *task)
{
	__u32 tgid = task->tgid, slot;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process || process->connected)
		return;
	slot = new_slot(ROLE_CLIENT);
	if (slot == SLOT_CLIENTS)
		return;
	process->slot_before = process->slot;
	process->connected = 1;
	process->slot = slot;
	__sync_fetch_and_add(&generation, 1);
	this_thread(task);
}

/* ---- system calls ---- */

static __always_inline __s32 numbered(struct task_struct *task, __s32 number)
{
	return number >= 0 && IS_COMPAT(task) ? number | CALL_COMPAT : number;
}

/* Returns whether a call creates a thread, which returns 0 from the call of its creator. */
static __always_inline bool is_clone(__s32 number)
{
	if (number & CALL_COMPAT) {
		number &= ~CALL_COMPAT;
		return number == COMPAT_CALL_FORK || number == COMPAT_CALL_CLONE || number == COMPAT_CALL_VFORK ||
		       number == CALL_CLONE3;
	}
	return number == CALL_CLONE || number == CALL_CLONE3 || number == CALL_FORK || number == CALL_VFORK;
}

static __always_inline bool is_exit(__s32 number)
{
	if (number & CALL_COMPAT)
		return number == (COMPAT_CALL_EXIT | CALL_COMPAT) || number == (COMPAT_CALL_EXIT_GROUP | CALL_COMPAT);
	return number == CALL_EXIT || number == CALL_EXIT_GROUP;
}

/*
 * The call that a thread returns from with this result, or CALL_NONE. After `rt_sigreturn` (and `sigreturn` of
 * 32-bit programs) the number is lost because the registers belong to the interrupted code.
 */
static __always_inline __s32 returned_from(struct task_struct *task, struct pt_regs *regs, __s64 result)
{
	__s32 number = numbered(task, SYSCALL_NUMBER(regs));

	if (number < 0 && result != -ENOSYS)
		return IS_COMPAT(task) ? COMPAT_CALL_RT_SIGRETURN | CALL_COMPAT : CALL_RT_SIGRETURN;
	return !result && is_clone(number) ? CALL_NONE : number;
}

/* 32-bit programs' numbers mean other calls, and are rare. */
static __always_inline struct call *compat_call(__u32 slot, __s32 number)
{
	struct compat_key key = {.slot = slot, .number = number & ~CALL_COMPAT};
	struct call *call = bpf_map_lookup_elem(&compat_calls, &key);
	struct call none = {};

	if (call)
		return call;
	bpf_map_update_elem(&compat_calls, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&compat_calls, &key);
}

static __always_inline struct call *call_of(__u32 slot, struct totals *sum, __s32 number)
{
	__u32 index = number;
	struct call *call;

	if (number & CALL_COMPAT) {
		call = compat_call(slot, number);
		if (call)
			return call;
	}
	if (index >= CALL_SLOTS)
		index = CALL_SLOTS - 1;
	/* Keeps the compiler from removing the mask, which gives the verifier the bound. */
	asm volatile("" : "+r"(index));
	return &sum->calls[index & (CALL_SLOTS - 1)];
}

static __always_inline struct call *count_call(__u32 slot, struct totals *sum, __s32 number, __s64 result)
{
	struct call *call = call_of(slot, sum, number);

	call->count++;
	if ((__u64)result >= (__u64)-MAX_ERRNO)
		call->errors++;
	return call;
}

/* The running thread has entered a call: decides whether to time it. */
static __always_inline void begin_timing(struct task_struct *task, struct thread *thread, struct cpu *cpu)
{
	struct timing_window *window;
	__u32 zero = 0;
	__u64 now;

	window = bpf_map_lookup_elem(&timing_windows, &zero);
	if (!window || !cpu->clock_offset)
		return;
	if (window->one_in > 1 && (bpf_get_prandom_u32() & (window->one_in - 1)))
		return;
	now = bpf_ktime_get_ns();
	if (now >= window->end_ns)
		return;
	thread->observed |= OBSERVED_TIME;
	thread->timed_from_ns = cpu_time_at(task, cpu->clock_offset, now);
}

/* The call returns; `call` is null if it does not count. */
static __always_inline void end_timing(struct task_struct *task, struct thread *thread, struct cpu *cpu, struct call *call)
{
	__u64 now = cpu->clock_offset ? cpu_time(task, cpu->clock_offset) : 0;

	thread->observed &= ~OBSERVED_TIME;
	if (call && now >= thread->timed_from_ns) {
		call->timed++;
		call->timed_ns += now - thread->timed_from_ns;
	}
}

/* ---- slices: work by the socket that was touched last ---- */

static __always_inline struct sampling_window *sampling_window(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sampling_windows, &zero);
}

static __always_inline bool is_wait(__s32 number)
{
	__u32 index = number;

	return index < CALL_SLOTS && wait_set[(index >> 3) & (CALL_SLOTS / 8 - 1)] & (1 << (index & 7));
}

/*
 * Ends a thread's open slice at `end_ns` on its CPU clock. `own_ns` of the current call went into sampling.
 */
static __always_inline void end_slice(struct thread *thread, struct slice_under_way *work, struct sampling_window *window,
				      __u64 end_ns, __u64 own_ns)
{
	if (!(thread->observed & OBSERVED_SLICE))
		return;
	thread->observed &= ~OBSERVED_SLICE;
	own_ns += work->own_ns;
	if (end_ns > work->begun_ns + own_ns)
		work->slice.ns = end_ns - work->begun_ns - own_ns;
	if (work->slice.in_calls_ns > work->slice.ns)
		work->slice.in_calls_ns = work->slice.ns;
	if (bpf_ringbuf_output(&slices, &work->slice, sizeof(work->slice), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&window->dropped, 1);
}

/* Begins a slice if the current call was entered in a window. */
static __always_inline bool begin_slice(struct thread *thread, struct slice_under_way *work, struct sampling_window *window,
					__u64 begun_ns, __u32 kind)
{
	__s64 left;

	if (!work->is_in_window)
		return false;
	left = __sync_fetch_and_add(&window->left, -1);
	/* A full window ends early, because its slices' weight depends on its length. */
	if (left == 0)
		window->end_ns = bpf_ktime_get_ns();
	if (left <= 0)
		return false;
	__builtin_memset(&work->slice, 0, sizeof(work->slice));
	work->slice.window = window->number;
	work->slice.tid = (__u32)bpf_get_current_pid_tgid();
	work->slice.slot = thread->slot;
	work->slice.kind = kind;
	work->begun_ns = begun_ns;
	work->own_ns = 0;
	work->sk = 0;
	thread->observed |= OBSERVED_SLICE;
	return true;
}

static __always_inline void sample_entry(struct task_struct *task, struct thread *thread, __s32 number)
{
	struct sampling_window *window = sampling_window();
	struct slice_under_way *work;
	struct cpu *cpu;
	__u64 now;

	if (!window || !(window->armed || (thread->observed & OBSERVED_SLICE)))
		return;
	now = bpf_ktime_get_ns();
	cpu = this_cpu();
	work = bpf_task_storage_get(&slices_under_way, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!work || !cpu || !cpu->clock_offset) {
		thread->observed &= ~OBSERVED_SLICE;
		return;
	}
	work->entered_ns = cpu_time_at(task, cpu->clock_offset, now);
	work->own_in_call_ns = 0;
	work->is_in_window = window->armed && now >= window->start_ns && now < window->end_ns;
	work->has_touched = 0;
	thread->observed |= OBSERVED_CALL;
	if (is_wait(number)) {
		end_slice(thread, work, window, work->entered_ns, 0);
		begin_slice(thread, work, window, work->entered_ns, SLICE_LOOP);
	}
	work->own_in_call_ns = bpf_ktime_get_ns() - now;
}

static __always_inline void count_in_slice(struct slice_under_way *work, __s32 number)
{
	__u16 name = (number & CALL_COMPAT) ? CALL_SLOTS : number + 1;
	int i;

	for (i = 0; i < SLICE_CALLS; i++) {
		if (!work->slice.numbers[i])
			work->slice.numbers[i] = name;
		if (work->slice.numbers[i] == name) {
			work->slice.counts[i]++;
			return;
		}
	}
	work->slice.other_calls++;
}

static __always_inline void sample_exit(struct task_struct *task, struct thread *thread, __s32 number)
{
	struct slice_under_way *work;
	struct cpu *cpu;
	__u64 from, now, start_ns;

	thread->observed &= ~OBSERVED_CALL;
	if (!(thread->observed & OBSERVED_SLICE))
		return;
	start_ns = bpf_ktime_get_ns();
	work = bpf_task_storage_get(&slices_under_way, task, 0, 0);
	cpu = this_cpu();
	if (!work || !cpu)
		return;
	now = cpu_time_at(task, cpu->clock_offset, start_ns);
	from = work->entered_ns + work->own_in_call_ns;
	if (now > from)
		work->slice.in_calls_ns += now - from;
	work->own_ns += work->own_in_call_ns;
	work->own_in_call_ns = 0;
	count_in_slice(work, number);
	work->own_ns += bpf_ktime_get_ns() - start_ns;
}

/* Attached in windows, or throughout when sampling work by operation. */
SEC("tp_btf/sys_enter")
int sys_enter(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = this_cpu();
	struct thread *thread;

	if (!cpu || running_slot(cpu) == SLOT_NONE)
		return 0;
	thread = known_thread(task);
	if (!thread)
		return 0;
	if (sample_slices)
		sample_entry(task, thread, numbered(task, (__s32)ctx[1]));
	begin_timing(task, thread, cpu);
	cpu->is_observed = thread->observed != 0;
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__s64 result = (__s64)ctx[1];
	struct cpu *cpu = this_cpu();
	struct thread *thread;
	struct totals *sum;
	struct call *call;
	__s32 number;

	if (!cpu || running_slot(cpu) == SLOT_NONE)
		return 0;
	sum = totals_of(cpu->slot);
	if (!sum)
		return 0;
	number = returned_from(task, (struct pt_regs *)ctx[0], result);
	call = number == CALL_NONE ? 0 : count_call(cpu->slot, sum, number, result);
	if (!cpu->is_observed)
		return 0;
	thread = known_thread(task);
	if (!thread)
		return 0;
	if (thread->observed & OBSERVED_TIME)
		end_timing(task, thread, cpu, call);
	if (thread->observed & OBSERVED_CALL)
		sample_exit(task, thread, number);
	cpu->is_observed = thread->observed != 0;
	return 0;
}

/* ---- life and death of threads ---- */

SEC("tp_btf/task_newtask")
int task_newtask(__u64 *ctx)
{
	struct task_struct *child = (struct task_struct *)ctx[0];
	struct thread *parent = this_thread(bpf_get_current_task_btf());
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process;
	struct thread *thread;

	if (!parent || parent->slot == SLOT_NONE)
		return 0;
	if (child->pid == child->tgid) {
		process = bpf_map_lookup_elem(&processes, &tgid);
		enlist(child, parent->slot, 0, process && process->connected);
	}
	thread = bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	thread->generation = generation;
	join_slot(thread, parent->slot);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = this_thread(task);
	struct cpu *cpu = this_cpu();
	__u32 tgid = task->tgid;
	struct process *process;
	struct totals *sum;
	__s32 number;

	if (!thread || !cpu || thread->slot == SLOT_NONE)
		return 0;
	sum = totals_of(thread->slot);
	number = numbered(task, SYSCALL_NUMBER((struct pt_regs *)bpf_task_pt_regs(task)));
	/* The call that ends the thread is the one that does not return. */
	if (sum && is_exit(number))
		count_call(thread->slot, sum, number, 0);
	settle(thread, task, cpu->clock_offset);
	if (task->signal->live.counter > 0)
		return 0;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (process) {
		bpf_probe_read_kernel_str(process->comm, sizeof(process->comm), task->group_leader->comm);
		process->alive = 0;
	}
	return 0;
}

/* The name changes at exec, after the fork that enlisted the process. Commands we started become clients. */
SEC("tp_btf/sched_process_exec")
int sched_process_exec(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = this_thread(task);
	__u32 tgid = task->tgid;
	struct process *process;

	if (!thread)
		return 0;
	if (thread->slot == SLOT_NONE) {
		if (adopt_children && task->real_parent->tgid == own_tgid)
			found_family(task, ROLE_CLIENT, 0);
		return 0;
	}
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process)
		return 0;
	/* Each program that a shell or launcher starts is a client of its own, perhaps of another server. */
	if (find_clients && !process->founder && !is_server(thread->slot))
		found_family(task, ROLE_CLIENT, 0);
	else
		bpf_probe_read_kernel_str(process->comm, sizeof(process->comm), task->comm);
	return 0;
}

/* Counts usage between `sched_process_exit` and the end, if the last switch was not seen. */
SEC("tp_btf/sched_process_free")
int sched_process_free(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct thread *thread = known_thread(task);

	if (thread)
		settle(thread, task, 0);
	return 0;
}

/* ---- scheduler ---- */

static __always_inline bool read_cycles(struct cycle_use *use)
{
	struct bpf_perf_event_value user, kernel;
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= CPU_SLOTS)
		return false;
	if (bpf_perf_event_read_value(&cycle_events, cpu, &user, sizeof(user)))
		return false;
	if (bpf_perf_event_read_value(&cycle_events, CPU_SLOTS + cpu, &kernel, sizeof(kernel)))
		return false;
	use->user = user.counter;
	use->kernel = kernel.counter;
	use->enabled_ns = user.enabled + kernel.enabled;
	use->running_ns = user.running + kernel.running;
	return true;
}

static __always_inline void switch_cycles(struct cpu *cpu, struct thread *from, __u32 from_tid, struct thread *to,
					  __u32 to_tid)
{
	struct cycle_use now = {}, *sum;
	bool nobody_left = !from;
	struct totals *totals;

	/* A separate test, because clang would combine both into `from | to`, which Linux 6.1 and 6.12 forbid. */
	asm volatile("" : "+r"(nobody_left));
	if (nobody_left && !to) {
		cpu->cycles_tid = 0;
		return;
	}
	if (!read_cycles(&now))
		return;
	totals = from ? totals_of(from->slot) : 0;
	if (totals) {
		sum = &totals->cycles;
		if (cpu->cycles_tid == from_tid) {
			sum->user += now.user - cpu->cycles_from.user;
			sum->kernel += now.kernel - cpu->cycles_from.kernel;
			sum->enabled_ns += now.enabled_ns - cpu->cycles_from.enabled_ns;
			sum->running_ns += now.running_ns - cpu->cycles_from.running_ns;
		} else {
			sum->missed++;
		}
	}
	cpu->cycles_tid = to ? to_tid : 0;
	cpu->cycles_slot = to ? to->slot : SLOT_NONE;
	cpu->cycles_from = now;
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct thread *from = 0, *to = 0;
	struct cpu *cpu = this_cpu();
	__u64 start;

	if (!cpu)
		return 0;
	if (cycle_mode != CYCLES_OFF || prev->exit_state)
		from = known_thread(prev);
	/* The idle thread makes no calls. */
	if (next->pid)
		to = bpf_task_storage_get(&threads, next, 0, 0);
	cpu->slot = to ? to->slot : SLOT_NONE;
	cpu->is_observed = to && to->observed;
	/* A thread without a lookup gets one at its first event. */
	cpu->generation = to ? to->generation : 0;
	if (to && to->slot == SLOT_NONE)
		to = 0;
	/* The offset is needed before the first switch to a thread with a role. The idle thread keeps no time. */
	start = next->se.exec_start;
	if (start && (to || (!cpu->clock_offset && next->pid)))
		/* The scheduler has just started `next`: its clock is as fresh as it gets. */
		cpu->clock_offset = bpf_ktime_get_ns() - start;
	if (from && prev->exit_state)
		settle(from, prev, 0);
	if (cycle_mode != CYCLES_OFF)
		switch_cycles(cpu, from, prev->pid, to, next->pid);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(__u64 *ctx)
{
	struct thread *thread = known_thread((struct task_struct *)ctx[0]);
	struct totals *sum = thread ? totals_of(thread->slot) : 0;

	if (sum)
		__sync_fetch_and_add(&sum->wakeups, 1);
	return 0;
}

/* ---- sockets ---- */

static __always_inline bool is_wanted(struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_UNIX)
		return counts_unix && sk->sk_type == SOCK_STREAM;
	if (!counts_tcp || sk->sk_protocol != IPPROTO_TCP)
		return false;
	return !only_port_set || has_port(sk->__sk_common.skc_num) ||
	       has_port(__builtin_bswap16(sk->__sk_common.skc_dport));
}

static __always_inline void note_connection(struct sock *sk, __u32 slot, __u32 layered)
{
	struct connection connection = {.slot = slot, .layered = layered};
	struct connection_key key = {};

	read_ends(&key, sk);
	bpf_map_update_elem(&connections, &key, &connection, BPF_ANY);
}

/* Returns whether a socket counts. Records its connection at the first use, and looks for kernel TLS at the 2nd,
   4th, 8th, ... use. */
static __always_inline bool use_socket(struct sock *sk, __u32 slot)
{
	struct socket *socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	struct socket fresh = {.slot = slot};
	struct tcp_sock *tcp;

	if (!socket) {
		if (!is_wanted(sk))
			return false;
		socket = bpf_sk_storage_get(&sockets, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (sk->sk_protocol == IPPROTO_TCP)
			note_connection(sk, slot, 0);
		if (!socket)
			return true;
	}
	socket->uses++;
	if (socket->uses & (socket->uses - 1))
		return true;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (tcp && tcp->inet_conn.icsk_ulp_ops)
		note_connection(sk, socket->slot, 1);
	return true;
}

/* Returns whether a socket may serve others. A server's request to another one (the lesser port) is for its
   clients. */
static __always_inline bool may_serve(struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_UNIX)
		return true;
	return sk->sk_protocol == IPPROTO_TCP && sk->__sk_common.skc_num < __builtin_bswap16(sk->__sk_common.skc_dport);
}

/*
 * The running thread has touched a socket: its work from the entry to this call on is for that socket. A touch of
 * the same socket that moves nothing belongs to the open slice.
 */
static __always_inline void touch_in(struct slice_under_way *work, struct sock *sk, struct thread *thread, __u32 kind, int bytes,
				     bool is_peek)
{
	struct sampling_window *window = sampling_window();
	bool is_same, is_empty = bytes <= 0 || is_peek;
	struct cpu *cpu = this_cpu();
	struct tcp_sock *tcp;
	__u64 at;

	if (!window || !cpu)
		return;
	is_same = (thread->observed & OBSERVED_SLICE) && work->sk == (__u64)sk;
	if (is_same && is_empty)
		return;
	if (is_same && work->has_touched && work->slice.kind == kind && !work->slice.is_empty) {
		work->slice.len += bytes;
		return;
	}
	if (work->has_touched) {
		at = cpu_time(bpf_get_current_task_btf(), cpu->clock_offset);
		end_slice(thread, work, window, at, work->own_in_call_ns);
		work->own_in_call_ns = 0;
	} else {
		at = work->entered_ns;
		end_slice(thread, work, window, at, 0);
	}
	work->has_touched = 1;
	if (!begin_slice(thread, work, window, at, kind))
		return;
	work->sk = (__u64)sk;
	tcp = is_wanted(sk) ? bpf_skc_to_tcp_sock(sk) : 0;
	if (!tcp || tcp->inet_conn.icsk_ulp_ops) {
		work->slice.kind = SLICE_ELSEWHERE;
		return;
	}
	read_ends(&work->slice.connection, sk);
	work->slice.is_empty = is_empty;
	work->slice.from = kind == SLICE_SEND ? tcp->write_seq : tcp->copied_seq;
	work->slice.len = bytes > 0 ? bytes : 1;
	if (!is_peek || bytes <= 0)
		work->slice.from -= work->slice.len;
}

static __always_inline void touch(struct sock *sk, __u32 kind, int bytes, bool is_peek)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = known_thread(task);
	struct slice_under_way *work;
	__u64 start_ns;

	if (!thread || !(thread->observed & OBSERVED_CALL))
		return;
	start_ns = bpf_ktime_get_ns();
	work = bpf_task_storage_get(&slices_under_way, task, 0, 0);
	if (!work)
		return;
	touch_in(work, sk, thread, kind, bytes, is_peek);
	work->own_in_call_ns += bpf_ktime_get_ns() - start_ns;
}

/* Bytes were sent, received, or peeked at: these will be received again. */
static __always_inline int moved(struct sock *sk, __u32 kind, int bytes, bool is_peek)
{
	struct cpu *cpu = this_cpu();
	struct totals *sum;

	if (!cpu || running_slot(cpu) == SLOT_NONE)
		return 0;
	if (cpu->is_observed)
		touch(sk, kind, bytes, is_peek);
	if (bytes <= 0 || is_peek)
		return 0;
	sum = totals_of(cpu->slot);
	if (!sum)
		return 0;
	if (!use_socket(sk, cpu->slot)) {
		if (may_serve(sk))
			sum->elsewhere_bytes += bytes;
	} else if (kind == SLICE_SEND) {
		sum->socket.send_calls++;
		sum->socket.send_bytes += bytes;
	} else {
		sum->socket.recv_calls++;
		sum->socket.recv_bytes += bytes;
	}
	return 0;
}

SEC("tp_btf/sock_send_length")
int sock_send_length(__u64 *ctx)
{
	return moved((struct sock *)ctx[0], SLICE_SEND, (int)ctx[1], false);
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(__u64 *ctx)
{
	return moved((struct sock *)ctx[0], SLICE_RECEIVE, (int)ctx[1], (int)ctx[2] & MSG_PEEK);
}

/* Mostly from a timer or the network softirq in any thread: uses the socket's slot, or else the port. */
SEC("tp_btf/tcp_retransmit_skb")
int tcp_retransmit_skb(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct socket *socket;
	struct totals *sum;
	__u32 slot;

	if (retransmit_has_error && (int)ctx[2])
		return 0;
	socket = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (socket)
		slot = socket->slot;
	else if (has_port(sk->__sk_common.skc_num))
		slot = SLOT_SERVERS;
	else if (has_port(__builtin_bswap16(sk->__sk_common.skc_dport)))
		slot = SLOT_CLIENTS;
	else
		return 0;
	sum = totals_of(slot);
	if (sum)
		__sync_fetch_and_add(&sum->retransmissions, 1);
	return 0;
}

/* Both transitions happen in the calling process: SYN_SENT in connect(), LISTEN in listen(). */
SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sock *sk = (struct sock *)ctx[0];
	int state = (int)ctx[2];
	struct thread *thread;
	__u32 role;

	if (state == TCP_SYN_SENT && has_port(__builtin_bswap16(sk->__sk_common.skc_dport)))
		role = ROLE_CLIENT;
	else if (find_servers && state == TCP_LISTEN && has_port(sk->__sk_common.skc_num))
		role = ROLE_SERVER;
	else
		return 0;
	if (sk->sk_protocol != IPPROTO_TCP || task->tgid == own_tgid)
		return 0;
	thread = this_thread(task);
	if (!thread)
		return 0;
	/* A server that connects to another server remains a server; a command that starts a server is not one. */
	if (thread->slot != SLOT_NONE && is_server(thread->slot))
		return 0;
	if (thread->slot != SLOT_NONE && role == ROLE_CLIENT)
		note_first_connect(task);
	else if (role == ROLE_SERVER || find_clients)
		found_family(task, role, role == ROLE_CLIENT);
	return 0;
}

/* ---- network softirqs of the whole machine ---- */

SEC("tp_btf/softirq_entry")
int softirq_entry(__u64 *ctx)
{
	__u32 vector = ctx[0];
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ && vector != NET_TX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	if (vector == NET_RX_SOFTIRQ)
		cpu->rx_start_ns = bpf_ktime_get_ns();
	else
		cpu->tx_start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(__u64 *ctx)
{
	__u32 vector = ctx[0];
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ && vector != NET_TX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	if (vector == NET_RX_SOFTIRQ && cpu->rx_start_ns) {
		cpu->rx_count++;
		cpu->rx_ns += bpf_ktime_get_ns() - cpu->rx_start_ns;
		cpu->rx_start_ns = 0;
	} else if (vector == NET_TX_SOFTIRQ && cpu->tx_start_ns) {
		cpu->tx_count++;
		cpu->tx_ns += bpf_ktime_get_ns() - cpu->tx_start_ns;
		cpu->tx_start_ns = 0;
	}
	return 0;
}

/* ---- reading ---- */

/* Gives threads of newly named processes their slot, and writes a `struct reading` for each thread with one. */
SEC("iter/task")
int read_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct reading reading = {};
	struct thread *thread;
	__u64 clock_offset;
	struct usage now;

	if (!task)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	clock_offset = offset_of(task);
	if (thread->slot == SLOT_NONE) {
		judge(thread, task, clock_offset);
		if (thread->slot == SLOT_NONE)
			return 0;
		/* Threads that it starts meanwhile must be looked up again. */
		__sync_fetch_and_add(&generation, 1);
	}
	read_usage(&now, task, clock_offset);
	reading.tid = task->pid;
	reading.tgid = task->tgid;
	reading.slot = thread->slot;
	reading.on_cpu = task->on_cpu;
	bpf_probe_read_kernel_str(reading.comm, sizeof(reading.comm), task->comm);
	if (now.cpu_ns > thread->from.cpu_ns)
		reading.used.cpu_ns = now.cpu_ns - thread->from.cpu_ns;
	reading.used.user_ns = now.user_ns - thread->from.user_ns;
	reading.used.system_ns = now.system_ns - thread->from.system_ns;
	reading.used.voluntary = now.voluntary - thread->from.voluntary;
	reading.used.involuntary = now.involuntary - thread->from.involuntary;
	reading.used.migrations = now.migrations - thread->from.migrations;
	reading.used.faults = now.faults - thread->from.faults;
	bpf_seq_write(ctx->meta->seq, &reading, sizeof(reading));
	return 0;
}

/* ---- the meter ---- */

/* Does nothing: the time that the kernel measures for it is the overhead of timing. */
SEC("raw_tp")
int empty(void *ctx)
{
	return 0;
}
