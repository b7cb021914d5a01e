#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| overhead_hostile::Target::Memo.run(input));
