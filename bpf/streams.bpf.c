/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Copies the bytes that go through UNIX stream sockets, once each, after the calls that wrote them.
 *
 * The tracepoint `sock_send_length` reports socket and length when a call has written, in the writing process,
 * whose registers and memory still hold the call and its buffers. So other system calls run no program, and every
 * way to write is covered, including io_uring and sendfile. `sock_recv_length` reports how far the other end has
 * read.
 *
 * A call returns after its bytes were queued, so the other end may have read and answered them before. Reading
 * bytes before their call has returned records the time, and each piece states what its writer had read of the other
 * direction, so that user space can order requests and responses.
 */
#include "kernel.h"
#include "streams.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Never read: they export types that are in no map to user space. */
const volatile struct stream_alive alive_type = {};
const volatile enum absence absence_type = ABSENT_NOT;

__u64 connections = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WANTED_SLOTS);
	__type(key, struct stream_name);
	__type(value, __u32);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WANTED_SLOTS);
	__type(key, struct stream_file);
	__type(value, __u32);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct end);
} ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} ring SEC(".maps");

/* A call's buffers, and how far they were copied. */
struct copying {
	/* The process's array of vectors, how many are left, and the current one. */
	__u64 vectors;
	__u64 count;
	__u64 base;
	__u64 room;
	/* Bytes of the call that are left, and how many to copy. */
	__u64 left;
	__u64 wanted;
	/* Bytes in the scratch. */
	__u32 filled;
};

/*
 * Buffer in which a piece is assembled, one per CPU; tracepoints run without preemption. Values outside the stack
 * also keep the verifier from tracking them from step to step.
 */
struct scratch {
	struct piece piece;
	__u8 bytes[2 * PIECE_BYTES];
	struct copying copying;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream_sums);
} sums SEC(".maps");

/* Progress of a thread's `sendmmsg`, whose messages pass the tracepoint one by one. */
struct many {
	__u64 messages;
	__u32 length;
	__u32 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct many);
} manies SEC(".maps");

/* The io_uring request that a thread has submitted last, and the one that waits for room in a socket. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} submitted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} armed SEC(".maps");

/* ---- whose sockets ---- */

/* Returns the index of the wanted name or file that a socket is bound to, or -1. */
static __always_inline int wanted_of(struct unix_sock *unix)
{
	struct unix_address *address = BPF_CORE_READ(unix, addr);
	struct stream_name name = {};
	struct stream_file file = {};
	struct dentry *dentry;
	__u32 *found;
	int length;

	if (!address)
		return -1;
	length = BPF_CORE_READ(address, len) - SUN_PATH_AT;
	if (length <= 0)
		return -1;
	if (length > NAME_BYTES)
		length = NAME_BYTES;
	if (bpf_probe_read_kernel(&name, length, (void *)address + bpf_core_field_offset(struct unix_address, name) + SUN_PATH_AT))
		return -1;
	found = bpf_map_lookup_elem(&names, &name);
	if (found)
		return *found;
	dentry = BPF_CORE_READ(unix, path.dentry);
	if (!dentry)
		return -1;
	file.inode = BPF_CORE_READ(dentry, d_inode, i_ino);
	file.device = BPF_CORE_READ(dentry, d_inode, i_sb, s_dev);
	found = bpf_map_lookup_elem(&files, &file);
	return found ? (int)*found : -1;
}

static __always_inline struct stream_sums *own_sums(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sums, &zero);
}

/* If both ends see a connection for the first time at once, on two CPUs, one insertion fails. Retries. */
#define TRIES 8

/*
 * Returns the state of a socket, created if necessary. Null on failure, which counts as lost, because the missing
 * bytes would go unnoticed.
 */
static __always_inline struct end *keep(struct sock *sk, struct end *fresh)
{
	struct stream_sums *sum;
	struct end *end;

	for (int tries = 0; tries < TRIES; tries++) {
		end = bpf_sk_storage_get(&ends, sk, fresh, BPF_SK_STORAGE_GET_F_CREATE);
		if (end)
			return end;
	}
	sum = own_sums();
	if (sum)
		sum->lost++;
	return 0;
}

/*
 * Makes a socket the server's end of a connection. The entry is complete before it can be found. If both ends see a
 * connection for the first time at once, one number goes unused.
 */
static __always_inline struct end *serve(struct sock *sk, __u32 wanted)
{
	struct end fresh = {.kind = END_SERVER, .wanted = wanted};
	struct stream_settings *set;
	__u32 zero = 0;

	set = bpf_map_lookup_elem(&settings, &zero);
	fresh.is_old = set && !set->marked;
	fresh.id = __sync_fetch_and_add(&connections, 1) + 1;
	fresh.client_pid = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
	return keep(sk, &fresh);
}

/* Classifies a new socket. */
static __noinline struct end *judge(struct sock *sk)
{
	struct end fresh = {.kind = END_OTHER};
	struct unix_sock *unix = (struct unix_sock *)sk;
	struct sock *peer;
	int wanted;

	if (BPF_CORE_READ(sk, sk_type) == SOCK_STREAM) {
		wanted = wanted_of(unix);
		if (wanted >= 0)
			return serve(sk, wanted);
		peer = BPF_CORE_READ(unix, peer);
		if (peer && wanted_of((struct unix_sock *)peer) >= 0)
			fresh.kind = END_CLIENT;
	}
	return keep(sk, &fresh);
}

/* Returns the server's end of a wanted connection, or null, and the direction in which the socket writes. */
static __always_inline struct end *connection_of(struct sock *sk, __u32 *direction)
{
	struct end *end = bpf_sk_storage_get(&ends, sk, 0, 0);
	struct unix_sock *unix;
	struct sock *peer;

	if (!end)
		end = judge(sk);
	if (!end || end->kind == END_OTHER)
		return 0;
	*direction = end->kind == END_SERVER;
	if (end->kind == END_SERVER)
		return end;
	unix = bpf_skc_to_unix_sock(sk);
	if (!unix)
		return 0;
	peer = unix->peer;
	if (!peer)
		return 0;
	end = bpf_sk_storage_get(&ends, peer, 0, 0);
	if (end)
		return end;
	{
		int wanted = wanted_of((struct unix_sock *)peer);

		return wanted >= 0 ? serve(peer, wanted) : 0;
	}
}

/* ---- what was written ---- */

/* Submits the scratch as a piece of `length` bytes. */
static __always_inline void hand_over(struct scratch *scratch, __u32 filled, __u32 length)
{
	struct piece *piece = &scratch->piece;
	struct stream_sums *sum = own_sums();

	if (filled > PIECE_BYTES)
		filled = PIECE_BYTES;
	piece->captured = filled;
	piece->length = length;
	if (bpf_ringbuf_output(&ring, scratch, sizeof(*piece) + filled, BPF_RB_NO_WAKEUP)) {
		if (sum) {
			sum->lost++;
			sum->lost_bytes += length;
		}
	} else if (sum) {
		sum->copied += filled;
	}
	piece->offset += length;
}

/* Copies from the current vector, or takes the next one. Returns 1 at the end. */
static long step(__u32 index, struct scratch **context)
{
	struct scratch *scratch = *context;
	struct copying *copying = &scratch->copying;
	struct iovec vector;
	__u32 filled = copying->filled;
	__u64 length;

	if (!copying->wanted)
		return 1;
	if (!copying->room) {
		if (!copying->count)
			return 1;
		if (bpf_probe_read_user(&vector, sizeof(vector), (void *)copying->vectors)) {
			scratch->piece.absent = ABSENT_FAULT;
			return 1;
		}
		copying->vectors += sizeof(vector);
		copying->count--;
		copying->base = (__u64)vector.iov_base;
		copying->room = vector.iov_len;
		return 0;
	}
	length = copying->room;
	if (length > copying->wanted)
		length = copying->wanted;
	if (filled >= PIECE_BYTES)
		filled = 0;
	if (length > PIECE_BYTES - filled)
		length = PIECE_BYTES - filled;
	filled &= PIECE_BYTES - 1;
	if (length > PIECE_BYTES)
		return 1;
	if (bpf_probe_read_user(scratch->bytes + filled, length, (void *)copying->base)) {
		scratch->piece.absent = ABSENT_FAULT;
		return 1;
	}
	copying->base += length;
	copying->room -= length;
	copying->wanted -= length;
	filled += length;
	if (filled >= PIECE_BYTES) {
		copying->left -= PIECE_BYTES;
		hand_over(scratch, PIECE_BYTES, PIECE_BYTES);
		filled = 0;
	}
	copying->filled = filled;
	return 0;
}

/* Returns the next message of `sendmmsg`. */
static __always_inline __u64 next_message(__u64 messages, __u32 length)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct many fresh = {.messages = messages, .length = length, .next = 1};
	struct many *many = bpf_map_lookup_elem(&manies, &thread);
	__u32 index = 0;

	if (many && many->messages == messages && many->length == length && many->next < length) {
		index = many->next++;
		return messages + index * sizeof(struct mmsghdr);
	}
	bpf_map_update_elem(&manies, &thread, &fresh, BPF_ANY);
	return messages;
}

static __always_inline void take_message(struct scratch *scratch, __u64 message)
{
	struct user_msghdr header;

	if (bpf_probe_read_user(&header, sizeof(header), (void *)message)) {
		scratch->piece.absent = ABSENT_FAULT;
		return;
	}
	scratch->copying.vectors = (__u64)header.msg_iov;
	scratch->copying.count = header.msg_iovlen;
}

/* Returns whether a socket is behind a descriptor of the process. Only the table's entry has a type that the
   verifier does not track. */
static __always_inline bool is_behind(struct sock *sk, struct task_struct *task, __u32 descriptor)
{
	struct socket___kernel *socket = sk->sk_socket;
	struct fdtable *table = task->files->fdt;
	struct file *file = 0;

	return descriptor < table->max_fds && !bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor) && file &&
	       file == socket->file;
}

/* Returns whether an io_uring request writes to the socket now. */
static __always_inline bool is_of(struct io_kiocb *request, struct sock *sk)
{
	struct file *file = BPF_CORE_READ(request, file);
	struct socket___kernel *socket;

	if (!file)
		return false;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk) == sk;
}

/*
 * Finds the buffers of an io_uring request: the one this thread submitted last, or the one that has waited for the
 * socket. After a wait, vectors and message headers may no longer exist.
 */
static __always_inline bool find_request(struct scratch *scratch, struct sock *sk)
{
	__u64 thread = bpf_get_current_pid_tgid(), key = (__u64)sk;
	struct copying *copying = &scratch->copying;
	struct io_kiocb *request;
	struct io_sr_msg *send;
	bool has_waited = false;
	struct io_rw *write;
	__u64 *found;

	if (!bpf_core_type_exists(struct io_kiocb) || !bpf_core_type_exists(struct io_sr_msg) ||
	    !bpf_core_type_exists(struct io_rw))
		return false;
	found = bpf_map_lookup_elem(&submitted, &thread);
	if (!found || !is_of((struct io_kiocb *)*found, sk)) {
		has_waited = true;
		found = bpf_map_lookup_elem(&armed, &key);
		if (!found || !is_of((struct io_kiocb *)*found, sk))
			return false;
	}
	request = (struct io_kiocb *)*found;
	send = (struct io_sr_msg *)request;
	write = (struct io_rw *)request;
	switch (BPF_CORE_READ(request, opcode)) {
	case IORING_OP_SEND:
		if (BPF_CORE_READ(send, flags) & IORING_RECVSEND_BUNDLE)
			return false;
		copying->base = (__u64)BPF_CORE_READ(send, buf);
		copying->room = BPF_CORE_READ(send, len);
		return copying->base;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		copying->base = BPF_CORE_READ(write, addr);
		copying->room = BPF_CORE_READ(write, len);
		return copying->base;
	case IORING_OP_WRITEV:
		copying->vectors = BPF_CORE_READ(write, addr);
		copying->count = BPF_CORE_READ(write, len);
		return !has_waited;
	case IORING_OP_SENDMSG:
		if (has_waited || BPF_CORE_READ(send, done_io))
			return false;
		take_message(scratch, (__u64)BPF_CORE_READ(send, umsg));
		return true;
	default:
		return false;
	}
}

SEC("tp_btf/io_uring_submit_req")
int io_uring_submit_req(__u64 *ctx)
{
	__u64 thread = bpf_get_current_pid_tgid(), request = ctx[0];

	bpf_map_update_elem(&submitted, &thread, &request, BPF_ANY);
	return 0;
}

/* A request could not proceed and waits for its file. */
SEC("tp_btf/io_uring_poll_arm")
int io_uring_poll_arm(__u64 *ctx)
{
	struct io_kiocb *request = (struct io_kiocb *)ctx[0];
	__u64 value = (__u64)request, key;
	struct socket___kernel *socket;
	struct file *file;
	__u8 opcode;

	if (!bpf_core_type_exists(struct io_kiocb))
		return 0;
	opcode = BPF_CORE_READ(request, opcode);
	if (opcode != IORING_OP_SEND && opcode != IORING_OP_WRITE && opcode != IORING_OP_WRITE_FIXED)
		return 0;
	file = BPF_CORE_READ(request, file);
	socket = BPF_CORE_READ(file, private_data);
	key = (__u64)BPF_CORE_READ(socket, sk);
	bpf_map_update_elem(&armed, &key, &value, BPF_ANY);
	return 0;
}

/* Finds the buffers of the current call. */
static __always_inline void find_buffers(struct scratch *scratch, struct sock *sk)
{
	struct copying *copying = &scratch->copying;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct piece *piece = &scratch->piece;

	piece->call = SYSCALL_NUMBER(regs);
	piece->is_compat = !!IS_COMPAT(task);
	/* An io_uring request runs in any thread of the process or the kernel, perhaps inside another call. */
	if (piece->is_compat || !is_behind(sk, task, SYSCALL_ARGUMENT_1(regs))) {
		if (piece->is_compat || !find_request(scratch, sk))
			piece->absent = piece->call == CALL_IO_URING_ENTER ? ABSENT_RING : ABSENT_CALL;
		return;
	}
	switch (piece->call) {
	case CALL_WRITE:
	case CALL_SENDTO:
		copying->base = SYSCALL_ARGUMENT_2(regs);
		copying->room = SYSCALL_ARGUMENT_3(regs);
		break;
	case CALL_WRITEV:
	case CALL_PWRITEV2:
		copying->vectors = SYSCALL_ARGUMENT_2(regs);
		copying->count = SYSCALL_ARGUMENT_3(regs);
		break;
	case CALL_SENDMSG:
		take_message(scratch, SYSCALL_ARGUMENT_2(regs));
		break;
	case CALL_SENDMMSG:
		take_message(scratch, next_message(SYSCALL_ARGUMENT_2(regs), SYSCALL_ARGUMENT_3(regs)));
		break;
	default:
		piece->absent = ABSENT_CALL;
	}
}

SEC("tp_btf/sock_send_length")
int sock_send_length(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 cpu = bpf_get_smp_processor_id(), direction, zero = 0;
	struct stream_settings *set;
	int length = (int)ctx[1];
	struct copying *copying;
	struct stream_sums *sum;
	struct scratch *scratch;
	struct piece *piece;
	struct end *end;
	__u64 early_ns;

	if (length <= 0 || sk->__sk_common.skc_family != AF_UNIX)
		return 0;
	end = connection_of(sk, &direction);
	if (!end)
		return 0;
	scratch = bpf_map_lookup_elem(&scratches, &cpu);
	sum = own_sums();
	set = bpf_map_lookup_elem(&settings, &zero);
	if (!scratch || !sum || !set)
		return 0;
	sum->calls++;
	sum->bytes += length;
	direction &= 1;
	piece = &scratch->piece;
	piece->time_ns = bpf_ktime_get_ns();
	piece->id = end->id;
	piece->seen = end->received[!direction];
	piece->client_pid = end->client_pid;
	piece->wanted = end->wanted;
	piece->to_server = !direction;
	piece->is_old = end->is_old;
	piece->absent = ABSENT_NOT;
	piece->offset = __sync_fetch_and_add(&end->sent[direction], length);
	early_ns = end->early_ns[direction];
	if (early_ns) {
		if (early_ns < piece->time_ns)
			piece->time_ns = early_ns;
		/* Bytes read after that may be the response, read by another thread, so they must not come first. */
		if (end->early_seen[direction] < piece->seen)
			piece->seen = end->early_seen[direction];
		if (end->received[direction] <= piece->offset + length)
			end->early_ns[direction] = 0;
	}
	copying = &scratch->copying;
	__builtin_memset(copying, 0, sizeof(*copying));
	copying->left = length;
	copying->wanted = (__u64)length < set->limit ? (__u64)length : set->limit;
	find_buffers(scratch, sk);
	if (piece->absent == ABSENT_NOT)
		bpf_loop(MOST_STEPS, step, &scratch, 0);
	if (piece->absent == ABSENT_NOT && copying->filled < copying->left)
		piece->absent = ABSENT_LIMIT;
	if (copying->left)
		hand_over(scratch, copying->filled, copying->left);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	int length = (int)ctx[1];
	__u64 received;
	__u32 direction;
	struct end *end;

	if (length <= 0 || sk->__sk_common.skc_family != AF_UNIX || ((int)ctx[2] & MSG_PEEK))
		return 0;
	end = connection_of(sk, &direction);
	if (!end)
		return 0;
	/* Bytes that this end reads were written by the other one. */
	direction = !direction;
	direction &= 1;
	received = __sync_fetch_and_add(&end->received[direction], length) + length;
	if (received > end->sent[direction] && !end->early_ns[direction]) {
		end->early_seen[direction] = end->received[!direction];
		end->early_ns[direction] = bpf_ktime_get_ns();
	}
	return 0;
}

/* Marks the existing connections first, then lists connections. */
SEC("iter/unix")
int read_connections(struct bpf_iter__unix *ctx)
{
	struct unix_sock *unix = ctx->unix_sk;
	struct stream_alive alive = {};
	struct stream_settings *set;
	__u32 zero = 0;
	struct end *end;
	int wanted;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!unix || !set)
		return 0;
	if (!set->marked) {
		if (BPF_CORE_READ(unix, sk.sk_type) != SOCK_STREAM || BPF_CORE_READ(unix, sk.__sk_common.skc_state) != TCP_ESTABLISHED)
			return 0;
		wanted = wanted_of(unix);
		if (wanted >= 0)
			serve(&unix->sk, wanted);
		return 0;
	}
	end = bpf_sk_storage_get(&ends, &unix->sk, 0, 0);
	if (end && end->kind == END_SERVER) {
		alive.id = end->id;
		alive.client_pid = end->client_pid;
		bpf_seq_write(ctx->meta->seq, &alive, sizeof(alive));
	}
	return 0;
}
