//! The limits of packets, connections, TLS, ledger and explanation, with the reason for each; those of decoders are in
//! [`overhead_decode::limits`] and [`overhead_protocols::limits`]. Nothing is allocated from a length on the wire before it
//! was held against one of them.

pub(crate) use overhead_decode::limits::MESSAGE_BUFFER;
pub(crate) use overhead_protocols::limits::SNIFF;

/// Requests that wait on a connection of which only the client's direction was seen. None of them will be answered, so that
/// beyond this they are closed as they stand: a capture of one direction takes no more memory the longer it is.
pub const OUTSTANDING_ONE_WAY: usize = 1 << 10;

/// Bytes that all connections of a run may hold together, as they are estimated: 100,000 connections
/// between requests, or a million requests that wait. Beyond it, closed connections are no longer kept for stragglers,
/// then the largest are given up: they end as they would at the end of the capture.
pub const HELD: usize = 400 << 20;

/// What a connection takes as long as it holds nothing: its state, its decoder's, and its place in the tables.
pub const CONNECTION: usize = 4 << 10;

/// Payload of a connection after which it is found out anew how much it holds. What so little can leave behind is little
/// beside [`CONNECTION`].
pub const UNWEIGHED: u32 = 512;

/// Connections without a byte of payload that are kept, 2 kB each: more than the backlog of any server (Linux: 4,096 by
/// default) and than pools keep idle. In a SYN flood or a port scan, half-open ones are given up first, the oldest first.
pub const BARE: usize = 1 << 15;

/// Connections of no selected port that are remembered, so that a successor is told from its predecessor. Forgetting one
/// changes no figure.
pub const UNSELECTED: usize = 1 << 16;

/// Payload frames of one direction, and none of any kind of the other, that show that the capture has one direction only.
/// A sender stops after ten without an acknowledgment (RFC 6928), but a capture may end behind its first ones.
pub const ONE_WAY_FRAMES: u64 = 4;

/// Kinds and ports of traffic of other protocols that are counted apart: those with the lowest ports, so that which they
/// are does not depend on the order. Further ones share a count.
pub const FOREIGN: usize = 64;

/// Headers passed on the way to TCP, tags and labels counted one by one. A tunnel within a tunnel takes a dozen; IPv6
/// extension headers, at 8 bytes each, could fill a frame.
pub const HEADERS: u32 = 64;

/// Statements that a run tells apart before the smaller half of them is shed.
pub const STATEMENTS: usize = 4_096;

/// Fragments of one IP packet: 64 KiB at the least MTU of IPv4 hosts (RFC 791: 576 bytes) are 119.
pub const FRAGMENTS: usize = 256;

/// IP packets begun after one whose fragments are still missing, before it is given up.
pub const FRAGMENT_SETS: usize = 1 << 10;

/// Bytes held of incomplete IP packets: as many as Linux holds (`ipfrag_high_thresh`).
pub const FRAGMENT_BYTES: usize = 4 << 20;

/// How long an IP packet waits for its fragments. Linux waits as long; IPv4 identifications wrap soon after.
pub const FRAGMENT_NS: u64 = 30_000_000_000;

/// Frames remembered to recognise their second copies on `any`. Copies follow each other within one pass through the
/// host's network stack, at most a batch of 64 packets per processor later.
pub const COPIES: usize = 256;

/// How far apart the copies of a frame can be. Below the shortest retransmission timeout of Linux (200 ms).
pub const COPY_NS: u64 = 100_000_000;

/// Bytes of payload that tell copies from other frames, next to all that headers say.
pub const COPY_PAYLOAD: usize = 64;

/// Bytes of an IP packet that Ethernet carries without jumbo frames (RFC 894).
pub const ETHERNET_MTU: u32 = 1500;

/// Out-of-order bytes held per direction while a hole may still be filled: a large TCP window.
pub const OUT_OF_ORDER_BYTES: u64 = 4 << 20;

/// Out-of-order pieces held per direction.
pub const OUT_OF_ORDER_PIECES: usize = 8 << 10;

/// Furthest that a segment may lie ahead of the next expected byte, or behind it: the largest TCP window (RFC 7323 section 2.3).
pub const WINDOW: u64 = 1 << 30;

/// Holes remembered after they were given up, so that a late filler is not taken for a retransmission.
pub const GIVEN_UP_HOLES: usize = 64;

/// Parts of these holes that are remembered, when what comes late fills their middles: as many as pieces are held out of order.
pub const PARTS_OF_HOLES: usize = OUT_OF_ORDER_PIECES;

/// Ranges of payload whose operation is remembered per direction after they were acknowledged, for late
/// retransmissions. One in flight per acknowledgment is the rule; a few more cost nothing.
pub const OWNERS_AFTER_ACK: usize = 8;

/// Ranges remembered where the capture shows no acknowledgments (one direction only).
pub const OWNERS: usize = 4 << 10;

/// Charges per direction that wait for the operation of a byte that is not decoded yet: the acknowledgments of a message
/// of 100 MB and more. Further ones go to the latest operation.
pub const DEFERRED: usize = 1 << 16;

/// Segments delivered last, per direction, whose digests are kept to tell a retransmission with other bytes.
pub const RECENT: usize = 8;

/// Frames with payload, without a verdict on the protocol, after which a connection is left to `other`.
pub const SNIFF_FRAMES: u64 = 64;

/// How long a closed connection is kept for stragglers: the maximum segment lifetime that TCPs use in practice
/// (RFC 9293 section 3.4.2 says two minutes; Linux waits one).
pub const LINGER_NS: u64 = 60_000_000_000;

/// Length of the name that the software at one end gives itself, in bytes; longer ones are cut.
pub const SOFTWARE: usize = 256;

/// Bytes of one explained operation that are kept: a few of the largest messages that are decoded. What is longer is
/// explained by lengths alone.
pub const EXPLAINED_BYTES: u64 = 4 * MESSAGE_BUFFER;

/// Fields of one explained operation that are listed, more than anyone reads. Further ones are in its sums.
pub const EXPLAINED_FIELDS: usize = 1 << 20;

/// Frames of one explained operation whose headers are listed: a `CONNECT` can have every frame of a capture that
/// belongs to nothing else. Further ones are in its sums.
pub const EXPLAINED_FRAMES: usize = 1 << 16;

/// Fields that are summed by name: no protocol has a hundredth of them. Further ones share a sum.
pub const SUMMED_FIELDS: usize = 1 << 16;

/// Statements whose fields are summed, each for itself: as many as a report tells apart. Further ones share the sums of their
/// row.
pub const SUMMED_STATEMENTS: usize = 1 << 12;

/// Rows whose fields are summed, on top of that: as many as a report has. Further ones have no fields.
pub const SUMMED_ROWS: usize = SUMMED_STATEMENTS + (1 << 12);

/// Names of operations remembered to tell a user who asked for one that is not there.
pub const NAMES_LISTED: usize = 1 << 10;

/// Secrets of TLS sessions remembered from key logs, about 100 bytes each: five for each of 200,000 connections.
pub const SECRETS: usize = 1 << 20;

/// Bytes of a TLS hello that are read: four times what one with a post-quantum key share takes.
pub const HELLO: usize = 8 << 10;

/// TLS records that may be missing in a gap: so many numbers are tried for the record behind it. As many full records as
/// a megabyte holds; each try costs as much as decrypting the record, and a direction has none left when all fail.
pub const RECORDS_LOST: u64 = 64;

/// Bytes of a TLS library's calls, of one connection, that wait for the packets that carry them: a value of 16 MB in one call, and
/// as much as an interface may be behind.
pub const CLEAR_BYTES: usize = 64 << 20;

/// TLS records of one direction that wait for the call that tells what is in them: one call of 256 MB. Live, calls come some
/// milliseconds after their packets.
pub const SEALED_RECORDS: usize = 16 << 10;

/// Connections whose calls wait for their first packet.
pub const EARLY_CONNECTIONS: usize = 4 << 10;

/// How long they wait, where there are many: packets come within a fraction of a second.
pub const EARLY_NS: u64 = 2_000_000_000;
