//! Hex vectors.
