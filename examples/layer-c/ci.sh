#!/bin/sh
# Builds the layer, and tests it natively and in the sandbox. It needs clang, lld and assay on the PATH.
set -eu
cd "$(dirname "$0")"
assay plugin sdk . >/dev/null # the SDK is not part of this folder
clang -Wall -Wextra -Werror -o build-tests test.c
./build-tests
assay plugin build . -o plugin.wasm
assay plugin test plugin.wasm
