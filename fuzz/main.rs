//! One fuzz target under libFuzzer: `THE_DEPLOYER_FUZZ_TARGET` names it. Run it by `ci/fuzz`, which builds it
//! with what libFuzzer must know of the code.
#![no_main]
#![allow(
    unsafe_code,
    reason = "libFuzzer calls one function by its C name, which the macro writes"
)]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use the_deployer::fuzzing::{FuzzTarget, TARGETS};

static TARGET: LazyLock<FuzzTarget> = LazyLock::new(|| {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let wanted = std::env::var("THE_DEPLOYER_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == wanted);
    *target
        .unwrap_or_else(|| panic!("THE_DEPLOYER_FUZZ_TARGET is `{wanted}`, not one of {names:?}"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
