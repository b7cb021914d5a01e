//! MongoDB and compatible servers, with the `mongodb` crate.
//!
//! `read` and `empty` are `find` by `_id` with a limit of 1, `insert` inserts one document. A connection has one
//! request in flight. With `--multi-key on`, a *pipeline* is one request for several rows: `find` with `$in`, or `insert` of
//! several documents.
//!
//! Each client has a pool of one connection. The driver opens one or two more to monitor the server, which only send a
//! `hello` every 10 s.

use super::{
    BenchObjects, ConnectionLost, DatabaseDriver, DriverCompression, DriverConnection, DriverOptions, wrong_row,
};
use crate::data::{self, EMPTY_TABLE, INSERT_TABLE, InsertIds, MARK, NAMESPACE, ROWS_TABLE, TABLES};
use crate::plan::BenchOp;
use crate::stats::Faults;
use crate::target::{BenchTarget, ServerEndpoint};
use anyhow::{Result, anyhow, bail, ensure};
use futures_util::TryStreamExt;
use mongodb::bson::{Document, RawDocumentBuf, cstr, doc, rawdoc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ClientOptions, Compressor, Credential, ServerAddress, TlsOptions};
use mongodb::{Client, Collection, Database};
use overhead_model::{Protocol, bail_usage};

pub struct MongoDriver {
    target: BenchTarget,
    options: DriverOptions,
    database: String,
}

impl DatabaseDriver for MongoDriver {
    type Connection = MongoConnection;
    type Objects = Database;

    const PROTOCOL: Protocol = Protocol::Mongo;
    const NAME: &'static str = "mongodb";
    const VERSION: &'static str = env!("DRIVER_MONGODB");
    const TITLE: &'static str = "MongoDB";
    const OPTIONS: &'static [&'static str] = &["--compression", "--multi-key"];
    const PIPELINES: bool = false;
    const INSERT_IDS: InsertIds = InsertIds::Fresh;

    fn new(target: BenchTarget, options: DriverOptions) -> Result<Self> {
        if options.compression == Some(DriverCompression::Lz4) {
            bail_usage!("--compression: MongoDB has snappy, zlib and zstd");
        }
        let database = target.database.clone().unwrap_or_else(|| NAMESPACE.to_owned());
        Ok(Self { target, options, database })
    }

    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let client = self.open().await?;
        let admin = client.database("admin");
        let version = version(&admin).await.map_err(in_short)?;
        if let Some(wanted) = self.options.compression.filter(|wanted| *wanted != DriverCompression::None) {
            // The driver silently skips compression that the server does not support.
            let offered = supports_compression(&admin, wanted.name()).await.map_err(in_short)?;
            ensure!(offered, "--compression {}: the server does not offer it", wanted.name());
        }
        client.shutdown().await;
        Ok(vec![version; self.target.servers.len()])
    }

    async fn objects(&self) -> Result<Database> {
        Ok(self.open().await?.database(&self.database))
    }

    async fn connect(&self, _: &[BenchOp]) -> Result<MongoConnection> {
        let client = self.open().await?;
        client.warm_connection_pool().await;
        let database = client.database(&self.database);
        Ok(MongoConnection {
            rows: database.collection(ROWS_TABLE),
            empty: database.collection(EMPTY_TABLE),
            inserted: database.collection(INSERT_TABLE),
            payload: self.options.payload,
            client,
        })
    }
}

impl MongoDriver {
    async fn open(&self) -> Result<Client> {
        let target = &self.target;
        let mut options = if let Some(url) = &target.url {
            ClientOptions::parse(url.as_str()).await?
        } else {
            let address = |server: &ServerEndpoint| -> Result<ServerAddress> {
                let (host, port) = server.tcp()?;
                Ok(ServerAddress::Tcp { host: host.to_owned(), port: Some(port) })
            };
            let direct = target.servers.len() == 1;
            let hosts = target.servers.iter().map(address).collect::<Result<Vec<_>>>()?;
            ClientOptions::builder().hosts(hosts).direct_connection(direct).build()
        };
        options.min_pool_size = Some(1);
        options.max_pool_size = Some(1);
        options.connect_timeout = Some(target.timeout);
        options.server_selection_timeout = Some(target.timeout);
        if let Some(user) = target.user.clone().filter(|_| target.url.is_none()) {
            options.credential = Some(Credential::builder().username(user).password(target.password.clone()).build());
        }
        if let Some(tls) = &target.tls {
            let built = TlsOptions::builder().ca_file_path(tls.ca.clone()).allow_invalid_certificates(tls.insecure);
            options.tls = Some(built.build().into());
        }
        options.compressors = match self.options.compression {
            Some(DriverCompression::Snappy) => Some(vec![Compressor::Snappy]),
            Some(DriverCompression::Zlib) => Some(vec![Compressor::Zlib { level: None }]),
            Some(DriverCompression::Zstd) => Some(vec![Compressor::Zstd { level: None }]),
            _ => options.compressors,
        };
        Ok(Client::with_options(options)?)
    }
}

pub struct MongoConnection {
    client: Client,
    rows: Collection<RawDocumentBuf>,
    empty: Collection<RawDocumentBuf>,
    inserted: Collection<RawDocumentBuf>,
    payload: usize,
}

impl DriverConnection for MongoConnection {
    async fn run(&mut self, operation: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        let result = match (operation, ids) {
            (BenchOp::Insert, [id]) => self.inserted.insert_one(document(*id, self.payload)).await.map(drop),
            (BenchOp::Insert, _) => {
                let documents = ids.iter().map(|&id| document(id, self.payload));
                self.inserted.insert_many(documents).await.map(drop)
            }
            (BenchOp::Empty, _) => find(&self.empty, operation, ids, faults).await,
            _ => find(&self.rows, operation, ids, faults).await,
        };
        result.or_else(|error| fail(&error, ids.len(), faults))
    }

    async fn close(self) {
        self.client.shutdown().await;
    }
}

async fn find(
    collection: &Collection<RawDocumentBuf>,
    operation: BenchOp,
    ids: &[i64],
    faults: &mut Faults,
) -> Result<(), Error> {
    let wanted = operation == BenchOp::Read;
    if let [id] = *ids {
        let row = collection.find_one(doc! { "_id": id }).await?;
        let found = row.as_deref().map(|row| row.get_i64("_id").ok());
        if found != wanted.then_some(Some(id)) {
            faults.add(wrong_row(operation, id));
        }
        return Ok(());
    }
    let mut missing: Vec<i64> = if wanted { ids.to_vec() } else { Vec::new() };
    // Return all rows in one batch, so that no `getMore` follows.
    let rows = collection.find(doc! { "_id": { "$in": ids } }).batch_size(ids.len() as u32 + 1).await?;
    let rows: Vec<RawDocumentBuf> = rows.try_collect().await?;
    for row in rows {
        let id = row.get_i64("_id").unwrap_or(-1);
        if !missing.contains(&id) {
            faults.add(wrong_row(operation, id));
        }
        // A row requested twice is returned once.
        missing.retain(|&wanted| wanted != id);
    }
    for id in missing {
        faults.add(wrong_row(operation, id));
    }
    Ok(())
}

/// Returns a row as a document: `{ _id, vector: [16 numbers], payload }`.
pub fn document(id: i64, payload: usize) -> RawDocumentBuf {
    let mut document = rawdoc! { "_id": id };
    document.append(cstr!("vector"), mongodb::bson::RawArrayBuf::from_iter(data::vector(id)));
    document.append(cstr!("payload"), data::payload(id, payload));
    document
}

/// Counts errors of the server; other errors mean that the connection is lost.
fn fail(error: &Error, count: usize, faults: &mut Faults) -> Result<(), ConnectionLost> {
    match &*error.kind {
        ErrorKind::Command(_) | ErrorKind::Write(_) | ErrorKind::InsertMany(_) => {
            faults.add_all(count, short(&error.to_string()));
            Ok(())
        }
        _ => Err(ConnectionLost::new(short(&error.to_string()))),
    }
}

/// The driver's errors describe the whole cluster; the cause comes last.
fn short(error: &str) -> &str {
    let kind = error.rsplit("Kind: ").next().unwrap_or(error);
    kind.split(", labels: ").next().unwrap_or(kind)
}

fn in_short(error: anyhow::Error) -> anyhow::Error {
    if error.is::<Error>() { anyhow!(short(&error.to_string()).to_owned()) } else { error }
}

/// Marks the other collections of the database as ours.
const MARKER: &str = "overhead_bench";

/// Documents per request.
const CHUNK: u64 = 1_000;

/// Attempts to drop collections: a pending insert can recreate one.
const PASSES: u32 = 5;

impl BenchObjects for Database {
    async fn set_up(&mut self, rows: u64, payload: usize) -> Result<()> {
        set_up(self, rows, payload).await.map_err(in_short)
    }

    async fn remove_inserted(&mut self, _: u64) -> Result<()> {
        let inserted = self.collection::<Document>(INSERT_TABLE).delete_many(doc! {}).await;
        inserted.map(drop).map_err(|error| in_short(error.into()))
    }

    async fn clean_up(&mut self) -> Result<bool> {
        clean_up(self).await.map_err(in_short)
    }
}

/// Removes leftovers of an earlier run, then loads the rows.
async fn set_up(database: &Database, rows: u64, payload: usize) -> Result<()> {
    clean_up(database).await?;
    let there = database.list_collection_names().await?;
    if let Some(other) = there.iter().find(|name| TABLES.contains(&name.as_str())) {
        let name = database.name();
        bail!(
            "there is a collection {name}.{other} that this program has not made: nothing was changed; use another --database"
        );
    }
    database.collection::<Document>(MARKER).insert_one(doc! { "_id": MARK }).await?;
    for table in TABLES {
        database.create_collection(table).await?;
    }
    let collection = database.collection::<RawDocumentBuf>(ROWS_TABLE);
    for start in (0..rows).step_by(CHUNK as usize) {
        let ids = start..(start + CHUNK).min(rows);
        collection.insert_many(ids.map(|id| document(id.cast_signed(), payload))).await?;
    }
    Ok(())
}

/// Removes our collections, and the database if it is empty then. Returns false if there is nothing of ours.
async fn clean_up(database: &Database) -> Result<bool> {
    let there = database.list_collection_names().await?;
    if !there.iter().any(|name| name == MARKER) {
        return Ok(false);
    }
    for _ in 0..PASSES {
        for table in TABLES {
            database.collection::<Document>(table).drop().await?;
        }
        if !database.list_collection_names().await?.iter().any(|name| TABLES.contains(&name.as_str())) {
            break;
        }
    }
    database.collection::<Document>(MARKER).drop().await?;
    if database.list_collection_names().await?.is_empty() {
        database.drop().await?;
    }
    Ok(true)
}

/// Returns whether the server supports this compression.
pub async fn supports_compression(admin: &Database, compression: &str) -> Result<bool> {
    let hello = admin.run_command(doc! { "hello": 1, "compression": [compression] }).await?;
    let offered = hello.get_array("compression").into_iter().flatten();
    Ok(offered.into_iter().any(|offer| offer.as_str() == Some(compression)))
}

/// Returns the server's name and version.
pub async fn version(admin: &Database) -> Result<Option<String>> {
    let info = admin.run_command(doc! { "buildInfo": 1 }).await?;
    // FerretDB adds fields to the ones of the MongoDB version it emulates.
    if let Some(version) = info.get_document("ferretdb").ok().and_then(|ferretdb| ferretdb.get_str("version").ok()) {
        return Ok(Some(format!("FerretDB {}", version.trim_start_matches('v'))));
    }
    if let Ok(version) = info.get_str("ferretdbVersion") {
        // An embedded FerretDB reports "unknown".
        let version = version.trim_start_matches('v').replace("unknown", "");
        return Ok(Some(format!("FerretDB {version}").trim_end().to_owned()));
    }
    Ok(info.get_str("version").ok().map(|version| format!("MongoDB {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_cause() {
        let selection = "Kind: Server selection timeout: No available servers. Topology: { Servers: [ { Error: Kind: I/O error: \
                         invalid peer certificate: UnknownIssuer, labels: {}, source: None } ] }, labels: {}, source: None";
        assert_eq!(short(selection), "I/O error: invalid peer certificate: UnknownIssuer");
        assert_eq!(short("Kind: Command failed: no, labels: {}, source: None"), "Command failed: no");
        assert_eq!(short("something else"), "something else");
    }

    #[test]
    fn a_document_is_as_long_as_in_the_reference_measurement() {
        assert_eq!(document(200_002, data::PAYLOAD).as_bytes().len(), 199);
    }
}
