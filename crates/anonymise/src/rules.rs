//! Decides how each field is replaced: by its account, or by its name if the account is not enough.

use crate::fill::Filler;
use overhead_model::{Account, Protocol, Side};
use overhead_protocols::statement::spans::is_keyword;
use overhead_protocols::{memcache, resp};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// A field to be replaced, and what precedes it.
#[derive(Clone, Copy, Debug)]
pub struct FieldAt<'a> {
    pub protocol: Protocol,
    pub account: Account,
    pub side: Side,
    pub groups: &'a [&'static str],
    pub field: &'static str,
    /// Name of its operation, if already known.
    pub operation: &'a [u8],
    /// The last name posted in its direction.
    pub name: &'a [u8],
    /// The BSON type of its value, if any.
    pub kind: u8,
    pub is_compressed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Keep,
    /// As text if it reads as text, otherwise as binary.
    Data,
    /// Replaces words only.
    Text,
    /// Replaces all bytes.
    Binary,
    /// A unique identifier.
    Name,
    /// A path: unique, and no word stays.
    Path,
    Statement,
    /// Replaces everything after the first byte of this value; the part before it is public.
    Behind(u8),
    /// Replaces words that are not public.
    Known,
    /// A client as described by a proxy.
    Proxy,
    Address,
    /// TLS handshake messages.
    Handshake,
    /// Lines of `INFO`.
    Info,
    /// A `MySQL` error with its code and state.
    Error,
    /// Undecoded bytes.
    Opaque,
}

use Treatment::{Address, Behind, Binary, Data, Error, Handshake, Info, Keep, Known, Name, Opaque, Path, Proxy};
use Treatment::{Statement, Text};

/// Fields that stay in any account: numbers, lengths, types and flags that control decoding. A field that is in no list and
/// has no rule is replaced.
const KEPT: [(Option<Protocol>, &str); 9] = [
    (None, "record type;record version;record length;content type"),
    (Some(Protocol::Resp), "argument count;argument length;count;type;CRLF;keep-alive;space;line end;option"),
    (
        Some(Protocol::Pgwire),
        "message type;message length;packet length;protocol version;request code;process id;argument count;format count;format code;\
         parameter count;parameter type;function;statement or portal;row limit;response length;column count;table;attribute number;type;\
         type size;type modifier;authentication type;option count;field code;copy format;value length;range count;array flags;\
         element type;dimension size;lower bound;field count;field type;field length;element length;range length;bound length;range flags;punctuation;escape;quote;line end;\
         delimiter;end of data;copy flags;extension length;log position;time;replication message type;encryption;transaction status",
    ),
    (
        Some(Protocol::Cql),
        "segment header;segment checksum;decompressed length;version;flags;stream id;opcode;body length;string length;bytes length;\
         list length;map length;value length;element length;element count;type id;member count;error code;replicas;contentions;\
         data present;failures;address length;failure code;operation type;rejected by coordinator;port;result kind;row count;\
         column count;partition key count;partition key indexes;consistency;tablet version block;page size;serial consistency;\
         timestamp;now in seconds;value count;batch type;statement count;statement kind",
    ),
    (
        Some(Protocol::Mongo),
        "message length;request id;response to;opcode;original opcode;uncompressed size;compressor id;flags;reserved;cursor id;\
         number to return;starting from;number returned;number to skip;cursor count;cursor ids;terminator;separator;section kind;\
         section length;document length;element type;string length;binary length;binary subtype;value length;command collection",
    ),
    (
        Some(Protocol::Mysql),
        "packet header;compressed packet header;null;length;header;command;null bitmap;indicator;protocol version;thread id;\
         capabilities;capabilities of MariaDB;character set;status flags;length of random data;longest packet;compression level;\
         statement id;flags;iteration count;parameter count;parameter set count;new parameters;parameter number;row limit;\
         column count;definitions follow;longest value;type;decimals;parameter type;affected rows;last insert id;warnings",
    ),
    (Some(Protocol::Memcache), "magic;opcode;lengths;body length;vbucket;word;space;noreply;flag"),
    (Some(Protocol::Http), "version;delimiter;query delimiter;line end;chunk size"),
    (Some(Protocol::Ssdb), "size;line end;empty line;end"),
];

/// Fields that stay if they contain no letter, in ASCII or beyond.
const NUMBERS: &str = "length;null;end of stream;streamed string;empty command;terminator;dimensions;position;line;filler;array index;\
                       client flags;CAS;number;CRLF;content length;status code;header";

/// Fields that stay if they hold one of these protocol words, in any letter case.
const WORDS: [(Protocol, &str, &str); 18] = [
    (Protocol::Http, "header name", HEADERS[0]),
    (
        Protocol::Http,
        "header name",
        // Other common ones (RFC 9110 section 18.4).
        "accept;accept-charset;accept-language;age;allow;authorization;content-disposition;content-language;content-range;cookie;etag;\
         expires;host;if-match;if-modified-since;if-none-match;last-modified;location;origin;range;referer;server;set-cookie;trailer;\
         user-agent;vary;www-authenticate",
    ),
    (
        Protocol::Http,
        "reason",
        // RFC 9110 section 15, and RFC 6585.
        "Continue;Switching Protocols;OK;Created;Accepted;No Content;Partial Content;Moved Permanently;Found;See Other;Not Modified;\
         Temporary Redirect;Permanent Redirect;Bad Request;Unauthorized;Forbidden;Not Found;Method Not Allowed;Not Acceptable;\
         Request Timeout;Conflict;Gone;Length Required;Precondition Failed;Content Too Large;Expectation Failed;Too Many Requests;\
         Internal Server Error;Not Implemented;Bad Gateway;Service Unavailable;Gateway Timeout",
    ),
    (
        Protocol::Http,
        "method",
        "GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH;PROPFIND;MKCOL;COPY;MOVE;LOCK;UNLOCK",
    ),
    (
        Protocol::Memcache,
        "subcommand",
        "automove;cachedump;cluster;connevents;conns;crawl;detail;disable;dump;enable;fetchers;free_memchunks;get;graceful;hash;\
         item_age;items;metadump;mgdump;mode;mutations;off;on;reassign;reset;settings;sizes;sizes_disable;sizes_enable;slabs;sleep;\
         temp_ttl;tocrawl;tune",
    ),
    (
        Protocol::Memcache,
        "status",
        "STORED;NOT_STORED;EXISTS;NOT_FOUND;DELETED;TOUCHED;OK;ERROR;CLIENT_ERROR;SERVER_ERROR;RESET;BUSY;BADCLASS;NOSPARE;NOTFULL;\
         UNSAFE;SAME;HD;EN;NF;NS;EX;MN",
    ),
    (Protocol::Memcache, "mechanism", "PLAIN;SCRAM-SHA-1;SCRAM-SHA-256;SCRAM-SHA-512"),
    (
        Protocol::Mysql,
        "name",
        // Attributes of connectors.
        "_client_license;_client_name;_client_role;_client_version;_os;_pid;_platform;_runtime_vendor;_runtime_version;_server_host;\
         _server_host_type;_source_host;_thread;program_name",
    ),
    (
        Protocol::Mysql,
        "authentication plugin;extended type",
        "mysql_native_password;caching_sha2_password;sha256_password;client_ed25519;mysql_clear_password;mysql_old_password;parsec;\
         auth_gssapi_client;dialog;json;inet4;inet6;uuid;point;geometry",
    ),
    (
        Protocol::Pgwire,
        "name",
        "user;database;application_name;fallback_application_name;client_encoding;server_encoding;server_version;DateStyle;\
         IntervalStyle;TimeZone;integer_datetimes;standard_conforming_strings;is_superuser;session_authorization;in_hot_standby;\
         default_transaction_read_only;scram_iterations;extra_float_digits;options;replication;search_path;crdb_version;role",
    ),
    (
        Protocol::Pgwire,
        "value",
        "on;off;true;false;yes;no;UTF8;UNICODE;SQL_ASCII;LATIN1;ISO;ISO, MDY;ISO, DMY;ISO, YMD;postgres;iso_8601;database;0;1;2;3;4096",
    ),
    (Protocol::Pgwire, "mechanism", "SCRAM-SHA-256;SCRAM-SHA-256-PLUS;OAUTHBEARER"),
    (Protocol::Pgwire, "severity", "ERROR;FATAL;PANIC;WARNING;NOTICE;DEBUG;INFO;LOG"),
    (
        Protocol::Cql,
        "option",
        "CQL_VERSION;COMPRESSION;DRIVER_NAME;DRIVER_VERSION;PROTOCOL_VERSIONS;NO_COMPACT;THROW_ON_OVERLOAD;LWT_ADD_METADATA_MARK;\
         SCYLLA_SHARD;SCYLLA_NR_SHARDS;SCYLLA_PARTITIONER;SCYLLA_SHARDING_ALGORITHM;SCYLLA_SHARDING_IGNORE_MSB;SCYLLA_SHARD_AWARE_PORT;\
         SCYLLA_SHARD_AWARE_PORT_SSL;SCYLLA_LWT_ADD_METADATA_MARK;SCYLLA_RATE_LIMIT_ERROR;SCYLLA_USE_METADATA_ID;TABLETS_ROUTING_V1",
    ),
    (
        Protocol::Cql,
        "event type;change;target;write type",
        "TOPOLOGY_CHANGE;STATUS_CHANGE;SCHEMA_CHANGE;CLIENT_ROUTES_CHANGE;CREATED;UPDATED;DROPPED;UP;DOWN;NEW_NODE;REMOVED_NODE;\
         MOVED_NODE;KEYSPACE;TABLE;TYPE;FUNCTION;AGGREGATE;SIMPLE;BATCH;UNLOGGED_BATCH;COUNTER;BATCH_LOG;CAS;VIEW;CDC",
    ),
    (
        Protocol::Resp,
        "value;string type",
        "subscribe;psubscribe;ssubscribe;unsubscribe;punsubscribe;sunsubscribe;message;pmessage;smessage;invalidate;txt:;mkd:",
    ),
    (
        Protocol::Mongo,
        "name;operator;command name;sequence identifier",
        "$changeStream;$collStats;$count;$currentOp;$err;$explain;$geoNear;$graphLookup;$hint;$indexStats;$limit;$listSessions;$lookup;\
         $max;$maxScan;$maxTimeMS;$merge;$min;$orderby;$out;$project;$query;$readPreference;$returnKey;$sample;$showDiskLoc;$skip;\
         $snapshot;$sort;$unionWith;$unwind;$db;$comment;$match;$group;$set;$unset;$inc;$push;$pull;$addToSet;$each;$in;$nin;$eq;$ne;\
         $gt;$gte;$lt;$lte;$and;$or;$nor;$not;$exists;$type;$regex;$options;$expr;$elemMatch;$size;$all;$mod;$text;$search;$where;$sum;\
         $avg;$first;$last;$cond;$setOnInsert;$rename;$mul;$pop;$slice;$clusterTime;_id;aggregate;aggregateCursor;abortTransaction;\
         allDiskUse;allowDiskUse;application;architecture;arrayFilters;as;autocommit;backpressure;batchSize;buildInfo;buildinfo;\
         bulkWrite;bypassDocumentValidation;c;client;clusterTime;code;codeName;coll;collation;collection;collMod;collStats;comment;\
         commitTransaction;compression;cond;connectFromField;connectionId;connectToField;connectionStatus;container;count;create;\
         createIndexes;cursor;cursors;cursorsKilled;dbStats;default;delete;deletes;depthField;distanceField;distinct;document;documents;\
         driver;drop;dropDatabase;dropIndexes;endSessions;env;err;errInfo;errmsg;errorLabels;explain;ferretdb;ferretdbVersion;fields;\
         filter;finalize;find;findAndModify;firstBatch;foreignField;from;getLastError;getLog;getMore;getParameter;hello;helloOk;hint;\
         hostInfo;id;index;indexes;insert;into;isMaster;isWritablePrimary;isdbgrid;ismaster;key;keyPattern;keyValue;killCursors;\
         lastErrorObject;let;limit;level;listCollections;listDatabases;listIndexes;localField;localTime;logicalSessionTimeoutMinutes;\
         lsid;map;mapReduce;max;maxAwaitTimeMS;maxBsonObjectSize;maxMessageSizeBytes;maxTimeMS;maxWireVersion;maxWriteBatchSize;\
         mechanism;min;minWireVersion;mode;msg;multi;n;name;nDeleted;nErrors;nInserted;nMatched;nModified;nRemoved;nUpserted;near;new;\
         nextBatch;ns;nsInfo;ok;on;op;operationTime;ops;opTime;ordered;os;out;partialFilterExpression;payload;ping;pipeline;platform;\
         projection;q;query;readConcern;readOnly;reduce;remove;restrictSearchWithMatch;result;results;retval;returnDocument;\
         saslContinue;saslStart;saslSupportedMechs;serverStatus;signature;singleBatch;skip;sort;speculativeAuthenticate;\
         startTransaction;startWith;to;topologyVersion;txnNumber;type;u;unique;update;updateMods;updatedExisting;updates;upsert;\
         upserted;validator;value;values;version;viewOn;w;whatsmyuri;whenMatched;writeConcern;writeConcernError;writeErrors;processId;\
         counter;hash;keyId;authenticate;getnonce;logout;refreshSessions;getCmdLineOpts;getFreeMonitoringStatus;atlasVersion;features;\
         replSetHeartbeat;replSetUpdatePosition;replSetGetStatus;replSetGetConfig;replSetGetRBID;replSetRequestVotes;replSetInitiate;\
         replSetReconfig;replSetStepDown;_isSelf",
    ),
    (
        Protocol::Ssdb,
        "block",
        "ok;not_found;error;fail;client_error;noauth;auth;info;dump;sync140;set;setx;setnx;expire;ttl;get;getset;del;incr;decr;exists;\
         getbit;setbit;bitcount;countbit;substr;strlen;getrange;append;keys;rkeys;scan;rscan;multi_set;multi_get;multi_del;multi_exists;\
         hset;hget;hdel;hincr;hdecr;hexists;hsize;hlist;hrlist;hkeys;hgetall;hscan;hrscan;hclear;multi_hset;multi_hget;multi_hdel;\
         multi_hexists;zset;zget;zdel;zincr;zdecr;zexists;zsize;zlist;zrlist;zkeys;zscan;zrscan;zrank;zrrank;zrange;zrrange;zclear;\
         zcount;zsum;zavg;zremrangebyrank;zremrangebyscore;multi_zset;multi_zget;multi_zdel;multi_zexists;qsize;qlist;qrlist;qclear;\
         qfront;qback;qget;qset;qrange;qslice;qpush;qpush_front;qpush_back;qpop;qpop_front;qpop_back;qtrim_front;qtrim_back;dbsize;\
         ping;version;compact;flushdb;slaveof",
    ),
];

/// Public words in software names and negotiated options: products, drivers, platforms, encodings.
const PUBLIC: &str = "redis;valkey;keydb;dragonfly;garnet;server;version;standalone;cluster;sentinel;master;replica;slave;py;rb;\
    rs;go;js;node;nodejs;jedis;lettuce;ioredis;hiredis;phpredis;predis;stackexchange;mysql;mariadb;libmysql;libmariadb;pymysql;\
    connector;python;java;ruby;rust;driver;log;debian;ubuntu;ubu;deb;maria;alpine;pgdg;percona;tidb;oceanbase;aurora;rds;yb;\
    cockroachdb;ccl;postgresql;datastax;cassandra;gocql;scylla;scylladb;cql;cpp;lz;snappy;zlib;zstd;none;org;apache;auth;\
    passwordauthenticator;allowallauthenticator;dht;murmur;partitioner;biased;token;round;robin;pymongo;mongo;mongodb;mongosh;\
    ferretdb;atlas;scram;sha;plain;aws;x;u;v;rc;beta;alpha;ga;snapshot;primary;secondary;nearest;preferred;primarypreferred;\
    secondarypreferred;majority;local;available;linearizable;memcached;curl;http;httpclient;client;okhttp;requests;urllib;axios;\
    fetch;wget;nginx;caddy;envoy;elasticsearch;opensearch;qdrant;etcd;consul;gzip;deflate;br;identity;chunked;keep;alive;close;\
    upgrade;websocket;h;c;max;age;no;cache;store;must;revalidate;public;private;text;html;css;application;json;xml;ndjson;www;form;\
    urlencoded;octet;stream;charset;utf;iso;q;bytes;timeout;continue;trailers;nosniff;simplehttp;basehttp;github;com;httpkv;gmt;mon;\
    tue;wed;thu;fri;sat;sun;jan;feb;mar;apr;may;jun;jul;aug;sep;oct;nov;dec;isdbgrid;cpython;unix;linux;php;name;mode";

/// Longest number in a software name: a version or a date.
const DIGITS: usize = 8;

/// Codes at the start of RESP answers.
const CODES: &str = "OK;QUEUED;PONG;ERR;WRONGTYPE;NOAUTH;WRONGPASS;NOPERM;NOSCRIPT;MOVED;ASK;TRYAGAIN;CLUSTERDOWN;CROSSSLOT;LOADING;BUSY;\
    BUSYKEY;BUSYGROUP;NOGROUP;MASTERDOWN;MISCONF;READONLY;EXECABORT;NOREPLICAS;OOM;UNKILLABLE;NOTBUSY;INPROG;NOGOODSLAVE;IOERR;UNBLOCKED;\
    NOMASTERLINK;NOPROTO;DENIED;FULLRESYNC;CONTINUE;NOTREADY;FAIL;INVALIDOBJ;UNSTABLE";

/// HTTP header fields whose values name software or negotiate: sent by both, by clients, by servers.
const HEADERS: [&str; 3] = [
    "accept-encoding;accept-ranges;cache-control;connection;content-encoding;content-length;content-type;date;expect;keep-alive;te;\
     transfer-encoding;upgrade;x-content-type-options;x-elastic-product",
    "user-agent",
    "server",
];

/// Strings in MongoDB's envelope that control it or name software.
const ENVELOPE: &str = "compression;level;mechanism;mode;msg;readPreference;type;version;ferretdb;ferretdbVersion;w";

/// Words that identify other protocols.
const MARKS: [&str; 14] =
    ["GET", "PUT", "POST", "HEAD", "HTTP", "OPTIONS", "DELETE", "SSH", "PRI", "SM", "INFO", "CONNECT", "ERR", "OK"];

/// Words, matched in any letter case.
#[derive(Default)]
struct WordSet {
    words: HashSet<Vec<u8>>,
    longest: usize,
}

impl WordSet {
    fn add(&mut self, words: &str) {
        for word in words.split(';') {
            self.longest = self.longest.max(word.len());
            self.words.insert(word.to_ascii_lowercase().into_bytes());
        }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        bytes.len() <= self.longest && !self.words.is_empty() && self.words.contains(&bytes.to_ascii_lowercase())
    }
}

/// The lists that contain a field.
#[derive(Default)]
struct Listed {
    is_kept: bool,
    is_number: bool,
    words: WordSet,
}

static LISTED: LazyLock<HashMap<(Protocol, &str), Listed>> = LazyLock::new(|| {
    let mut listed = HashMap::<_, Listed>::new();
    for protocol in Protocol::ALL {
        for (_, fields) in KEPT.iter().filter(|(of, _)| of.is_none_or(|of| of == protocol)) {
            fields.split(';').for_each(|field| listed.entry((protocol, field)).or_default().is_kept = true);
        }
        NUMBERS.split(';').for_each(|field| listed.entry((protocol, field)).or_default().is_number = true);
    }
    for (protocol, fields, words) in WORDS {
        fields.split(';').for_each(|field| listed.entry((protocol, field)).or_default().words.add(words));
    }
    listed
});
static PUBLIC_WORDS: LazyLock<WordSet> = LazyLock::new(|| {
    let mut words = WordSet::default();
    words.add(PUBLIC);
    words
});

#[expect(clippy::match_same_arms, reason = "each protocol has its own lines")]
impl FieldAt<'_> {
    /// Returns how to replace the field with these bytes. A field without a rule is replaced.
    pub fn treatment(&self, bytes: &[u8]) -> Treatment {
        let listed = LISTED.get(&(self.protocol, self.field));
        let is_allowed = |listed: &Listed| {
            listed.is_kept
                || listed.is_number && !bytes.iter().any(|byte| is_letter(*byte))
                || !self.is_users() && listed.words.has(bytes)
        };
        if self.account != Account::Unknown && listed.is_some_and(is_allowed) {
            return Keep;
        }
        match self.account {
            // Fields within cannot be separated.
            _ if matches!(self.field, "compressed" | "compressed body") => Binary,
            Account::Tls if self.field == "handshake" => Handshake,
            Account::Tls if matches!(self.field, "alert" | "change cipher spec") && bytes.len() <= 2 => Keep,
            Account::Tls => Binary,
            Account::Unknown if self.field == "ciphertext" => Binary,
            Account::Unknown => Opaque,
            Account::Query => self.query(bytes),
            Account::Data => self.data(bytes),
            Account::Schema => self.schema(bytes),
            Account::Metadata => self.metadata(bytes),
            Account::Status => self.status(bytes),
            _ => self.framing(bytes),
        }
    }

    /// Returns whether it is a protocol word.
    fn has_word(&self, word: &[u8]) -> bool {
        LISTED.get(&(self.protocol, self.field)).is_some_and(|listed| listed.words.has(word))
    }

    /// Returns whether the user fills a field that elsewhere holds protocol words: names of prepared statements share a
    /// field with names of parameters.
    fn is_users(&self) -> bool {
        self.account == Account::Data && self.protocol != Protocol::Resp
            || self.protocol == Protocol::Pgwire && self.account == Account::Metadata && self.is_named()
    }

    fn framing(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "length") => Behind(b':'),
            (Protocol::Resp, "end of snapshot") => Text,
            // The same length as in the statement.
            (Protocol::Pgwire, "null marker" | "default marker") if bytes.len() <= 5 => Keep,
            (Protocol::Pgwire, "copy signature") if b"PGCOPY\n\xff\r\n\0".starts_with(bytes) => Keep,
            // An empty segment.
            (Protocol::Cql, "segment") if bytes.len() <= 12 => Keep,
            (Protocol::Mongo, "checksum") => Binary,
            (Protocol::Mongo, "array index") => Text,
            _ => Data,
        }
    }

    fn query(&self, bytes: &[u8]) -> Treatment {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        match (self.protocol, self.field) {
            (Protocol::Pgwire | Protocol::Mysql | Protocol::Cql, "statement") => Statement,
            (Protocol::Http, "path") => Path,
            (Protocol::Resp, "command") if resp::knows(text) => Keep,
            (Protocol::Resp, "subcommand") if resp::knows(&format!("{}|{text}", self.command())) => Keep,
            (Protocol::Memcache, "command") if memcache::knows(text) => Keep,
            (_, "command" | "subcommand" | "block" | "method" | "collection" | "command name" | "operator") => Name,
            _ => Text,
        }
    }

    /// Returns the last command of its side.
    fn command(&self) -> &str {
        std::str::from_utf8(self.operation).unwrap_or_default()
    }

    fn data(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Resp, "integer") if self.is_confirmed() && !bytes.iter().any(|byte| is_letter(*byte)) => Keep,
            (Protocol::Resp, "value") if self.operation == b"HELLO" => Known,
            (Protocol::Resp, "value") if self.operation == b"INFO" => Info,
            (Protocol::Resp, "option value") if self.name.to_ascii_uppercase().starts_with(b"LIB-") => Known,
            // The version that a client requests.
            (Protocol::Resp, "argument") if self.operation == b"HELLO" && bytes.len() == 1 => Keep,
            (Protocol::Memcache, "mode") if bytes.len() == 1 => Keep,
            // The name of a statistic and its value; both in an answer whose request was not seen.
            (Protocol::Memcache, "version") => Known,
            (Protocol::Memcache, "item") if bytes.starts_with(b"version ") => Known,
            (Protocol::Memcache, "item") if bytes.starts_with(b"key=") => Behind(b'='),
            (Protocol::Memcache, "key") if bytes == b"version" => Keep,
            (Protocol::Memcache, "value" | "item") if self.name == b"version" => Known,
            // Booleans.
            (Protocol::Mongo, _) if self.kind == 0x08 => Keep,
            _ => Data,
        }
    }

    /// Returns whether the number may be a count of remaining subscriptions.
    fn is_confirmed(&self) -> bool {
        let name = self.operation;
        name == b"PUSH" || name == b"EXEC" || name == b"HELLO" || name.ends_with(b"SUBSCRIBE")
    }

    fn schema(&self, bytes: &[u8]) -> Treatment {
        match (self.protocol, self.field) {
            (Protocol::Cql, "type class") if bytes.starts_with(b"org.apache.cassandra.db.marshal.") => Keep,
            (Protocol::Mongo, "value") if self.is_plain() => Keep,
            (Protocol::Mysql, "default") => Text,
            _ => Name,
        }
    }

    fn metadata(&self, bytes: &[u8]) -> Treatment {
        let name = |names: &str| is_one_of(names, self.name);
        match (self.protocol, self.field) {
            (_, "proxy's header") => Proxy,
            // Ids are digests of the prepared text, which could confirm a guess. Equal ids stay equal; in compressed
            // messages, parts may be repetitions of other content.
            (Protocol::Cql, "statement id" | "result metadata id") if self.is_compressed => Keep,
            (Protocol::Cql, "statement id" | "result metadata id" | "paging state" | "token" | "tracing id") => Binary,
            (Protocol::Cql, "authenticator") => Known,
            (Protocol::Cql, "option value") if self.name.starts_with(b"SCYLLA_") || self.is_option() => Known,
            (Protocol::Pgwire, "value") if name("server_version;crdb_version") => Known,
            (Protocol::Pgwire, "value") if !name("user;database;session_authorization") => Text,
            (Protocol::Pgwire, "statement name" | "portal name" | "name" | "channel" | "value" | "option") => Name,
            // Pairs an answer with its request: equal ones stay equal.
            (Protocol::Memcache, "opaque") if bytes.iter().all(u8::is_ascii_graphic) => Name,
            (Protocol::Memcache, "opaque") => Binary,
            (Protocol::Mysql, "user name" | "database name") => Name,
            (Protocol::Mysql, "random data") => Binary,
            // One byte gives the next step.
            (Protocol::Mysql, "authentication data") if bytes.len() == 1 => Keep,
            (Protocol::Mysql, "authentication data") => Binary,
            (Protocol::Mysql, "server version") => Known,
            (Protocol::Mysql, "value") if name("_client_name;_client_version;_server_host_type") => Known,
            (Protocol::Mysql, "value" | "session state") => Text,
            (Protocol::Http, "header name") => Name,
            (Protocol::Http, "header value") if name(HEADERS[0]) || name(HEADERS[1 + self.side as usize]) => Known,
            (Protocol::Http, _) => Text,
            (Protocol::Mongo, "database" | "name" | "sequence identifier") => Name,
            (Protocol::Mongo, "value") => self.envelope(),
            _ => Data,
        }
    }

    /// The preceding option is one of the protocol's.
    fn is_option(&self) -> bool {
        FieldAt { field: "option", ..*self }.has_word(self.name)
    }

    /// Returns whether the field is a user's name for a statement, portal or channel. Names of parameters and options are the
    /// protocol's.
    fn is_named(&self) -> bool {
        matches!(self.field, "statement name" | "portal name" | "channel")
            || self.field == "name"
                && self.groups.last().is_some_and(|group| matches!(*group, "close" | "describe" | "execute" | "bind"))
    }

    /// A MongoDB value that is neither user data nor a result.
    fn envelope(&self) -> Treatment {
        let name = |names: &str| is_one_of(names, self.name);
        let is_driver = self.groups.last().is_some_and(|group| matches!(*group, "driver" | "ferretdb"));
        match self.kind {
            0x02 if name("$db;ns;db;dbName") => Name,
            0x02 if name(ENVELOPE) || is_driver && name("name;version") => Known,
            0x02 | 0x0d | 0x0e | 0x0b => Text,
            _ if self.is_plain() => Keep,
            _ => Binary,
        }
    }

    /// Returns whether a MongoDB value is a number, a time, a boolean or null.
    fn is_plain(&self) -> bool {
        matches!(self.kind, 0x01 | 0x06 | 0x08..=0x0a | 0x10..=0x13 | 0x7f | 0xff)
    }

    fn status(&self, bytes: &[u8]) -> Treatment {
        let first = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
        match (self.protocol, self.field) {
            (Protocol::Resp, "text") if is_one_of(CODES, first) => Behind(b' '),
            (Protocol::Pgwire, "command tag") if bytes.split(|byte| *byte == b' ').all(is_of_tag) => Keep,
            // An SQLSTATE.
            (Protocol::Pgwire, "code") if bytes.len() == 5 => Keep,
            (Protocol::Cql, "address") => Address,
            (Protocol::Mysql, "message" | "report") => Error,
            (Protocol::Mysql, "EOF") if bytes.len() <= 5 => Keep,
            (Protocol::Memcache, "status") if bytes.len() == 2 => Keep,
            (Protocol::Memcache, "status") if self.has_word(first.strip_suffix(b":").unwrap_or(first)) => Behind(b' '),
            (Protocol::Mongo, "name") => Name,
            (Protocol::Mongo, "value") if self.is_plain() => Keep,
            (Protocol::Mongo, "value") if self.kind == 0x02 && self.name == b"codeName" => Known,
            (Protocol::Memcache | Protocol::Mongo, "value") | (Protocol::Mysql, "clone response") => Data,
            _ => Text,
        }
    }
}

/// Returns whether a word is a number or part of a command tag.
fn is_of_tag(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit) || is_keyword(word)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80
}

/// Returns whether the bytes are one of the words, in any letter case.
fn is_one_of(words: &str, bytes: &[u8]) -> bool {
    words.split(';').any(|word| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

/// Replaces a text except for numbers and public words.
pub fn known(filler: &Filler, bytes: &mut [u8]) {
    let class = |byte: u8| (is_letter(byte), byte.is_ascii_digit());
    for word in bytes.chunk_by_mut(|before, byte| class(*before) == class(*byte)) {
        let stays = word.len() <= DIGITS && word.iter().all(u8::is_ascii_digit) || PUBLIC_WORDS.has(word);
        if !stays {
            filler.text(word);
        }
    }
}

/// Replaces the client in a proxy's header, after the part that identifies the header.
pub fn proxy(filler: &Filler, bytes: &mut [u8]) {
    let second = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b' ' | b'\r')).nth(1);
    match (bytes.first(), second) {
        (Some(b'P'), Some((at, _))) => filler.text(bytes.get_mut(at..).unwrap_or_default()),
        // Signature, version, family and length.
        _ => filler.binary(bytes.get_mut(16..).unwrap_or_default()),
    }
}

/// Replaces the text of a `MySQL` error, after a marker, a code of two bytes, and `#` with a state of five.
pub fn error(filler: &Filler, bytes: &mut [u8]) {
    let code = if bytes.first() == Some(&0xff) { 3 } else { 0 };
    let state = if bytes.get(code) == Some(&b'#') { 6 } else { 0 };
    filler.text(bytes.get_mut(code + state..).unwrap_or_default());
}

/// Lines of `INFO` that name the software.
const SOFTWARE: [&[u8]; 4] = [b"redis_version", b"valkey_version", b"server_name", b"redis_mode"];

/// Replaces all other lines of `INFO`.
pub fn info(filler: &Filler, bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        if SOFTWARE.iter().any(|name| line.starts_with(name)) { known(filler, line) } else { filler.text(line) }
    }
}

/// Replaces undecoded bytes. Marks of other protocols stay, and so does the first byte of a stream, which may identify the
/// type of message.
pub fn opaque(filler: &Filler, bytes: &mut [u8], is_start: bool) {
    if crate::fill::is_text(bytes) {
        let first = bytes.first().copied().filter(|_| is_start);
        for word in bytes.chunk_by_mut(|before, byte| before.is_ascii_uppercase() == byte.is_ascii_uppercase()) {
            if !MARKS.iter().any(|mark| mark.as_bytes() == word) {
                filler.text(word);
            }
        }
        if let (Some(first), Some(place)) = (first, bytes.first_mut()) {
            *place = first;
        }
        return;
    }
    // Too few to mean anything.
    let start = bytes.first_chunk::<5>().copied().filter(|_| is_start);
    filler.binary(bytes);
    if let (Some(start), Some(place)) = (start, bytes.first_chunk_mut()) {
        *place = start;
    }
}

/// Replaces everything after the first byte of this value.
pub fn behind(filler: &Filler, end: u8, bytes: &mut [u8]) {
    let first = bytes.iter().position(|byte| *byte == end).unwrap_or(bytes.len());
    filler.text(bytes.get_mut(first..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatment(
        protocol: Protocol,
        account: Account,
        (field, name, side): (&'static str, &str, Side),
        bytes: &str,
    ) -> Treatment {
        let (groups, operation, name) = (&[][..], &b""[..], name.as_bytes());
        let at = FieldAt { protocol, account, side, groups, field, operation, name, kind: 0, is_compressed: false };
        at.treatment(bytes.as_bytes())
    }

    #[test]
    fn words_that_are_not_the_protocol_s_own_are_replaced() {
        use Account::{Metadata, Query, Status};
        use Protocol::{Http, Memcache, Mysql};
        let (request, response) = (Side::Request, Side::Response);
        for (protocol, account, field, kept, replaced) in [
            (Http, Status, ("reason", "", response), "not found", "Canary Found"),
            (Http, Metadata, ("header name", "", request), "Content-Length", "X-Canary"),
            (Memcache, Query, ("subcommand", "", request), "items", "canary"),
            (Mysql, Metadata, ("name", "", request), "_client_name", "canary"),
        ] {
            assert_eq!(treatment(protocol, account, field, kept), Keep, "{kept}");
            assert_ne!(treatment(protocol, account, field, replaced), Keep, "{replaced}");
        }
        for (name, side, stays) in [
            ("Accept", request, false),
            ("Vary", response, false),
            ("Server", request, false),
            ("Server", response, true),
        ] {
            let found = treatment(Http, Metadata, ("header value", name, side), "canary");
            assert_eq!(found == Known, stays, "{name} {side:?}");
        }
        for opaque in ["canary", "\u{1}\u{2}\u{3}\u{4}"] {
            assert_ne!(treatment(Memcache, Metadata, ("opaque", "", request), opaque), Keep);
        }
    }
}
