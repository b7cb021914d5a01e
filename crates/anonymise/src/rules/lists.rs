//! The fields and words that stay as they are.

use overhead_model::Protocol;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

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

/// Entries of the form `Protocol "field;field": "word;word",`.
macro_rules! words {
    ($($protocol:ident $fields:literal: $words:expr,)*) => { &[$((Protocol::$protocol, $fields, $words)),*] };
}

/// Fields that stay if they hold a listed protocol word, in any letter case.
const WORDS: &[(Protocol, &str, &str)] = words! {
    Http "header name": HEADERS[0],
    // Other common ones (RFC 9110 section 18.4).
    Http "header name":
        "accept;accept-charset;accept-language;age;allow;authorization;content-disposition;content-language;content-range;cookie;etag;\
         expires;host;if-match;if-modified-since;if-none-match;last-modified;location;origin;range;referer;server;set-cookie;trailer;\
         user-agent;vary;www-authenticate",
    // RFC 9110 section 15, and RFC 6585.
    Http "reason":
        "Continue;Switching Protocols;OK;Created;Accepted;No Content;Partial Content;Moved Permanently;Found;See Other;Not Modified;\
         Temporary Redirect;Permanent Redirect;Bad Request;Unauthorized;Forbidden;Not Found;Method Not Allowed;Not Acceptable;\
         Request Timeout;Conflict;Gone;Length Required;Precondition Failed;Content Too Large;Expectation Failed;Too Many Requests;\
         Internal Server Error;Not Implemented;Bad Gateway;Service Unavailable;Gateway Timeout",
    Http "method": "GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH;PROPFIND;MKCOL;COPY;MOVE;LOCK;UNLOCK",
    Memcache "subcommand":
        "automove;cachedump;cluster;connevents;conns;crawl;detail;disable;dump;enable;fetchers;free_memchunks;get;graceful;hash;\
         item_age;items;metadump;mgdump;mode;mutations;off;on;reassign;reset;settings;sizes;sizes_disable;sizes_enable;slabs;sleep;\
         temp_ttl;tocrawl;tune",
    Memcache "status":
        "STORED;NOT_STORED;EXISTS;NOT_FOUND;DELETED;TOUCHED;OK;ERROR;CLIENT_ERROR;SERVER_ERROR;RESET;BUSY;BADCLASS;NOSPARE;NOTFULL;\
         UNSAFE;SAME;HD;EN;NF;NS;EX;MN",
    Memcache "mechanism": "PLAIN;SCRAM-SHA-1;SCRAM-SHA-256;SCRAM-SHA-512",
    // Attributes of connectors.
    Mysql "name":
        "_client_license;_client_name;_client_role;_client_version;_os;_pid;_platform;_runtime_vendor;_runtime_version;_server_host;\
         _server_host_type;_source_host;_thread;program_name",
    Mysql "authentication plugin;extended type":
        "mysql_native_password;caching_sha2_password;sha256_password;client_ed25519;mysql_clear_password;mysql_old_password;parsec;\
         auth_gssapi_client;dialog;json;inet4;inet6;uuid;point;geometry",
    Pgwire "name":
        "user;database;application_name;fallback_application_name;client_encoding;server_encoding;server_version;DateStyle;\
         IntervalStyle;TimeZone;integer_datetimes;standard_conforming_strings;is_superuser;session_authorization;in_hot_standby;\
         default_transaction_read_only;scram_iterations;extra_float_digits;options;replication;search_path;crdb_version;role",
    Pgwire "value":
        "on;off;true;false;yes;no;UTF8;UNICODE;SQL_ASCII;LATIN1;ISO;ISO, MDY;ISO, DMY;ISO, YMD;postgres;iso_8601;database;0;1;2;3;4096",
    Pgwire "mechanism": "SCRAM-SHA-256;SCRAM-SHA-256-PLUS;OAUTHBEARER",
    Pgwire "severity": "ERROR;FATAL;PANIC;WARNING;NOTICE;DEBUG;INFO;LOG",
    Cql "option":
        "CQL_VERSION;COMPRESSION;DRIVER_NAME;DRIVER_VERSION;PROTOCOL_VERSIONS;NO_COMPACT;THROW_ON_OVERLOAD;LWT_ADD_METADATA_MARK;\
         SCYLLA_SHARD;SCYLLA_NR_SHARDS;SCYLLA_PARTITIONER;SCYLLA_SHARDING_ALGORITHM;SCYLLA_SHARDING_IGNORE_MSB;SCYLLA_SHARD_AWARE_PORT;\
         SCYLLA_SHARD_AWARE_PORT_SSL;SCYLLA_LWT_ADD_METADATA_MARK;SCYLLA_RATE_LIMIT_ERROR;SCYLLA_USE_METADATA_ID;TABLETS_ROUTING_V1",
    Cql "event type;change;target;write type":
        "TOPOLOGY_CHANGE;STATUS_CHANGE;SCHEMA_CHANGE;CLIENT_ROUTES_CHANGE;CREATED;UPDATED;DROPPED;UP;DOWN;NEW_NODE;REMOVED_NODE;\
         MOVED_NODE;KEYSPACE;TABLE;TYPE;FUNCTION;AGGREGATE;SIMPLE;BATCH;UNLOGGED_BATCH;COUNTER;BATCH_LOG;CAS;VIEW;CDC",
    Resp "value;string type":
        "subscribe;psubscribe;ssubscribe;unsubscribe;punsubscribe;sunsubscribe;message;pmessage;smessage;invalidate;txt:;mkd:",
    Mongo "name;operator;command name;sequence identifier":
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
    Ssdb "block":
        "ok;not_found;error;fail;client_error;noauth;auth;info;dump;sync140;set;setx;setnx;expire;ttl;get;getset;del;incr;decr;exists;\
         getbit;setbit;bitcount;countbit;substr;strlen;getrange;append;keys;rkeys;scan;rscan;multi_set;multi_get;multi_del;multi_exists;\
         hset;hget;hdel;hincr;hdecr;hexists;hsize;hlist;hrlist;hkeys;hgetall;hscan;hrscan;hclear;multi_hset;multi_hget;multi_hdel;\
         multi_hexists;zset;zget;zdel;zincr;zdecr;zexists;zsize;zlist;zrlist;zkeys;zscan;zrscan;zrank;zrrank;zrange;zrrange;zclear;\
         zcount;zsum;zavg;zremrangebyrank;zremrangebyscore;multi_zset;multi_zget;multi_zdel;multi_zexists;qsize;qlist;qrlist;qclear;\
         qfront;qback;qget;qset;qrange;qslice;qpush;qpush_front;qpush_back;qpop;qpop_front;qpop_back;qtrim_front;qtrim_back;dbsize;\
         ping;version;compact;flushdb;slaveof",
};

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
pub(super) const DIGITS: usize = 8;

/// Codes at the start of RESP answers.
pub(super) const CODES: &str = "OK;QUEUED;PONG;ERR;WRONGTYPE;NOAUTH;WRONGPASS;NOPERM;NOSCRIPT;MOVED;ASK;TRYAGAIN;CLUSTERDOWN;CROSSSLOT;LOADING;BUSY;\
    BUSYKEY;BUSYGROUP;NOGROUP;MASTERDOWN;MISCONF;READONLY;EXECABORT;NOREPLICAS;OOM;UNKILLABLE;NOTBUSY;INPROG;NOGOODSLAVE;IOERR;UNBLOCKED;\
    NOMASTERLINK;NOPROTO;DENIED;FULLRESYNC;CONTINUE;NOTREADY;FAIL;INVALIDOBJ;UNSTABLE";

/// HTTP header fields whose values name software or negotiate: sent by both, by clients, by servers.
pub(super) const HEADERS: [&str; 3] = [
    "accept-encoding;accept-ranges;cache-control;connection;content-encoding;content-length;content-type;date;expect;keep-alive;te;\
     transfer-encoding;upgrade;x-content-type-options;x-elastic-product",
    "user-agent",
    "server",
];

/// Strings in MongoDB's envelope that control it or name software.
pub(super) const ENVELOPE: &str =
    "compression;level;mechanism;mode;msg;readPreference;type;version;ferretdb;ferretdbVersion;w";

/// Words that identify other protocols.
pub(super) const MARKS: [&str; 14] =
    ["GET", "PUT", "POST", "HEAD", "HTTP", "OPTIONS", "DELETE", "SSH", "PRI", "SM", "INFO", "CONNECT", "ERR", "OK"];

/// Words, matched in any letter case.
#[derive(Default)]
pub(super) struct WordSet {
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

    pub fn has(&self, bytes: &[u8]) -> bool {
        bytes.len() <= self.longest && !self.words.is_empty() && self.words.contains(&bytes.to_ascii_lowercase())
    }
}

/// The lists that contain a field.
#[derive(Default)]
pub(super) struct Listed {
    pub is_kept: bool,
    pub is_number: bool,
    pub words: WordSet,
}

pub(super) static LISTED: LazyLock<HashMap<(Protocol, &str), Listed>> = LazyLock::new(|| {
    let mut listed = HashMap::<_, Listed>::new();
    for protocol in Protocol::ALL {
        for (_, fields) in KEPT.iter().filter(|(of, _)| of.is_none_or(|of| of == protocol)) {
            fields.split(';').for_each(|field| listed.entry((protocol, field)).or_default().is_kept = true);
        }
        NUMBERS.split(';').for_each(|field| listed.entry((protocol, field)).or_default().is_number = true);
    }
    for &(protocol, fields, words) in WORDS {
        fields.split(';').for_each(|field| listed.entry((protocol, field)).or_default().words.add(words));
    }
    listed
});
pub(super) static PUBLIC_WORDS: LazyLock<WordSet> = LazyLock::new(|| {
    let mut words = WordSet::default();
    words.add(PUBLIC);
    words
});
