# Short names for what is done often. `just` alone lists them.

_default:
    @just --list --unsorted

# What CI runs, all of it
check:
    .ci/run

# Tests; `just test pipeline` runs those with that in their name
test *filter:
    cargo test {{ filter }}

# The main job on the built-in default, from the event to the commit
demo:
    cargo run -- demo

# Format the code
fmt:
    cargo fmt

# Format and lints, the quick part of `check`
lint:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings

# Write expected manifests and generated documentation anew; read the diff before you keep it
update-expected:
    UPDATE_EXPECTED=1 cargo test --test suite pipeline
    UPDATE_EXPECTED=1 cargo test --test suite docs
    UPDATE_EXPECTED=1 cargo test --test suite the_recording
    git diff --stat

# How long `plan` takes
bench:
    cargo bench --bench plan

# What a write costs and what a burst does: `just load compare`, `burst`, `month`; deploy/load/README.md
load *arguments:
    cargo build --profile fast
    cargo bench --profile fast --bench manifests -- {{ arguments }}

# Bytes that break a promise of a reader: `just fuzz`, `just fuzz 600 waml`, `just fuzz keep`; docs/testing.md
fuzz *arguments:
    ci/fuzz {{ arguments }}

# Crashes, stopped replicas, races, overload and rollouts, half an hour of them: docs/testing.md
chaos *arguments:
    THE_DEPLOYER_CHAOS="{{ arguments }}" THE_DEPLOYER_TEST_REQUIRE_ALL=1 cargo test --test suite chaos::command::rounds -- --exact --nocapture
