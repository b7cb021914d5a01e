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

use crate::rule::{Rule, WhatIfOptions};

/// Returns all rules, in the order of the documentation.
pub fn all(suppositions: WhatIfOptions) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(column_metadata::ColumnMetadata),
        Box::new(describe::RepeatedDescribe),
        Box::<prepared_once::PreparedOnce>::default(),
        Box::<unprepared::UnpreparedStatements>::default(),
        Box::<sync_per_statement::SyncPerStatement>::default(),
        Box::new(pipelining::RequestPipelining::new(suppositions.depth)),
        Box::<nagle::NagleDelays>::default(),
        Box::<zero_windows::ZeroWindows>::default(),
        Box::<retransmission_timeouts::RetransmissionTimeouts>::default(),
        Box::<small_segments::SmallSegments>::default(),
        Box::new(bare_acks::BareAcks),
        Box::<tls_records::TlsRecords>::default(),
        Box::<tls_handshakes::TlsHandshakes>::default(),
        Box::<short_connections::ShortConnections>::default(),
        Box::new(field_names::FieldNames),
        Box::<session_fields::SessionFields>::default(),
        Box::<text_format::TextFormat>::default(),
        Box::new(background::BackgroundTraffic),
        Box::<repeated_reads::RepeatedReads>::default(),
        Box::<single_lookups::SingleLookups>::default(),
        Box::<error_texts::ErrorTexts>::default(),
        Box::new(compression::MessageCompression::new(suppositions.compressor)),
        Box::<abandoned_answers::AbandonedAnswers>::default(),
    ]
}

/// Returns 0 if `of` is 0.
fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}
