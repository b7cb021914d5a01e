//! Makes and removes three collections. A further collection marks them as ours.

use super::{document, in_short};
use crate::data::{INSERT_TABLE, MARK, ROWS_TABLE, TABLES};
use crate::driver::BenchObjects;
use anyhow::{Result, bail};
use mongodb::Database;
use mongodb::bson::{Document, RawDocumentBuf, doc};

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
