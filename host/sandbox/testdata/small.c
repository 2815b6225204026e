// A small layer for the benchmarks. small/main.go is the same layer in Go.
#include "words.h"

#define IMPORT(name) __attribute__((import_module("assay"), import_name(#name)))
IMPORT(fact) int fact(const char *name, u32 name_len, char *buf, u32 buf_cap);
IMPORT(signal) void signal(int points, const char *code, u32 code_len, const char *text, u32 text_len);

static char name[1024];

__attribute__((export_name("assay_v1_score"))) int score(void) {
  int size = fact("domain.ascii", 12, name, sizeof name);
  if (size < 0 || size > (int)sizeof name) return 1;
  for (int i = 0; i < WORDS; i++)
    if (holds(name, size, words[i].word))
      signal(10, words[i].code, length(words[i].code), words[i].text, length(words[i].text));
  return 0;
}
