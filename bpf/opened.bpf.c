/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Tells which connections the processes of a command open.
 *
 * connect() runs in the process, but chooses the port after its last tracepoint. So the owner is noted there by socket,
 * and by port and sequence number when the SYN is handed to the interface, which is before a capture can see it.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "connection.h"
#include "opened.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct opened_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct opened_counts);
} counts SEC(".maps");

/* The command's threads. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} command_threads SEC(".maps");

/* By socket: whether the command opens it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPENING_SLOTS);
	__type(key, __u64);
	__type(value, __u32);
} opening SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPENED_SLOTS);
	__type(key, struct syn_key);
	__type(value, struct opened);
} by_syn SEC(".maps");

/* Seen from the client, without a network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPENED_SLOTS);
	__type(key, struct connection_key);
	__type(value, __u32);
} by_ends SEC(".maps");

static __always_inline struct opened_settings *read_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct opened_counts *sums(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

static __always_inline bool is_of_command(struct task_struct *task)
{
	return bpf_task_storage_get(&command_threads, task, 0, 0);
}

static __always_inline void add_to_command(struct task_struct *task)
{
	struct opened_counts *sum = sums();

	if (!bpf_task_storage_get(&command_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) && sum)
		__sync_fetch_and_add(&sum->lost, 1);
}

SEC("tp_btf/sched_process_exec")
int start_command(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct opened_settings *set = read_settings();

	if (set && task->real_parent->tgid == set->own_tgid)
		add_to_command(task);
	return 0;
}

/* Threads and forks, whoever becomes their parent later. */
SEC("tp_btf/task_newtask")
int extend_command(__u64 *ctx)
{
	if (is_of_command(bpf_get_current_task_btf()))
		add_to_command((struct task_struct *)ctx[0]);
	return 0;
}

static __always_inline bool has_port(struct opened_settings *set, struct sock *sk)
{
	__u16 port = __builtin_bswap16(sk->__sk_common.skc_dport);

	return sk->sk_protocol == IPPROTO_TCP && set->ports[(port >> 3) & (OPENED_PORT_BYTES - 1)] & (1 << (port & 7));
}

static __always_inline bool is_loopback(__u32 *address)
{
	if (address[0] || address[1])
		return false;
	return address[2] ? (__builtin_bswap32(address[3]) >> 24) == 127 : address[3] == __builtin_bswap32(1);
}

SEC("tp_btf/inet_sock_set_state")
int begin_opening(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	int before = (int)ctx[1], state = (int)ctx[2];
	struct opened_settings *set = read_settings();
	struct opened_counts *sum = sums();
	__u64 address = (__u64)sk;
	__u32 by_command;

	if (before == TCP_SYN_SENT)
		bpf_map_delete_elem(&opening, &address);
	if (state != TCP_SYN_SENT || !set || !has_port(set, sk))
		return 0;
	by_command = is_of_command(bpf_get_current_task_btf());
	if (bpf_map_update_elem(&opening, &address, &by_command, BPF_ANY) && sum)
		__sync_fetch_and_add(&sum->lost, 1);
	return 0;
}

/* Runs for every packet that is sent, so it first looks at what only a SYN's socket has. */
SEC("tp_btf/net_dev_queue")
int send_syn(__u64 *ctx)
{
	struct sock *sk = ((struct sk_buff *)ctx[0])->sk;
	struct opened opened = {};
	struct connection_key ends = {};
	struct opened_settings *set;
	struct opened_counts *sum;
	struct syn_key syn = {};
	bool is_elsewhere;
	__u64 address;
	__u32 *owner;

	if (!sk || sk->__sk_common.skc_state != TCP_SYN_SENT)
		return 0;
	address = (__u64)sk;
	owner = bpf_map_lookup_elem(&opening, &address);
	set = read_settings();
	sum = sums();
	if (!owner || !set || !sum)
		return 0;
	opened.time_ns = bpf_ktime_get_ns();
	opened.by_command = *owner;
	read_ends(&ends, sk);
	is_elsewhere = ends.netns != set->netns && is_loopback(ends.remote);
	ends.netns = 0;
	syn.sequence = BPF_CORE_READ((struct tcp_sock *)sk, snd_una);
	syn.client_port = ends.local_port;
	if (!is_elsewhere)
		bpf_map_update_elem(&by_ends, &ends, &opened.by_command, BPF_ANY);
	if (bpf_map_update_elem(&by_syn, &syn, &opened, BPF_ANY))
		__sync_fetch_and_add(&sum->lost, 1);
	if (opened.by_command)
		__sync_fetch_and_add(&sum->by_command, 1);
	/* A repeated SYN has the same number. */
	bpf_map_delete_elem(&opening, &address);
	return 0;
}
