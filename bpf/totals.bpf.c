/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Adds up what TCP itself counts for the connections to some ports, in every network namespace. If the settings say so, those to all
 * listeners of the host count, so that user space can decide later which of them it wants.
 *
 * A socket is followed from the moment it is established. Its counters are added to its key's sum when it closes, and
 * whenever user space reads the iterator over the followed sockets. So no connection is missing between two readings.
 *
 * Of the two tables of sums, the programs fill one while user space empties the other. So each reading starts with room for
 * all connections that are active until the next, and nothing is added to a sum while it is read.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "connection.h"
#include "totals.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { IPV4_HEADER = 20, IPV6_HEADER = 40 };
enum { TCP_HEADER = 20 };
/* Options of a SYN, as Linux sends them. Permission for SACK has room in the padding of timestamps. */
enum { SEGMENT_SIZE_OPTION = 4, TIMESTAMPS_OPTION = 12, SCALE_OPTION = 4, SACK_OPTION = 4 };
/* Fast Open without and with a cookie of the usual size. */
enum { COOKIE_REQUEST_OPTION = 4, COOKIE_OPTION = 12 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct followed_socket);
} followed SEC(".maps");

struct sums_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TOTALS_SLOTS);
	__type(key, struct totals_key);
	__type(value, struct end_totals);
};

struct sums_table sums_even SEC(".maps"), sums_odd SEC(".maps");
struct sums_table other_even SEC(".maps"), other_odd SEC(".maps");

/* The tables that are filled, by [`totals_table`]. An update returns once no program uses the one before. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, TOTALS_TABLES);
	__type(key, __u32);
	__array(values, struct sums_table);
} filled SEC(".maps") = { .values = { &sums_even, &other_even } };

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LISTENER_SLOTS);
	__type(key, struct listener_key);
	__type(value, struct listener);
} listeners SEC(".maps");

/* By local end. User space empties it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NEW_LISTENER_SLOTS);
	__type(key, struct connection_key);
	__type(value, struct new_listener);
} new_listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAITING_SLOTS);
	__type(key, struct connection_key);
	__type(value, struct waiting_socket);
} waiting SEC(".maps");

/* The sums of all keys that found no room, by [`no_room`]. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NO_ROOM_SUMS);
	__type(key, __u32);
	__type(value, struct end_totals);
} remaining SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals_losses);
} losses SEC(".maps");

/* Too large for the stack: a zeroed sum. */
static const struct end_totals nothing = {};

static __always_inline bool is_loopback(__u32 *address)
{
	return !address[0] && !address[1] && address[2] == __builtin_bswap32(0xffff) && (address[3] & __builtin_bswap32(0xff000000)) == __builtin_bswap32(0x7f000000);
}

/* Whether both ends have the same host by their addresses. */
static __always_inline bool is_local(struct connection_key *ends)
{
	for (int i = 0; i < 4; i++)
		if (ends->local[i] != ends->remote[i])
			return is_loopback(ends->local) && is_loopback(ends->remote);
	return true;
}

static __always_inline struct totals_settings *read_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline bool has_port(struct totals_settings *set, __u16 port)
{
	__u32 byte = port >> 3;

	/* Linux 6.1 and 6.12 forget a port's bounds when its bytes are swapped, so the compiler must not rely on them. */
	barrier_var(byte);
	return set->ports[byte & (TOTALS_PORT_BYTES - 1)] & (1 << (port & 7));
}

static __always_inline __u16 server_port(struct totals_key *key)
{
	return key->is_server ? key->ends.local_port : key->ends.remote_port;
}

static __always_inline struct listener *listener_on(__u32 netns, __u16 port)
{
	struct listener_key key = { .netns = netns, .port = port };

	return bpf_map_lookup_elem(&listeners, &key);
}

/* Clients may be in another network namespace than their server. */
static __always_inline bool is_ignored(struct totals_settings *set, struct totals_key *key)
{
	__u16 port = server_port(key);
	struct listener *listener = listener_on(key->is_server ? key->ends.netns : 0, port);

	return set->every_listener && !has_port(set, port) && listener && listener->is_ignored;
}

static __always_inline struct end_totals *sum_of(struct totals_key *key)
{
	struct totals_settings *set = read_settings();
	__u32 table, end;
	struct end_totals *sum;
	void *sums;

	if (!set)
		return 0;
	table = has_port(set, server_port(key)) ? KNOWN_PORTS : OTHER_PORTS;
	sums = bpf_map_lookup_elem(&filled, &table);
	if (!sums)
		return 0;
	sum = bpf_map_lookup_elem(sums, key);
	if (sum)
		return sum;
	bpf_map_update_elem(sums, key, &nothing, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(sums, key);
	if (sum)
		return sum;
	if (table == OTHER_PORTS)
		end = NO_ROOM_OTHER_PORTS;
	else
		end = key->is_server ? NO_ROOM_SERVERS : is_local(&key->ends) ? NO_ROOM_LOCAL_CLIENTS : NO_ROOM_CLIENTS;
	return table == OTHER_PORTS && !key->is_server ? 0 : bpf_map_lookup_elem(&remaining, &end);
}

static __always_inline void add(__u64 *sum, __u64 amount)
{
	if (amount)
		__sync_fetch_and_add(sum, amount);
}

/* Replaces a counter by its value now, and returns the difference; 0 if another CPU has stored a later value. */
static __always_inline __u64 advance(__u64 *settled, __u64 now)
{
	__u64 before = __sync_lock_test_and_set(settled, now);

	if ((__s64)(now - before) >= 0)
		return now - before;
	__sync_val_compare_and_swap(settled, now, before);
	return 0;
}

static __always_inline __u32 advance_segments(__u32 *settled, __u32 now)
{
	__u32 before = __sync_lock_test_and_set(settled, now);

	if ((__s32)(now - before) >= 0)
		return now - before;
	__sync_val_compare_and_swap(settled, now, before);
	return 0;
}

static __always_inline bool is_ipv4(struct connection_key *ends)
{
	return !ends->remote[0] && !ends->remote[1] && ends->remote[2] == __builtin_bswap32(0xffff);
}

/* Bytes of an IP and a TCP header. */
static __always_inline __u32 header_of(struct totals_key *key, __u32 tcp_header)
{
	return (is_ipv4(&key->ends) ? IPV4_HEADER : IPV6_HEADER) + tcp_header;
}

static __always_inline bool has_received_fin(struct tcp_sock *tp)
{
	return ((struct sock *)tp)->__sk_common.skc_flags & (1UL << SOCK_DONE);
}

/* TCP counts a FIN as a byte received. */
static __always_inline __u64 received_payload(struct tcp_sock *tp)
{
	return tp->bytes_received - has_received_fin(tp);
}

/* Adds what a socket has sent and received since the last time. */
static __always_inline void settle(struct followed_socket *socket, struct tcp_sock *tp, struct end_totals *sum)
{
	struct settled_counters *settled = &socket->settled;
	__u32 header = header_of(&socket->key, tp->tcp_header_len);
	__u32 sent = advance_segments(&settled->sent_segments, tp->segs_out - socket->unsent.segments);
	__u32 received = advance_segments(&settled->received_segments, tp->segs_in);

	add(&sum->sent_segments, sent);
	add(&sum->received_segments, received);
	add(&sum->sent_header_bytes, (__u64)sent * header);
	add(&sum->received_header_bytes, received ? (__u64)received * header - settled->missing_options : 0);
	add(&sum->sent_bytes, advance(&settled->sent_bytes, tp->bytes_sent - socket->unsent.bytes));
	if (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp)
		add(&sum->multipath_segments, sent + received);
	add(&sum->received_bytes, advance(&settled->received_bytes, received_payload(tp)));
	add(&sum->retransmitted_bytes, advance(&settled->retransmitted_bytes, tp->bytes_retrans));
	add(&sum->retransmitted_segments, advance_segments(&settled->retransmitted_segments, tp->total_retrans));
	if (tp->srtt_us && (sent || received)) {
		add(&sum->round_trip_us, tp->srtt_us >> 3);
		add(&sum->round_trips, 1);
	}
}

/* Whether a socket has sent or received since the last time. If not, it takes no room in the table. */
static __always_inline bool has_moved(struct followed_socket *socket, struct tcp_sock *tp)
{
	struct settled_counters *settled = &socket->settled;

	return settled->sent_segments != tp->segs_out - socket->unsent.segments || settled->received_segments != tp->segs_in ||
	       settled->sent_bytes != tp->bytes_sent - socket->unsent.bytes || settled->received_bytes != received_payload(tp);
}

static __always_inline void count_lost(bool is_listener)
{
	__u32 zero = 0;
	struct totals_losses *loss = bpf_map_lookup_elem(&losses, &zero);

	if (loss)
		__sync_fetch_and_add(is_listener ? &loss->lost_listeners : &loss->lost, 1);
}

/* Whether connections to this port of a server are of interest. */
static __always_inline bool is_wanted(struct totals_settings *set, __u32 netns, __u16 port, bool is_server)
{
	struct listener *listener;

	if (has_port(set, port) || !set->every_listener)
		return has_port(set, port);
	listener = listener_on(is_server ? netns : 0, port);
	return listener ? !listener->is_ignored : is_server;
}

/* A closed socket has its port only as it sends it. */
static __always_inline __u16 local_port(struct sock *sk)
{
	return sk->__sk_common.skc_num ?: __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
}

/* Starts to follow a socket; null if it is of no interest, or already followed. */
static __always_inline struct followed_socket *follow(struct sock *sk, bool is_server, bool is_adopted)
{
	struct totals_settings *set = read_settings();
	struct followed_socket *socket;
	__u16 port;

	if (!set || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	port = is_server ? local_port(sk) : __builtin_bswap16(sk->__sk_common.skc_dport);
	if (!is_wanted(set, sk->__sk_common.skc_net.net->ns.inum, port, is_server) || bpf_sk_storage_get(&followed, sk, 0, 0))
		return 0;
	socket = bpf_sk_storage_get(&followed, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!socket) {
		count_lost(false);
		return 0;
	}
	read_ends(&socket->key.ends, sk);
	socket->key.ends.local_port = local_port(sk);
	socket->key.cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	socket->key.is_server = is_server;
	socket->key.is_adopted = is_adopted;
	if (!set->by_connection && is_server)
		socket->key.ends.remote_port = 0;
	else if (!set->by_connection)
		socket->key.ends.local_port = 0;
	return socket;
}

static __always_inline void mark_open(__u32 netns, __u16 port, __u64 flags)
{
	struct listener_key key = { .netns = netns, .port = port };
	struct listener listener = {};

	bpf_map_update_elem(&listeners, &key, &listener, flags);
}

/* Notes a socket that starts to listen. Its process calls this. */
static __always_inline void note_listener(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct totals_settings *set = read_settings();
	struct new_listener new = { .pid = task->tgid };
	struct connection_key ends = {};

	if (!set || !set->every_listener || sk->sk_protocol != IPPROTO_TCP)
		return;
	read_ends(&ends, sk);
	mark_open(ends.netns, ends.local_port, BPF_ANY);
	mark_open(0, ends.local_port, BPF_ANY);
	bpf_probe_read_kernel(new.command, sizeof(new.command), task->group_leader->comm);
	if (bpf_map_update_elem(&new_listeners, &ends, &new, BPF_ANY))
		count_lost(true);
}

static __always_inline __u32 syn_header(bool has_timestamps, bool has_scale, bool has_sack)
{
	__u32 header = TCP_HEADER + SEGMENT_SIZE_OPTION;

	if (has_timestamps)
		header += TIMESTAMPS_OPTION;
	else if (has_sack)
		header += SACK_OPTION;
	return has_scale ? header + SCALE_OPTION : header;
}

/* Adds the segments and options of the handshake that a socket does not count: SYNs have longer headers, and the listener sends its own.
 * The listener's has what both ends offer. What a client offers, the listener forgets if it refuses it, so it may have been offered. */
static __always_inline void add_handshake(struct sock *sk, struct tcp_sock *tp, struct totals_key *key, struct end_totals *sum)
{
	bool has_timestamps = BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok), has_scale = BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok);
	bool has_sack = BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok), is_server = key->is_server;
	struct netns_ipv4 *own = &sk->__sk_common.skc_net.net->ipv4;
	bool offers_timestamps = own->sysctl_tcp_timestamps, offers_scale = own->sysctl_tcp_window_scaling, offers_sack = own->sysctl_tcp_sack;
	__u32 agreed = syn_header(has_timestamps, has_scale, has_sack), offered;

	if (is_server) {
		offered = syn_header(has_timestamps || !offers_timestamps, has_scale || !offers_scale, has_sack || !offers_sack);
		offered += BPF_CORE_READ_BITFIELD(tp, syn_data_acked) ? COOKIE_OPTION : 0;
		add(&sum->received_header_bytes, offered - tp->tcp_header_len);
		add(&sum->sent_segments, 1);
		add(&sum->sent_header_bytes, header_of(key, agreed));
		return;
	}
	offered = syn_header(offers_timestamps, offers_scale, offers_sack);
	if (BPF_CORE_READ_BITFIELD(tp, syn_fastopen))
		offered += BPF_CORE_READ_BITFIELD(tp, syn_data) ? COOKIE_OPTION : COOKIE_REQUEST_OPTION;
	/* Headers of 20 bytes are the shortest, and SYNs have more. */
	add(&sum->sent_header_bytes, offered > tp->tcp_header_len ? offered - tp->tcp_header_len : 0);
	add(&sum->received_header_bytes, agreed > tp->tcp_header_len ? agreed - tp->tcp_header_len : 0);
}

static __always_inline void begin(struct sock *sk, int before)
{
	struct followed_socket *socket = follow(sk, before == TCP_SYN_RECV, false);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct end_totals *sum;

	if (!socket || !tp)
		return;
	sum = sum_of(&socket->key);
	if (!sum)
		return;
	add(&sum->opened, 1);
	add_handshake(sk, tp, &socket->key, sum);
}

static __always_inline bool sees_drops(void)
{
	struct totals_settings *set = read_settings();

	return set && set->sees_drops;
}

/* Leaves the last segments to a TIME-WAIT socket, which counts nothing: the peer's FIN and its acknowledgment, if there is one. */
static __always_inline void wait_for_peer(struct sock *sk, struct tcp_sock *tp, struct followed_socket *socket, struct end_totals *sum)
{
	struct waiting_socket wait = { .key = socket->key, .tcp_header = tp->tcp_header_len };
	struct connection_key ends = {};
	__u32 header;

	if (sees_drops()) {
		read_ends(&ends, sk);
		ends.local_port = local_port(sk);
		bpf_map_update_elem(&waiting, &ends, &wait, BPF_ANY);
	} else if (!has_received_fin(tp)) {
		header = header_of(&socket->key, tp->tcp_header_len);
		add(&sum->sent_segments, 1);
		add(&sum->received_segments, 1);
		add(&sum->sent_header_bytes, header);
		add(&sum->received_header_bytes, header);
	}
}

static __always_inline void end(struct sock *sk, int before)
{
	struct followed_socket *socket = bpf_sk_storage_get(&followed, sk, 0, 0);
	struct end_totals *sum;
	struct tcp_sock *tp;

	if (!socket || socket->settled.is_closed)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	sum = sum_of(&socket->key);
	if (!sum)
		return;
	socket->settled.is_closed = 1;
	settle(socket, tp, sum);
	add(&sum->closed, 1);
	if (before == TCP_FIN_WAIT2 || before == TCP_CLOSING)
		wait_for_peer(sk, tp, socket, sum);
}

SEC("tp_btf/inet_sock_set_state")
int change_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	int before = (int)ctx[1], state = (int)ctx[2];

	/* A listener's socket may have data before the handshake is complete (Fast Open), and end without it. */
	if (state == TCP_ESTABLISHED || before == TCP_SYN_RECV)
		begin(sk, before);
	if (state == TCP_CLOSE)
		end(sk, before);
	else if (state == TCP_LISTEN)
		note_listener(sk);
	return 0;
}

static __always_inline struct waiting_socket *waiting_on(struct sock *sk)
{
	struct connection_key ends = {};

	read_ends(&ends, sk);
	return bpf_map_lookup_elem(&waiting, &ends);
}

/* A RST that the socket does not count: one that answers a segment is not sent through it, and close() with unread data sends one after
 * the socket is closed. The former has no options. */
SEC("tp_btf/tcp_send_reset")
int send_reset(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	bool is_answer = ctx[1];
	struct followed_socket *socket;
	struct waiting_socket *wait;
	struct end_totals *sum;
	struct totals_key *key;
	__u32 header = TCP_HEADER;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	if (sk->__sk_common.skc_state == TCP_TIME_WAIT) {
		wait = waiting_on(sk);
		if (!wait)
			return 0;
		wait->is_refused = 1;
		key = &wait->key;
	} else {
		socket = bpf_sk_storage_get(&followed, sk, 0, 0);
		tp = bpf_skc_to_tcp_sock(sk);
		if (!socket || !tp || !(is_answer || socket->settled.is_closed))
			return 0;
		header = is_answer ? TCP_HEADER : tp->tcp_header_len;
		key = &socket->key;
	}
	sum = sum_of(key);
	if (!sum)
		return 0;
	add(&sum->sent_segments, 1);
	add(&sum->sent_header_bytes, header_of(key, header));
	return 0;
}

/* A RST arrives, which ends the connection: it may have no timestamps. */
SEC("tp_btf/tcp_receive_reset")
int receive_reset(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct followed_socket *socket = bpf_sk_storage_get(&followed, sk, 0, 0);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (socket && tp && BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok) && !BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp))
		socket->settled.missing_options = TIMESTAMPS_OPTION;
	return 0;
}

/* A TCP header's start. */
struct tcp_start {
	__be16 source;
	__be16 destination;
	__u32 sequence;
	__u32 acknowledged;
	__u8 words;
	__u8 flags;
};

static __always_inline __u32 header_bytes(struct tcp_start *tcp)
{
	return (tcp->words >> 4) * 4;
}

#define IS_REASON(reason, name) \
	(bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_##name) && \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_##name))

/* Whether TCP drops a segment whose header it has counted, and whose payload it has not. */
static __always_inline bool is_refused(__u32 reason)
{
	return IS_REASON(reason, TCP_OLD_DATA) || IS_REASON(reason, TCP_OFOMERGE) || IS_REASON(reason, TCP_OLD_SEQUENCE) ||
	       IS_REASON(reason, TCP_INVALID_SEQUENCE) || IS_REASON(reason, TCP_INVALID_END_SEQUENCE) ||
	       IS_REASON(reason, TCP_RFC7323_PAWS) || IS_REASON(reason, TCP_OVERWINDOW) || IS_REASON(reason, TCP_ZEROWINDOW) ||
	       IS_REASON(reason, TCP_OFO_QUEUE_PRUNE) || IS_REASON(reason, TCP_OFO_DROP) || IS_REASON(reason, TCP_ABORT_ON_DATA) ||
	       IS_REASON(reason, TCP_CLOSE) || IS_REASON(reason, TCP_TOO_OLD_ACK) || IS_REASON(reason, TCP_ACK_UNSENT_DATA) ||
	       IS_REASON(reason, TCP_INVALID_ACK_SEQUENCE) || IS_REASON(reason, SOCKET_BACKLOG) || IS_REASON(reason, PROTO_MEM);
}

/* Adds what a segment that TCP drops has, and its socket does not count. */
static __always_inline void drop_received(struct sock *sk, struct sk_buff *skb, struct tcp_start *tcp, __u32 reason)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)skb->cb;
	__u32 payload = cb->end_seq - cb->seq - !!(tcp->flags & TCPHDR_SYN) - (tcp->flags & TCPHDR_FIN);
	struct followed_socket *socket;
	struct waiting_socket *wait;
	struct end_totals *sum;

	if (sk->__sk_common.skc_state == TCP_TIME_WAIT) {
		wait = waiting_on(sk);
		sum = wait ? sum_of(&wait->key) : 0;
		if (!sum)
			return;
		add(&sum->received_segments, 1);
		add(&sum->received_bytes, payload);
		add(&sum->refused_bytes, payload);
		add(&sum->received_header_bytes, header_of(&wait->key, header_bytes(tcp)));
		if (tcp->flags & TCPHDR_FIN && !wait->is_refused) {
			add(&sum->sent_segments, 1);
			add(&sum->sent_header_bytes, header_of(&wait->key, wait->tcp_header));
		}
		wait->is_refused = 0;
		return;
	}
	socket = bpf_sk_storage_get(&followed, sk, 0, 0);
	if (!socket || !is_refused(reason))
		return;
	sum = sum_of(&socket->key);
	if (!sum)
		return;
	add(&sum->received_bytes, payload);
	add(&sum->refused_bytes, payload);
}

/* Counts what this host's firewall drops as the wire has it: what arrived, and not what was to be sent. */
static __always_inline void drop_by_firewall(struct sk_buff *skb, struct tcp_start *tcp)
{
	__u32 headers = skb->transport_header + header_bytes(tcp) - (__u32)(skb->data - skb->head);
	__u32 payload = skb->len > headers ? skb->len - headers : 0;
	struct skb_shared_info *shared = (struct skb_shared_info *)(skb->head + skb->end);
	__u32 segments = BPF_CORE_READ(shared, gso_segs) ?: 1;
	struct net_device *device = skb->dev;
	struct followed_socket *socket;
	struct sock *sk = skb->sk;
	struct end_totals *sum;

	if (!sk)
		return;
	socket = bpf_sk_storage_get(&followed, sk, 0, 0);
	/* Elsewhere than in the socket's network namespace, the segment has passed its wire. */
	if (!socket || (device && device->nd_net.net != sk->__sk_common.skc_net.net))
		return;
	if (tcp->source != sk->__sk_common.skc_dport) {
		__sync_fetch_and_add(&socket->unsent.segments, segments);
		__sync_fetch_and_add(&socket->unsent.bytes, payload);
		return;
	}
	sum = sum_of(&socket->key);
	if (!sum)
		return;
	add(&sum->received_segments, segments);
	add(&sum->received_bytes, payload);
	add(&sum->received_header_bytes, (__u64)segments * header_of(&socket->key, header_bytes(tcp)));
}

/* Runs for each segment that the kernel drops. Only kernels from 6.11 on show whose it was. */
SEC("tp_btf/kfree_skb")
int drop_segment(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	struct sock *receiver = (struct sock *)ctx[3];
	__u32 reason = (__u32)ctx[2];
	struct tcp_start tcp = {};
	bool is_firewall = IS_REASON(reason, NETFILTER_DROP);

	if (!(is_firewall ? skb->sk : receiver) || bpf_probe_read_kernel(&tcp, sizeof(tcp), skb->head + skb->transport_header))
		return 0;
	if (is_firewall)
		drop_by_firewall(skb, &tcp);
	else
		drop_received(receiver, skb, &tcp, reason);
	return 0;
}

/* Whether a listener has accepted an open connection: one that still has its port, or else one of the settings' ports. */
static __always_inline bool is_accepted(struct sock *sk, __u32 netns)
{
	__u16 local = sk->__sk_common.skc_num, remote = __builtin_bswap16(sk->__sk_common.skc_dport);
	struct totals_settings *set = read_settings();

	return listener_on(netns, local) || (set && has_port(set, local) && !has_port(set, remote));
}

/* Follows the connections of the reader's network namespace that are open already, from now on. It meets listeners first. */
SEC("iter/tcp")
int adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct followed_socket *socket;
	struct end_totals *sum;
	struct tcp_sock *tp;
	struct sock *sk;
	__u32 netns;
	__u8 state;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	state = sk->__sk_common.skc_state;
	netns = sk->__sk_common.skc_net.net->ns.inum;
	if (state == TCP_LISTEN) {
		mark_open(netns, sk->__sk_common.skc_num, BPF_NOEXIST);
		mark_open(0, sk->__sk_common.skc_num, BPF_NOEXIST);
	}
	if (state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_SYN_SENT)
		return 0;
	socket = follow(sk, is_accepted(sk, netns), true);
	if (!socket)
		return 0;
	socket->settled.sent_bytes = tp->bytes_sent;
	socket->settled.received_bytes = received_payload(tp);
	socket->settled.retransmitted_bytes = tp->bytes_retrans;
	socket->settled.sent_segments = tp->segs_out;
	socket->settled.received_segments = tp->segs_in;
	socket->settled.retransmitted_segments = tp->total_retrans;
	sum = sum_of(&socket->key);
	if (sum)
		add(&sum->opened, 1);
	return 0;
}

/* Adds up the open connections of all network namespaces, for the sums. */
SEC("iter/bpf_sk_storage_map")
int settle_open(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct totals_settings *set = read_settings();
	struct followed_socket *socket = ctx->value;
	struct sock *sk = ctx->sk;
	struct end_totals *sum;
	struct totals_key key;
	struct tcp_sock *tp;

	if (!sk || !socket || !set || socket->settled.is_closed)
		return 0;
	key = socket->key;
	if (is_ignored(set, &key)) {
		bpf_sk_storage_delete(&followed, sk);
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !has_moved(socket, tp))
		return 0;
	sum = sum_of(&key);
	if (sum)
		settle(socket, tp, sum);
	return 0;
}
