#!/bin/sh
# Builds the layer, and tests it natively and in the sandbox. It needs rustc and assay on the PATH.
set -eu
cd "$(dirname "$0")"
assay plugin sdk . >/dev/null # the SDK is not part of this folder
rustc --edition=2021 --test layer.rs -o build-tests
./build-tests
assay plugin build . -o plugin.wasm
assay plugin test plugin.wasm
