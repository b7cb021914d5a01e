//! Every target: `FUZZ_TARGET` says which one it is, as `lab/test/fuzz` sets it.
#![no_main]

use overhead_testing::hostile::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let known = Target::ALL.map(Target::name).join(", ");
    Target::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET is '{name}', and none of {known}"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET.run_quickly(input));
