// The layer of host/sandbox/testdata/small.c as a plugin for Extism. The input is the name. The output has one record per
// signal: points (one byte), length of the code (one byte), code, length of the text (one byte), text.
#include "../../../sandbox/testdata/words.h"

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name)))
IMPORT(input_length) u64 input_length(void);
IMPORT(input_load_u8) u32 input_load_u8(u64 at);
IMPORT(input_load_u64) u64 input_load_u64(u64 at);
IMPORT(alloc) u64 alloc(u64 size);
IMPORT(store_u8) void store_u8(u64 at, u32 v);
IMPORT(store_u64) void store_u64(u64 at, u64 v);
IMPORT(output_set) void output_set(u64 at, u64 size);

static char name[1024], out[1024] __attribute__((aligned(8)));

// put appends a string with its length.
static u32 put(u32 at, const char *s) {
  u32 n = length(s);
  out[at++] = n;
  for (u32 i = 0; i < n; i++) out[at++] = s[i];
  return at;
}

// Input and output are copied through Extism's memory eight bytes at a time, as Extism's own PDKs do.
__attribute__((export_name("score"))) int score(void) {
  u32 size = input_length(), at = 0, i = 0;
  if (size > sizeof name) return 1;
  for (; i + 8 <= size; i += 8) *(u64 *)(name + i) = input_load_u64(i);
  for (; i < size; i++) name[i] = input_load_u8(i);
  for (i = 0; i < WORDS; i++)
    if (holds(name, size, words[i].word)) {
      out[at++] = 10;
      at = put(at, words[i].code);
      at = put(at, words[i].text);
    }
  u64 block = alloc(at);
  for (i = 0; i + 8 <= at; i += 8) store_u64(block + i, *(u64 *)(out + i));
  for (; i < at; i++) store_u8(block + i, (unsigned char)out[i]);
  output_set(block, at);
  return 0;
}
