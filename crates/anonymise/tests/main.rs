//! Copies without user data: one test program, because each would link the whole crate.

mod canary;
mod canary_in_frames;
#[path = "canary/conversations.rs"]
mod conversations;
#[path = "canary/fields.rs"]
mod fields;
mod fixtures;
