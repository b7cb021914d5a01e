/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Copies what OpenSSL and BoringSSL encrypt and decrypt, when their calls return.
 *
 * The socket of an SSL object is the one that its thread uses inside such a call. Events carry the TCP sequence
 * numbers moved meanwhile, which identify the records on the wire. They go through a ring buffer without wake-ups.
 * Events that find no room are counted, and offsets show the gaps.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "connection.h"
#include "tls.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Never read: they export types that are in no map to user space. */
const volatile struct tls_event event_type = {};
const volatile enum tls_function function_type = TLS_READ;
const volatile enum tls_flags flags_type = TLS_SENT;
const volatile enum tls_limits limits_type = TLS_CHUNK;

__u64 streams = 0;

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
	__type(value, struct tls_ports);
} wanted_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TLS_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TLS_CALLS);
	__type(key, __u64);
	__type(value, struct tls_call);
} running SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TLS_OBJECTS);
	__type(key, struct tls_object_key);
	__type(value, struct tls_object);
} objects SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* User space sets the size. */
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* User registers at a probe: the stable layout of user_pt_regs (asm/ptrace.h). */
#if defined(__TARGET_ARCH_x86)
struct registers {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
};
#define ARGUMENT_1(ctx) ((ctx)->di)
#define ARGUMENT_2(ctx) ((ctx)->si)
#define ARGUMENT_4(ctx) ((ctx)->cx)
#define RESULT(ctx) ((ctx)->ax)
#elif defined(__TARGET_ARCH_arm64)
struct registers {
	__u64 regs[31];
};
#define ARGUMENT_1(ctx) ((ctx)->regs[0])
#define ARGUMENT_2(ctx) ((ctx)->regs[1])
#define ARGUMENT_4(ctx) ((ctx)->regs[3])
#define RESULT(ctx) ((ctx)->regs[0])
#endif

#define COUNT(field, by)                                                   \
	do {                                                               \
		__u32 zero = 0;                                            \
		struct tls_counts *sum = bpf_map_lookup_elem(&counts, &zero); \
		if (sum)                                                   \
			__sync_fetch_and_add(&sum->field, by);             \
	} while (0)

/* ---- which processes ---- */

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

	if (!is_followed(pid_tgid))
		return 0;
	bpf_map_delete_elem(&running, &pid_tgid);
	if (task->signal->live.counter <= 0)
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* ---- SSL objects and their sockets ---- */

static __always_inline struct tls_object *object_of(__u64 ssl, __u32 tgid)
{
	struct tls_object_key key = {.ssl = ssl, .tgid = tgid};
	struct tls_object *object = bpf_map_lookup_elem(&objects, &key);
	struct tls_object fresh = {};

	if (object)
		return object;
	fresh.stream = __sync_fetch_and_add(&streams, 1) + 1;
	bpf_map_update_elem(&objects, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&objects, &key);
}

/*
 * Bytes were sent or received within a call. An SSL object on another socket is a new one: both memories may be
 * reused after a connection has ended.
 */
static __always_inline void moved(struct sock *sk, __s64 bytes, __u32 sent)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct tls_call *call = bpf_map_lookup_elem(&running, &pid_tgid);
	struct tls_direction *direction;
	struct tls_object *object;
	struct tcp_sock *tcp;
	__u32 to;

	if (!call || sk->sk_protocol != IPPROTO_TCP)
		return;
	object = object_of(call->ssl, pid_tgid >> 32);
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!object || !tcp)
		return;
	if (object->socket != (__u64)sk || object->connection.remote_port != __builtin_bswap16(sk->__sk_common.skc_dport) ||
	    object->connection.local_port != sk->__sk_common.skc_num) {
		__builtin_memset(object->directions, 0, sizeof(object->directions));
		if (object->socket)
			object->stream = __sync_fetch_and_add(&streams, 1) + 1;
		object->socket = (__u64)sk;
		read_ends(&object->connection, sk);
	}
	if (bytes <= 0)
		return;
	direction = &object->directions[sent];
	to = sent ? tcp->write_seq : tcp->copied_seq;
	/* A FIN that comes with the last bytes takes a sequence number. */
	if (!sent && direction->to && to - (__u32)bytes == direction->to + 1)
		to--;
	if (!direction->is_begun) {
		/* Excludes what was moved before this call, perhaps by a handshake. */
		direction->from = to - (__u32)bytes;
		direction->is_begun = 1;
	}
	direction->to = to;
}

SEC("tp_btf/sock_send_length")
int tls_sent(__u64 *ctx)
{
	moved((struct sock *)ctx[0], (int)ctx[1], 1);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int tls_received(__u64 *ctx)
{
	if (!((int)ctx[2] & MSG_PEEK))
		moved((struct sock *)ctx[0], (int)ctx[1], 0);
	return 0;
}

/*
 * Replacements before Linux 6.3, which lacks these tracepoints: the functions behind them. Their first arguments
 * are sock, message, length and, for receiving, flags; further ones vary.
 */
static __always_inline void returned(__u64 *ctx, __u32 sent)
{
	__u64 result;

	if (!bpf_get_func_ret(ctx, &result))
		moved((struct sock *)ctx[0], (int)result, sent);
}

SEC("fexit/tcp_sendmsg")
int tcp_sendmsg(__u64 *ctx)
{
	returned(ctx, 1);
	return 0;
}

SEC("fexit/tcp_recvmsg")
int tcp_recvmsg(__u64 *ctx)
{
	if (!((int)ctx[3] & MSG_PEEK))
		returned(ctx, 0);
	return 0;
}

/* ---- calls ---- */

SEC("uprobe")
int tls_enter(struct registers *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct tls_call call = {};

	if (!is_followed(pid_tgid))
		return 0;
	call.ssl = ARGUMENT_1(ctx);
	call.buffer = ARGUMENT_2(ctx);
	call.function = bpf_get_attach_cookie(ctx);
	if (call.function == TLS_READ_EX || call.function == TLS_WRITE_EX)
		call.moved = ARGUMENT_4(ctx);
	bpf_map_update_elem(&running, &pid_tgid, &call, BPF_ANY);
	return 0;
}

/* Returns the bytes that a call has moved, from its result. */
static __always_inline __s64 bytes_of(struct tls_call *call, __s64 result)
{
	__u64 bytes = 0;

	if (call->function == TLS_SENDFILE)
		return result;
	if ((__s32)result <= 0 || !call->moved)
		return (__s32)result;
	bpf_probe_read_user(&bytes, sizeof(bytes), (const void *)call->moved);
	return bytes;
}

static __always_inline bool is_wanted(struct connection_key *connection)
{
	__u16 local = connection->local_port, remote = connection->remote_port;
	__u32 zero = 0;
	struct tls_ports *ports = bpf_map_lookup_elem(&wanted_ports, &zero);

	if (!ports || !ports->only_these)
		return true;
	return (ports->set[local >> 3] & (1 << (local & 7))) || (ports->set[remote >> 3] & (1 << (remote & 7)));
}

/* Common to all events of one call. */
struct emission {
	struct tls_event *model;
	__u64 buffer;
};

static __always_inline long emit(struct emission *emission, __u64 at, __u32 len, const __u32 room)
{
	struct tls_event *model = emission->model, *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + room, 0);
	if (!event) {
		COUNT(lost_events, 1);
		COUNT(lost_bytes, len);
		return 0;
	}
	__builtin_memcpy(event, model, sizeof(*event));
	event->offset += at;
	event->call_before = at;
	event->len = len;
	if (!(event->flags & TLS_FILE) && bpf_probe_read_user(event->bytes, len > room ? room : len, (const void *)(emission->buffer + at))) {
		event->flags |= TLS_UNREAD;
		COUNT(unread_bytes, len);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static long emit_part(__u32 index, struct emission *emission)
{
	__u64 at = (__u64)index * TLS_CHUNK, left = emission->model->call_bytes - at;
	__u32 len = left > TLS_CHUNK ? TLS_CHUNK : left;

	if (len <= TLS_SHORT)
		return emit(emission, at, len, TLS_SHORT);
	if (len <= TLS_MIDDLE)
		return emit(emission, at, len, TLS_MIDDLE);
	return emit(emission, at, len, TLS_CHUNK);
}

static __always_inline void report(struct tls_call *call, __u64 pid_tgid, __u64 bytes)
{
	struct tls_object *object = object_of(call->ssl, pid_tgid >> 32);
	__u32 sent = call->function >= TLS_WRITE, parts;
	struct tls_event model = {};
	struct emission emission = {.model = &model, .buffer = call->buffer};
	struct tls_direction *direction;

	if (!object)
		return;
	direction = &object->directions[sent];
	model.time_ns = bpf_ktime_get_ns();
	model.stream = object->stream;
	model.offset = direction->offset;
	model.call_bytes = bytes;
	model.tgid = pid_tgid >> 32;
	model.tid = pid_tgid;
	model.flags = sent ? TLS_SENT : 0;
	direction->offset += bytes;
	if (object->socket) {
		model.connection = object->connection;
		model.from = direction->is_begun ? direction->from : direction->to;
		model.to = direction->to;
		model.flags |= TLS_JOINED;
		direction->is_begun = 0;
		if (!is_wanted(&model.connection)) {
			COUNT(elsewhere_bytes, bytes);
			return;
		}
	} else {
		COUNT(unjoined_bytes, bytes);
	}
	if (call->function == TLS_SENDFILE) {
		model.flags |= TLS_FILE;
		COUNT(file_bytes, bytes);
	}
	COUNT(calls, 1);
	COUNT(bytes, bytes);
	parts = (bytes + TLS_CHUNK - 1) / TLS_CHUNK;
	bpf_loop(parts > TLS_CHUNKS ? TLS_CHUNKS : parts, emit_part, &emission, 0);
}

SEC("uretprobe")
int tls_exit(struct registers *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct tls_call *call = bpf_map_lookup_elem(&running, &pid_tgid);
	struct tls_call copy;
	__s64 bytes;

	if (!call)
		return 0;
	copy = *call;
	bpf_map_delete_elem(&running, &pid_tgid);
	bytes = bytes_of(&copy, RESULT(ctx));
	if (bytes > 0)
		report(&copy, pid_tgid, bytes);
	return 0;
}

/* Its memory may soon be another SSL object's. */
SEC("uprobe")
int tls_free(struct registers *ctx)
{
	struct tls_object_key key = {.ssl = ARGUMENT_1(ctx), .tgid = bpf_get_current_pid_tgid() >> 32};

	bpf_map_delete_elem(&objects, &key);
	return 0;
}
