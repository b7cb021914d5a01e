/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Reads the arguments of the functions that TLS libraries call with each secret of a handshake, for a key log that
 * nobody may have asked for. User space finds the functions. A handshake calls them at most five times.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "tls.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Never read: they export types that are in no map to user space. */
const volatile struct tls_event event_type = {};
const volatile struct tls_socket socket_type = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tls_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tls_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TLS_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

/* Sockets that were reported, by address. When they close, their port may be gone. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TLS_SOCKETS);
	__type(key, __u64);
	__type(value, struct connection_key);
} reported SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* User space sets the size. */
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* User registers at a probe: the stable layout of user_pt_regs (asm/ptrace.h). Go's ABI numbers its own registers. */
#if defined(__TARGET_ARCH_x86)
struct registers {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
};
#define ARGUMENT_1(ctx) ((ctx)->di)
#define ARGUMENT_2(ctx) ((ctx)->si)
#define ARGUMENT_3(ctx) ((ctx)->dx)
#define ARGUMENT_4(ctx) ((ctx)->cx)
#define GO_LABEL(ctx) ((ctx)->bx)
#define GO_LABEL_LEN(ctx) ((ctx)->cx)
#define GO_RANDOM(ctx) ((ctx)->di)
#define GO_RANDOM_LEN(ctx) ((ctx)->si)
#define GO_SECRET(ctx) ((ctx)->r9)
#define GO_SECRET_LEN(ctx) ((ctx)->r10)
#elif defined(__TARGET_ARCH_arm64)
struct registers {
	__u64 regs[31];
};
#define ARGUMENT_1(ctx) ((ctx)->regs[0])
#define ARGUMENT_2(ctx) ((ctx)->regs[1])
#define ARGUMENT_3(ctx) ((ctx)->regs[2])
#define ARGUMENT_4(ctx) ((ctx)->regs[3])
#define GO_LABEL(ctx) ((ctx)->regs[1])
#define GO_LABEL_LEN(ctx) ((ctx)->regs[2])
#define GO_RANDOM(ctx) ((ctx)->regs[3])
#define GO_RANDOM_LEN(ctx) ((ctx)->regs[4])
#define GO_SECRET(ctx) ((ctx)->regs[6])
#define GO_SECRET_LEN(ctx) ((ctx)->regs[7])
#endif

#define COUNT(field)                                                       \
	do {                                                               \
		__u32 zero = 0;                                            \
		struct tls_counts *sum = bpf_map_lookup_elem(&counts, &zero); \
		if (sum)                                                   \
			__sync_fetch_and_add(&sum->field, 1);              \
	} while (0)

static __always_inline bool takes_all(void)
{
	__u32 zero = 0;
	struct tls_settings *now = bpf_map_lookup_elem(&settings, &zero);

	return now && now->all;
}

static __always_inline bool is_followed(__u64 pid_tgid)
{
	__u32 tgid = pid_tgid >> 32;

	return bpf_map_lookup_elem(&followed, &tgid);
}

/* Forks of a followed process are followed. */
SEC("tp_btf/task_newtask")
int follow_fork(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tgid = task->tgid, one = 1;

	if (tgid != pid_tgid >> 32 && is_followed(pid_tgid))
		bpf_map_update_elem(&followed, &tgid, &one, BPF_ANY);
	return 0;
}

/* The number of an ended process may be reused. */
SEC("tp_btf/sched_process_exit")
int forget_process(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tgid = pid_tgid >> 32;

	if (is_followed(pid_tgid) && task->signal->live.counter <= 0)
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

static __always_inline struct tls_event *reserve(void)
{
	struct tls_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u64 pid_tgid = bpf_get_current_pid_tgid();

	if (!event) {
		COUNT(lost);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->tgid = pid_tgid >> 32;
	event->tid = pid_tgid;
	return event;
}

/* Its libraries may have to be found. */
SEC("tp_btf/sched_process_exec")
int program_started(__u64 *ctx)
{
	struct tls_event *event;

	if (!takes_all() && !is_followed(bpf_get_current_pid_tgid()))
		return 0;
	event = reserve();
	if (event)
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline bool takes_sockets(void)
{
	__u32 zero = 0;
	struct tls_settings *now = bpf_map_lookup_elem(&settings, &zero);

	return now && now->sockets;
}

/* Returns the socket behind a descriptor if it may be in a handshake. Only the table's entry has no tracked type. */
static __always_inline struct sock *handshaking(struct fdtable *table, __u32 descriptor)
{
	struct file **files = BPF_CORE_READ(table, fd);
	struct socket___kernel *socket;
	struct file *file = 0;
	struct tcp_sock *tp;
	struct sock *sk;

	if (bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) || !file)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	if (!socket || BPF_CORE_READ(socket, file) != file)
		return 0;
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP || BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_ESTABLISHED)
		return 0;
	tp = (struct tcp_sock *)sk;
	if (BPF_CORE_READ(tp, bytes_received) > TLS_HANDSHAKE_BYTES || BPF_CORE_READ(tp, bytes_sent) > TLS_HANDSHAKE_BYTES ||
	    (__u32)bpf_jiffies64() - BPF_CORE_READ(tp, rcv_tstamp) > TLS_HANDSHAKE_TICKS)
		return 0;
	return sk;
}

static __always_inline void probe_ends(struct connection_key *key, struct sock *sk)
{
	key->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	key->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	key->remote_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		BPF_CORE_READ_INTO(&key->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&key->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	} else {
		map_address(key->local, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
		map_address(key->remote, BPF_CORE_READ(sk, __sk_common.skc_daddr));
	}
}

struct socket_search {
	struct fdtable *table;
	__u32 tid;
	__u32 max;
	__u32 found;
};

static long report_socket(__u32 descriptor, struct socket_search *search)
{
	struct tls_socket found = {};
	struct sock *sk;
	__u64 address;

	if (descriptor >= search->max || search->found >= TLS_CANDIDATES)
		return 1;
	sk = handshaking(search->table, descriptor);
	if (!sk)
		return 0;
	search->found++;
	address = (__u64)sk;
	probe_ends(&found.ends, sk);
	found.tid = search->tid;
	found.write_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
	found.copied_seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
	bpf_map_update_elem(&reported, &address, &found.ends, BPF_ANY);
	if (bpf_ringbuf_output(&events, &found, sizeof(found), BPF_RB_NO_WAKEUP))
		COUNT(lost);
	return 0;
}

/* Reports the sockets of the process that may have ended the handshake with this secret. */
static __always_inline void report_sockets(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct socket_search search = {
		.table = table,
		.tid = bpf_get_current_pid_tgid(),
		.max = BPF_CORE_READ(table, max_fds),
	};

	bpf_loop(TLS_DESCRIPTORS, report_socket, &search, 0);
}

SEC("tp_btf/inet_sock_set_state")
int socket_closed(__u64 *ctx)
{
	struct tls_socket closed = { .is_closed = 1 };
	struct connection_key *ends;
	__u64 address = ctx[0];

	if ((int)ctx[2] != TCP_CLOSE)
		return 0;
	ends = bpf_map_lookup_elem(&reported, &address);
	if (!ends)
		return 0;
	closed.ends = *ends;
	bpf_map_delete_elem(&reported, &address);
	if (bpf_ringbuf_output(&events, &closed, sizeof(closed), BPF_RB_NO_WAKEUP))
		COUNT(lost);
	return 0;
}

/* The addresses and lengths of a call's arguments; `label_len` is without a NUL, or 0 if the label ends with one. */
struct arguments {
	__u64 object, label, label_len, random, random_len, secret, secret_len;
};

static __always_inline int report(struct arguments *at)
{
	__u64 label_len = at->label_len, secret_len = at->secret_len;
	struct tls_event *event;
	bool is_last;
	long failed;

	if (!takes_all() && !is_followed(bpf_get_current_pid_tgid()))
		return 0;
	if (secret_len == 0 || secret_len > TLS_SECRET || label_len >= TLS_LABEL) {
		COUNT(unread);
		return 0;
	}
	event = reserve();
	if (!event)
		return 0;
	if (label_len)
		failed = bpf_probe_read_user(event->label, label_len, (const void *)at->label);
	else
		failed = bpf_probe_read_user_str(event->label, TLS_LABEL, (const void *)at->label) < 0;
	if (at->random_len == TLS_RANDOM) {
		failed |= bpf_probe_read_user(event->random, TLS_RANDOM, (const void *)at->random);
		event->random_len = TLS_RANDOM;
	}
	failed |= bpf_probe_read_user(event->secret, secret_len, (const void *)at->secret);
	event->secret_len = secret_len;
	event->object = at->object;
	if (failed) {
		COUNT(unread);
		bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		return 0;
	}
	COUNT(secrets);
	/* CLIENT_RANDOM, or CLIENT_TRAFFIC_SECRET_0: all data of the handshake but the client's last record has been exchanged. */
	is_last = event->label[0] == 'C' && (event->label[7] == 'R' || event->label[7] == 'T');
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	if (is_last && takes_sockets())
		report_sockets();
	return 0;
}

/* OpenSSL, BoringSSL: (ssl, label, secret, length). GnuTLS has the same order. */
SEC("uprobe")
int key_log_c(struct registers *ctx)
{
	struct arguments at = {
		.object = ARGUMENT_1(ctx),
		.label = ARGUMENT_2(ctx),
		.secret = ARGUMENT_3(ctx),
		.secret_len = ARGUMENT_4(ctx),
	};

	return report(&at);
}

/* Go: (config, label string, random slice, secret slice), in registers since Go 1.17. */
SEC("uprobe")
int key_log_go(struct registers *ctx)
{
	struct arguments at = {
		.label = GO_LABEL(ctx),
		.label_len = GO_LABEL_LEN(ctx),
		.random = GO_RANDOM(ctx),
		.random_len = GO_RANDOM_LEN(ctx),
		.secret = GO_SECRET(ctx),
		.secret_len = GO_SECRET_LEN(ctx),
	};

	return report(&at);
}
