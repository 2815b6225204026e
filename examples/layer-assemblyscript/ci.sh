#!/bin/sh
# Builds the layer, and tests it natively and in the sandbox. It needs asc, node, npm and assay on the PATH.
set -eu
cd "$(dirname "$0")"
assay plugin sdk . >/dev/null # the SDK is not part of this folder
npm test # builds plugin.wasm
assay plugin test plugin.wasm
