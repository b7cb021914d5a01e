//! The program and its data sets: one test program, because each would link the whole crate.

mod export;
mod generate;
