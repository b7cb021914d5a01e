/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The few kernel types and constants that the programs use. The loader relocates offsets (CO-RE), so one build runs
 * on every kernel with BTF, without a generated vmlinux.h.
 */
#ifndef OVERHEAD_KERNEL_H
#define OVERHEAD_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef signed short __s16;
typedef unsigned int __u32;
typedef signed int __s32;
typedef unsigned long long __u64;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };

struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* include/linux/interrupt.h */
enum { NET_TX_SOFTIRQ = 2, NET_RX_SOFTIRQ = 3 };
/* include/net/tcp_states.h */
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_SYN_RECV = 3, TCP_FIN_WAIT2 = 5, TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_LISTEN = 10, TCP_CLOSING = 11 };
/* include/net/tcp.h */
enum { TCPHDR_FIN = 1, TCPHDR_SYN = 2 };
/* include/net/sock.h */
enum { SOCK_DONE = 1 };
/* include/linux/net.h, include/uapi/linux/un.h */
enum { SOCK_STREAM = 1, SUN_PATH_AT = 2 };
/* include/uapi/linux/in.h, include/linux/socket.h, include/linux/err.h */
enum { IPPROTO_TCP = 6, AF_UNIX = 1, AF_INET6 = 10, MSG_PEEK = 2, ENOSYS = 38, MAX_ERRNO = 4095 };
/* arch/x86/include/asm/thread_info.h, arch/arm64/include/asm/thread_info.h */
enum { TS_COMPAT = 2, TIF_32BIT = 22 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct thread_info {
	unsigned long flags;
	__u32 cpu;
#if defined(__TARGET_ARCH_x86)
	__u32 status;
#endif
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
};

struct signal_struct {
	atomic_t live;
};

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	__u8 sysctl_tcp_window_scaling;
	__u8 sysctl_tcp_timestamps;
	__u8 sysctl_tcp_sack;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

struct nsproxy {
	struct net *net_ns;
};

struct file {
	void *private_data;
};

struct socket___kernel {
	struct sock *sk;
	struct file *file;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct thread_info thread_info;
	int on_cpu;
	struct sched_entity se;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct files_struct *files;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	unsigned long skc_flags;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
	struct socket___kernel *sk_socket;
	struct pid *sk_peer_pid;
	struct sock_cgroup_data sk_cgrp_data;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct sockaddr_un {
	__u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[];
};

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct path path;
	struct sock *peer;
};

struct inet_sock {
	__be16 inet_sport;
};

struct inet_connection_sock {
	const void *icsk_ulp_ops;
};

struct tcp_options_received {
	__u16 saw_tstamp : 1;
	__u16 tstamp_ok : 1;
	__u16 wscale_ok : 1;
	__u16 sack_ok : 3;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	__u32 write_seq;
	__u32 copied_seq;
	__u32 snd_una;
	__u32 rcv_tstamp;
	__u16 tcp_header_len;
	__u32 segs_in;
	__u32 segs_out;
	__u32 srtt_us;
	__u32 total_retrans;
	__u64 bytes_sent;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u8 syn_data : 1;
	__u8 syn_fastopen : 1;
	__u8 syn_data_acked : 1;
	bool is_mptcp;
};

struct net_device {
	possible_net_t nd_net;
};

struct sk_buff {
	struct sock *sk;
	struct net_device *dev;
	char cb[48];
	unsigned int len;
	__u16 transport_header;
	__u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
};

/* Numbers differ between kernels. */
enum skb_drop_reason {
	SKB_DROP_REASON_NETFILTER_DROP,
	SKB_DROP_REASON_SOCKET_BACKLOG,
	SKB_DROP_REASON_TCP_ABORT_ON_DATA,
	SKB_DROP_REASON_TCP_ACK_UNSENT_DATA,
	SKB_DROP_REASON_TCP_CLOSE,
	SKB_DROP_REASON_TCP_INVALID_ACK_SEQUENCE,
	SKB_DROP_REASON_TCP_INVALID_END_SEQUENCE,
	SKB_DROP_REASON_TCP_INVALID_SEQUENCE,
	SKB_DROP_REASON_TCP_OFO_DROP,
	SKB_DROP_REASON_TCP_OFO_QUEUE_PRUNE,
	SKB_DROP_REASON_TCP_OFOMERGE,
	SKB_DROP_REASON_TCP_OLD_DATA,
	SKB_DROP_REASON_TCP_OLD_SEQUENCE,
	SKB_DROP_REASON_TCP_OVERWINDOW,
	SKB_DROP_REASON_TCP_RFC7323_PAWS,
	SKB_DROP_REASON_TCP_TOO_OLD_ACK,
	SKB_DROP_REASON_TCP_ZEROWINDOW,
	SKB_DROP_REASON_PROTO_MEM,
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};
#define SYSCALL_NUMBER(regs) ((int)(regs)->orig_ax)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->di)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->si)
#define SYSCALL_ARGUMENT_3(regs) ((regs)->dx)
#define IS_COMPAT(task) ((task)->thread_info.status & TS_COMPAT)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
};
#define SYSCALL_NUMBER(regs) ((regs)->syscallno)
#define SYSCALL_ARGUMENT_1(regs) ((regs)->orig_x0)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->regs[1])
#define SYSCALL_ARGUMENT_3(regs) ((regs)->regs[2])
#define IS_COMPAT(task) ((task)->thread_info.flags & (1UL << TIF_32BIT))
#else
#error "the system call number of this architecture is not known"
#endif

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* include/linux/io_uring_types.h, io_uring/net.c, io_uring/rw.c: the latter two overlay the beginning of the first. */
struct io_kiocb {
	struct file *file;
	__u8 opcode;
};

struct io_sr_msg {
	union {
		void *umsg;
		void *buf;
	};
	int len;
	unsigned int done_io;
	__u16 flags;
};

struct io_rw {
	__u64 addr;
	__u32 len;
};

struct bpf_iter__unix {
	struct bpf_iter_meta *meta;
	struct unix_sock *unix_sk;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* include/uapi/linux/uio.h, include/linux/socket.h, as 64-bit programs see them. */
struct iovec {
	void *iov_base;
	__u64 iov_len;
};

struct user_msghdr {
	void *msg_name;
	int msg_namelen;
	struct iovec *msg_iov;
	__u64 msg_iovlen;
	void *msg_control;
	__u64 msg_controllen;
	unsigned int msg_flags;
};

struct mmsghdr {
	struct user_msghdr msg_hdr;
	unsigned int msg_len;
};

/* include/uapi/linux/io_uring.h */
enum {
	IORING_OP_WRITEV = 2,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_SENDMSG = 9,
	IORING_OP_WRITE = 23,
	IORING_OP_SEND = 26,
	IORING_RECVSEND_BUNDLE = 1 << 4,
};

/* System calls that write to a socket. */
#if defined(__TARGET_ARCH_x86)
enum {
	CALL_WRITE = 1,
	CALL_WRITEV = 20,
	CALL_SENDTO = 44,
	CALL_SENDMSG = 46,
	CALL_SENDMMSG = 307,
	CALL_PWRITEV2 = 328,
	CALL_IO_URING_ENTER = 426,
};
#else
enum {
	CALL_WRITE = 64,
	CALL_WRITEV = 66,
	CALL_SENDTO = 206,
	CALL_SENDMSG = 211,
	CALL_SENDMMSG = 269,
	CALL_PWRITEV2 = 287,
	CALL_IO_URING_ENTER = 426,
};
#endif

/* System calls that do not return normally: exits, creation of threads, return from a signal. */
enum {
#if defined(__TARGET_ARCH_x86)
	CALL_RT_SIGRETURN = 15,
	CALL_CLONE = 56,
	CALL_FORK = 57,
	CALL_VFORK = 58,
	CALL_EXIT = 60,
	CALL_EXIT_GROUP = 231,
	COMPAT_CALL_EXIT_GROUP = 252,
#else
	CALL_EXIT = 93,
	CALL_EXIT_GROUP = 94,
	CALL_RT_SIGRETURN = 139,
	CALL_CLONE = 220,
	/* arm64 has only `clone`. */
	CALL_FORK = CALL_CLONE,
	CALL_VFORK = CALL_CLONE,
	COMPAT_CALL_EXIT_GROUP = 248,
#endif
	CALL_CLONE3 = 435,
	/* Numbers of 32-bit programs, the same on both. */
	COMPAT_CALL_EXIT = 1,
	COMPAT_CALL_FORK = 2,
	COMPAT_CALL_CLONE = 120,
	COMPAT_CALL_RT_SIGRETURN = 173,
	COMPAT_CALL_VFORK = 190,
};

#endif
