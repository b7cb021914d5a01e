/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * Types that the programs for connection totals share with user space. The Rust side is generated from their BTF.
 */
#ifndef OVERHEAD_TOTALS_H
#define OVERHEAD_TOTALS_H

enum totals_limits {
	/* Keys with a sum of their own between two readings, in each table. The traffic of all further keys is added up together. */
	TOTALS_SLOTS = 65536,
	/* One bit per port. */
	TOTALS_PORT_BYTES = 8192,
	/* Ports with a listener. The least used make room for others. */
	LISTENER_SLOTS = 16384,
	/* Sockets that started to listen between two readings. */
	NEW_LISTENER_SLOTS = 4096,
	/* A command's name in the kernel. */
	COMMAND_BYTES = 16,
	/* Closed sockets that wait for the last segments of their peers. The least used make room for others. */
	WAITING_SLOTS = 16384,
};

/* Pairs of tables of sums. Servers on other ports than the settings' take no room from those on them. */
enum totals_table {
	KNOWN_PORTS = 0,
	OTHER_PORTS = 1,
	TOTALS_TABLES = 2,
};

/* The sums of keys that found no room. */
enum no_room {
	NO_ROOM_CLIENTS = 0,
	NO_ROOM_SERVERS = 1,
	/* Their servers' ends have sums too. */
	NO_ROOM_LOCAL_CLIENTS = 2,
	/* Servers' ends on other ports than the settings'. */
	NO_ROOM_OTHER_PORTS = 3,
	NO_ROOM_SUMS = 4,
};

struct totals_settings {
	/* Whether each connection has a sum of its own; otherwise, those of one client address to one server port share one. */
	__u32 by_connection;
	/* Whether connections to all listeners of this host are followed too. */
	__u32 every_listener;
	/* Whether [`drop_segment`] runs. */
	__u32 sees_drops;
	__u8 ports[TOTALS_PORT_BYTES];
};

/* A port with a listener. */
struct listener_key {
	/* 0 for a listener in any network namespace. */
	__u32 netns;
	__u32 port;
};

struct listener {
	/* 1 if user space has no use for its connections, until another socket starts to listen there. */
	__u32 is_ignored;
};

/* The process that started to listen. */
struct new_listener {
	__u32 pid;
	__u8 command[COMMAND_BYTES];
};

/* The sockets at one end of some connections. */
struct totals_key {
	/* The control group of the socket's owner. */
	__u64 cgroup;
	/* The client's port is 0 if its connections share a sum. */
	struct connection_key ends;
	/* 1 for the server's end. */
	__u32 is_server;
	/* 1 for connections that were open before the programs ran. */
	__u32 is_adopted;
};

/* Totals of the sockets of a key since the last reading. */
struct end_totals {
	/* Payload, with retransmissions. */
	__u64 sent_bytes;
	/* Payload, also what TCP refuses. */
	__u64 received_bytes;
	/* Part of the sent bytes. */
	__u64 retransmitted_bytes;
	__u64 sent_segments;
	__u64 received_segments;
	/* Part of the sent segments. */
	__u64 retransmitted_segments;
	/* IP and TCP headers of the segments. */
	__u64 sent_header_bytes;
	__u64 received_header_bytes;
	/* Connections that were opened, or met open if the key is adopted, and those that were closed. */
	__u64 opened;
	__u64 closed;
	/* Smoothed round-trip times, microseconds, and how many were added. */
	__u64 round_trip_us;
	__u64 round_trips;
	/* Segments of Multipath TCP, whose options are in no header. */
	__u64 multipath_segments;
	/* Part of the received bytes: what had arrived before, or was for nobody. */
	__u64 refused_bytes;
};

/* A socket's counters when they were last added to its sum. The kernel's segment counts wrap. */
struct settled_counters {
	__u64 sent_bytes;
	__u64 received_bytes;
	__u64 retransmitted_bytes;
	__u32 sent_segments;
	__u32 received_segments;
	__u32 retransmitted_segments;
	/* 1 once the socket is closed. */
	__u32 is_closed;
	/* Bytes of options that the RST that ended the connection lacks. */
	__u32 missing_options;
	__u32 padding;
};

/* Segments that a socket counts as sent, but that this host's firewall has dropped. */
struct unsent_segments {
	__u64 bytes;
	__u32 segments;
	__u32 padding;
};

struct followed_socket {
	struct totals_key key;
	struct settled_counters settled;
	struct unsent_segments unsent;
};

/* A closed socket that waits for the last segments of its peer. */
struct waiting_socket {
	struct totals_key key;
	__u32 tcp_header;
	/* 1 if the last of them was answered by a RST. */
	__u32 is_refused;
};

/* Totals since the programs were loaded. */
struct totals_losses {
	/* Connections that found no memory, so that their traffic is in no sum. */
	__u64 lost;
	/* Sockets that started to listen and were not noted. */
	__u64 lost_listeners;
};

#endif
