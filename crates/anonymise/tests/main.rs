//! Copies without user data: one test program, because each would link the whole crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod canary;
mod canary_in_frames;
#[path = "canary/conversations.rs"]
mod conversations;
#[path = "canary/fields.rs"]
mod fields;
mod fixtures;
