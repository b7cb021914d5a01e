//! One file per rule.

mod abandoned_answers;
mod background;
mod bare_acks;
mod column_metadata;
mod compression;
mod describe;
mod error_texts;
mod field_names;
mod nagle;
mod pipelining;
mod prepared_anew;
mod prepared_once;
mod repeated_reads;
mod retransmission_timeouts;
mod session_fields;
mod short_connections;
mod single_lookups;
mod small_segments;
mod sync_per_statement;
mod text_format;
mod tls_handshakes;
mod tls_records;
mod unprepared;
mod zero_windows;

use crate::rule::{NamedRule, WhatIfOptions};

/// Returns all rules, in the order of the documentation.
pub fn all(suppositions: WhatIfOptions) -> Vec<NamedRule> {
    vec![
        ("column-metadata", Box::new(column_metadata::ColumnMetadata)),
        ("describe", Box::new(describe::RepeatedDescribe)),
        ("prepare-per-execution", Box::new(prepared_anew::PreparedAnew)),
        ("prepared-once", Box::<prepared_once::PreparedOnce>::default()),
        ("unprepared", Box::<unprepared::UnpreparedStatements>::default()),
        ("sync-per-statement", Box::<sync_per_statement::SyncPerStatement>::default()),
        ("pipelining", Box::new(pipelining::RequestPipelining::new(suppositions.depth))),
        ("nagle", Box::<nagle::NagleDelays>::default()),
        ("zero-window", Box::<zero_windows::ZeroWindows>::default()),
        ("retransmission-timeouts", Box::<retransmission_timeouts::RetransmissionTimeouts>::default()),
        ("small-segments", Box::<small_segments::SmallSegments>::default()),
        ("bare-acks", Box::new(bare_acks::BareAcks)),
        ("tls-records", Box::<tls_records::TlsRecords>::default()),
        ("tls-handshakes", Box::<tls_handshakes::TlsHandshakes>::default()),
        ("short-connections", Box::<short_connections::ShortConnections>::default()),
        ("field-names", Box::new(field_names::FieldNames)),
        ("session-fields", Box::<session_fields::SessionFields>::default()),
        ("text-format", Box::<text_format::TextFormat>::default()),
        ("background", Box::new(background::BackgroundTraffic)),
        ("repeated-reads", Box::<repeated_reads::RepeatedReads>::default()),
        ("n-plus-one", Box::<single_lookups::SingleLookups>::default()),
        ("error-texts", Box::<error_texts::ErrorTexts>::default()),
        ("compression", Box::new(compression::MessageCompression::new(suppositions.compressor))),
        ("abandoned-answers", Box::<abandoned_answers::AbandonedAnswers>::default()),
    ]
}

/// Returns 0 if `of` is 0.
fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}
