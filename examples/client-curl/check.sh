#!/bin/sh
# Scores a domain and prints the verdict: allow, review or block.
#
#   ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_... sh check.sh example.com
set -eu
case $1 in
  *[\"\\]*) # would end the JSON string below and add fields
    echo 'a domain has neither " nor \' >&2
    exit 2 ;;
esac
response=$(curl -sS -X POST "$ASSAY_URL/api/check" \
  -H "Authorization: Bearer $ASSAY_KEY" \
  -H 'Content-Type: application/json' \
  -d "{\"domain\":\"$1\"}")
verdict=$(printf '%s' "$response" | sed -n 's/.*"verdict":"\([a-z]*\)".*/\1/p')
if [ -z "$verdict" ]; then
  printf '%s\n' "$response" >&2
  exit 1
fi
printf '%s\n' "$verdict"
