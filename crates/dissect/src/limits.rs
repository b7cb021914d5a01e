//! Limits on packets, connections, TLS, the ledger and explanations, each with its reason. Decoders have theirs in
//! [`overhead_decode::limits`] and [`overhead_protocols::limits`]. No allocation uses a wire length before checking it against a limit.

pub(crate) use overhead_decode::limits::MESSAGE_BUFFER;
pub(crate) use overhead_protocols::limits::SNIFF;

/// Outstanding requests on a connection captured only from the client. They will never be answered, so any beyond this limit close
/// unanswered: memory stays constant however long the capture is.
pub const OUTSTANDING_ONE_WAY: usize = 1 << 10;

/// Estimated bytes that all connections of a run may hold: 100,000 idle connections or a million outstanding requests. One segment can add
/// 140 MiB to them, if it completes many held back. Beyond it,
/// closed connections are dropped first, then the largest are given up; these end as they would at the end of the capture.
pub const HELD: usize = 400 << 20;

/// Bytes of an empty connection: its state, its decoder's, and its table entries.
pub const CONNECTION: usize = 4 << 10;

/// Payload bytes after which a connection's memory is estimated again. Less payload than this leaves little behind compared with
/// [`CONNECTION`].
pub const UNWEIGHED: u32 = 512;

/// Connections kept without payload, 2 kB each: more than any server's backlog (Linux: 4,096 by default) or pool of idle connections.
/// In a SYN flood or port scan, the oldest half-open ones are given up first.
pub const BARE: usize = 1 << 15;

/// Connections on unselected ports remembered to distinguish successors from predecessors. Forgetting one changes no result.
pub const UNSELECTED: usize = 1 << 16;

/// Payload frames in one direction, with none of any kind in the other, that show a one-way capture. A sender stops after ten without
/// an acknowledgment (RFC 6928), but a capture may end soon after its first frames.
pub const ONE_WAY_FRAMES: u64 = 4;

/// Kinds and ports of foreign traffic counted separately. The lowest ports are kept, so the result does not depend on frame order. The
/// rest share a count.
pub const FOREIGN: usize = 64;

/// Headers passed before TCP, counting each tag and label. Nested tunnels take about a dozen; 8-byte IPv6 extension headers could fill
/// a frame.
pub const HEADERS: u32 = 64;

/// Distinct statements in a run before the smaller half is shed.
pub const STATEMENTS: usize = 4_096;

/// Fragments of one IP packet: 64 KiB at the minimum IPv4 host MTU (RFC 791: 576 bytes) takes 119.
pub const FRAGMENTS: usize = 256;

/// IP packets that may start before an older incomplete one is given up.
pub const FRAGMENT_SETS: usize = 1 << 10;

/// Bytes held of incomplete IP packets: Linux's limit (`ipfrag_high_thresh`).
pub const FRAGMENT_BYTES: usize = 4 << 20;

/// How long an IP packet waits for its fragments, as in Linux; IPv4 identifications wrap soon after.
pub const FRAGMENT_NS: u64 = 30_000_000_000;

/// Frames remembered to recognise copies in `any` captures. Copies follow within one pass through the host's network stack, at most a
/// batch of 64 packets per processor later.
pub const COPIES: usize = 256;

/// Most frames compared, within [`COPY_NS`].
pub const COMPARED: usize = 8192;

/// Most frames held to find out whether a tap repeats frames, their bytes, and the time they may take.
pub const TRIAL_FRAMES: usize = 1024;
pub const TRIAL_BYTES: usize = 8 << 20;
pub const TRIAL_NS: u64 = 1_000_000_000;

/// Most taps that are known to repeat frames.
pub const TAPS: usize = 64;

/// Frames after a trial that found nothing before another may start; twice as many after the next.
pub const TRIAL_PAUSE: u64 = 1024;

/// Sides of translated connections that are remembered, and servers that are named.
pub const TRANSLATIONS: usize = 1 << 16;
pub const TRANSLATED_SERVERS: usize = 8;

/// Maximum time between copies of a frame; below Linux's shortest retransmission timeout (200 ms).
pub const COPY_NS: u64 = 100_000_000;

/// Payload bytes compared, in addition to headers, to recognise copies.
pub const COPY_PAYLOAD: usize = 64;

/// Largest IP packet on Ethernet without jumbo frames (RFC 894).
pub const ETHERNET_MTU: u32 = 1500;

/// Segments that wait for bytes which they acknowledge, per connection, their bytes, and the time they wait: clocks of two taps differ
/// by milliseconds, also with only NTP.
pub const PARKED_SEGMENTS: usize = 1024;
pub const PARKED_BYTES: usize = 1 << 20;
pub const PARKED_NS: u64 = 1_000_000_000;

/// Out-of-order bytes held per direction while a hole may still fill: a large TCP window.
pub const OUT_OF_ORDER_BYTES: u64 = 4 << 20;

pub const OUT_OF_ORDER_PIECES: usize = 8 << 10;

/// Maximum distance of a segment from the next expected byte, either way: the largest TCP window (RFC 7323 section 2.3).
pub const WINDOW: u64 = 1 << 30;

/// Abandoned holes remembered, so that late data filling them does not count as retransmitted.
pub const GIVEN_UP_HOLES: usize = 64;

/// Parts of abandoned holes remembered when late data fills their middle: as many as out-of-order pieces.
pub const PARTS_OF_HOLES: usize = OUT_OF_ORDER_PIECES;

/// Acknowledged payload ranges whose operation is remembered per direction for late retransmissions. One in flight per acknowledgment
/// is the rule; a few more cost nothing.
pub const OWNERS_AFTER_ACK: usize = 8;

/// Ranges remembered if the capture shows no acknowledgments (one direction only).
pub const OWNERS: usize = 4 << 10;

/// Charges per direction that wait for the operation of a byte not yet decoded: the acknowledgments of a message of 100 MB or more.
/// Further ones go to the latest operation.
pub const DEFERRED: usize = 1 << 16;

/// Recent segments per direction whose digests are kept to detect retransmissions with different bytes.
pub const RECENT: usize = 8;

/// Pieces of payload without a protocol verdict after which a connection goes to `other`.
pub const SNIFF_FRAMES: usize = 64;

/// Messages of each side that decide what a connection joined midway is.
pub const SNIFF_MESSAGES: u64 = 3;

/// Pieces of payload among which one must start like a message, and impossible messages that end a comparison: a long message has many
/// pieces, and bytes of another protocol cost little.
pub const SNIFF_STARTS: usize = 64;
pub const SNIFF_IMPOSSIBLE: u64 = 8;

/// Bytes, and pieces of payload, of a connection joined midway that wait for this: a message as long as many results may be under way.
pub const SNIFF_BYTES: usize = 256 << 10;
pub const SNIFF_PIECES: usize = 512;

/// Frames with payload at the start of each connection that are compared to find proxies, and requests kept for this in all, 100 bytes
/// each.
pub const RELAY_FRAMES: u64 = 64;
pub const RELAYED: usize = 1 << 14;

/// Most requests with the same payload that are compared with each other.
pub const RELAYED_ALIKE: usize = 64;

/// Different requests that must go on to another server before theirs counts as a proxy: more than connections of one driver start with.
pub const RELAYED_KINDS: usize = 4;

/// How long a closed connection waits for stragglers: the maximum segment lifetime used in practice (RFC 9293 section 3.4.2 says two
/// minutes; Linux waits one).
pub const LINGER_NS: u64 = 60_000_000_000;

/// Maximum length, in bytes, of the software name an end reports; longer names are cut.
pub const SOFTWARE: usize = 256;

/// Bytes kept of one explained operation: a few of the largest decoded messages. Anything longer is explained by lengths only.
pub const EXPLAINED_BYTES: u64 = 4 * MESSAGE_BUFFER;

/// Fields listed for one explained operation, more than anyone reads. The rest appear only in its sums.
pub const EXPLAINED_FIELDS: usize = 1 << 20;

/// Frames of one explained operation whose headers are listed. A `CONNECT` can own every frame that belongs to nothing else. The rest
/// appear only in its sums.
pub const EXPLAINED_FRAMES: usize = 1 << 16;

/// Fields summed by name; no protocol has a hundredth of them. The rest share a sum.
pub const SUMMED_FIELDS: usize = 1 << 16;

/// Statements whose fields are summed individually: as many as a report distinguishes. The rest share the sums of their row.
pub const SUMMED_STATEMENTS: usize = 1 << 12;

/// Statements and rows whose fields are summed: as many as a report has. Further rows have no fields.
pub const SUMMED_ROWS: usize = SUMMED_STATEMENTS + (1 << 12);

/// Operation names remembered, to list when a user asks for one that does not exist.
pub const NAMES_LISTED: usize = 1 << 10;

/// Bytes of notes about operations, for an annotated copy.
pub const NOTES_BYTES: usize = 512 << 20;

/// Different sizes of operations among which the median is found, 40 bytes each.
pub const SIZES: usize = 1 << 14;

/// TLS session secrets remembered from key logs, about 100 bytes each: five for each of 200,000 connections.
pub const SECRETS: usize = 1 << 20;

/// Bytes read of a key log at a time: twice the longest log of [`SECRETS`] secrets. A device or a pipe that exceeds it has no end.
pub const KEY_LOG_BYTES: u64 = 512 << 20;

/// Bytes read of a TLS hello: four times the size of one with a post-quantum key share.
pub const HELLO: usize = 8 << 10;

/// Record numbers tried for the TLS record after a gap: as many full records as a megabyte holds. Each try costs one decryption; a
/// direction that fails them all gets no more tries.
pub const RECORDS_LOST: u64 = 64;

/// Secrets without a client random that wait for their connection, about 100 bytes each: a second of 13,000 handshakes.
pub const UNCLAIMED: usize = 1 << 16;

/// How long they wait, in nanoseconds of the capture: packets are read within a second or so.
pub const UNCLAIMED_NS: u64 = 10_000_000_000;

/// Secrets tried for one record, those nearest in time: handshakes that are under way at once. Each try costs one decryption.
pub const TRIED_SECRETS: usize = 64;

/// Numbers tried for the first record that a capture shows of a connection met open: those nearest to the estimate.
pub const RECORDS_SEARCHED: u64 = 1 << 15;

/// Bytes that one capture decrypts to find numbers of records, about a tenth of a second; a try costs as much as [`TRY_BYTES`] more.
pub const SEARCHED_BYTES: u64 = 128 << 20;
pub const TRY_BYTES: u64 = 256;

/// Connections whose TLS secrets are kept between captures, at most 2 kB each.
pub const KEPT_SESSIONS: usize = 1 << 14;

/// Handshakes under way whose secrets are kept, 300 bytes each.
pub const KEPT_HANDSHAKES: usize = 1 << 14;

/// Captures in a row that do not find the record numbers of a connection before its secrets are erased.
pub const KEPT_MISSES: u32 = 8;

/// Bytes of a TLS handshake in one direction.
pub const HANDSHAKE_BYTES: u32 = 1 << 16;
