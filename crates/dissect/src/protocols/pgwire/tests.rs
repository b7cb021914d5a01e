//! Conversations as hex and text.
