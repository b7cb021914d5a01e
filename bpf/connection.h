/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Identifies a TCP connection.
 */
#ifndef OVERHEAD_CONNECTION_H
#define OVERHEAD_CONNECTION_H

/* A connection, seen from the socket at one end. IPv4 addresses are mapped to IPv6. */
struct connection_key {
	__u32 netns;
	__u16 local_port;
	__u16 remote_port;
	__u32 local[4];
	__u32 remote[4];
};

static __always_inline void copy_address(__u32 *to, struct in6_addr *from)
{
	for (int i = 0; i < 4; i++)
		to[i] = from->in6_u.u6_addr32[i];
}

static __always_inline void map_address(__u32 *to, __be32 from)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = __builtin_bswap32(0xffff);
	to[3] = from;
}

static __always_inline void read_ends(struct connection_key *key, struct sock *sk)
{
	key->netns = sk->__sk_common.skc_net.net->ns.inum;
	key->local_port = sk->__sk_common.skc_num;
	key->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	if (sk->__sk_common.skc_family == AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		copy_address(key->local, &sk->__sk_common.skc_v6_rcv_saddr);
		copy_address(key->remote, &sk->__sk_common.skc_v6_daddr);
	} else {
		map_address(key->local, sk->__sk_common.skc_rcv_saddr);
		map_address(key->remote, sk->__sk_common.skc_daddr);
	}
}

#endif
