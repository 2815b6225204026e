// The SDK of Assay's layers for C: a copy, so do not edit it. A guest needs no C library. Natively the same layer runs
// in a test, with the host's limits, through assay_run.
#ifndef ASSAY_H
#define ASSAY_H

enum assay_outcome { ASSAY_SCORED = 0, ASSAY_ABSTAINED = 1, ASSAY_FAILED = 2 };
enum assay_level { ASSAY_DEBUG = -4, ASSAY_INFO = 0, ASSAY_WARN = 4, ASSAY_ERROR = 8 };
enum { ASSAY_MAX_POINTS = 100, ASSAY_MAX_TEXT = 240, ASSAY_MAX_QUOTE = 60, ASSAY_MAX_SIGNALS = 64 };

// The categories of fraud. The manifest declares those that the layer names.
#define ASSAY_PHISHING "phishing"
#define ASSAY_IMPERSONATION "impersonation"
#define ASSAY_SCAM "scam"
#define ASSAY_INVESTMENT_SCAM "investment_scam"
#define ASSAY_MALWARE "malware"
#define ASSAY_SPAM "spam"
#define ASSAY_DISPOSABLE "disposable"
#define ASSAY_FAKE_IDENTITY "fake_identity"
#define ASSAY_TOLL_FRAUD "toll_fraud"

#ifdef __wasm__

#define ASSAY_IMPORT(name) __attribute__((import_module("assay"), import_name(name)))
ASSAY_IMPORT("fact")
int assay_host_fact(const char *name, unsigned name_length, char *buffer, unsigned capacity);
ASSAY_IMPORT("signal")
void assay_host_signal(int points, const char *code, unsigned code_length, const char *text, unsigned text_length);
ASSAY_IMPORT("threat") void assay_host_threat(const char *name, unsigned name_length);
ASSAY_IMPORT("log") void assay_host_log(int level, const char *text, unsigned text_length);

// Exports the function as the module's layer.
#define ASSAY_LAYER(score) \
  __attribute__((export_name("assay_v1_score"))) int assay_v1_score(void) { \
    assay_used = 0; \
    return score(); \
  }

#else

static int assay_host_fact(const char *name, unsigned name_length, char *buffer, unsigned capacity);
static void assay_host_signal(int points, const char *code, unsigned code_length, const char *text,
                              unsigned text_length);
static void assay_host_threat(const char *name, unsigned name_length);
static void assay_host_log(int level, const char *text, unsigned text_length);
#define ASSAY_LAYER(score)

#endif

#define ASSAY_HELPER static inline __attribute__((unused))

ASSAY_HELPER unsigned assay_length(const char *text) {
  unsigned n = 0;
  while (text[n]) n++;
  return n;
}

// Writes a line for the layer's author. Customers never see it.
ASSAY_HELPER void assay_log(enum assay_level level, const char *text) {
  assay_host_log(level, text, assay_length(text));
}

// Memory for facts, of which the next call uses the same.
#ifdef __wasm__
static char assay_first[4096];
#else
static char assay_first[1 << 20];
#endif
static char *assay_memory = assay_first;
static unsigned assay_size = sizeof assay_first, assay_used;

// Takes other memory, of at least so many bytes. The call ends if there is none.
ASSAY_HELPER void assay_grow(unsigned least) {
#ifdef __wasm__
  unsigned pages = ((least > 2 * assay_size ? least : 2 * assay_size) + 65535) / 65536;
  unsigned at = __builtin_wasm_memory_grow(0, pages);
  if (at + 1) {
    assay_memory = (char *)(at * 65536);
    assay_size = pages * 65536;
    assay_used = 0;
    return;
  }
#endif
  (void)least;
  assay_log(ASSAY_ERROR, "no memory is left for facts");
  __builtin_trap();
}

// The named fact, of any length, or 0 if it is absent. Absent means "not known" and must never add risk. It is a copy,
// which lasts until the end of the call.
ASSAY_HELPER char *assay_fact(const char *name) {
  unsigned name_length = assay_length(name), room = assay_size - assay_used;
  int length = assay_host_fact(name, name_length, assay_memory + assay_used, room);
  if (length < 0) return 0;
  if ((unsigned)length >= room) { // its NUL must fit, too
    assay_grow(length + 1);
    assay_host_fact(name, name_length, assay_memory + assay_used, length);
  }
  char *text = assay_memory + assay_used;
  text[length] = 0;
  assay_used += length + 1;
  return text;
}

// Whether the named fact is known.
ASSAY_HELPER int assay_has(const char *name) { return assay_host_fact(name, assay_length(name), (char *)name, 0) >= 0; }

// The named fact as a number of at most nine digits, or -1 if it is absent or anything else.
ASSAY_HELPER int assay_count(const char *name) {
  char digits[9];
  int length = assay_host_fact(name, assay_length(name), digits, sizeof digits), n = 0;
  if (length < 1 || length > (int)sizeof digits || (digits[0] == '0' && length > 1)) return -1;
  for (int i = 0; i < length; i++) {
    if (digits[i] < '0' || digits[i] > '9') return -1;
    n = n * 10 + (digits[i] - '0');
  }
  return n;
}

// The named yes-or-no fact: 1 if it is yes, 0 if it is no, -1 if it is absent or anything else.
ASSAY_HELPER int assay_yes_no(const char *name) {
  char text[3];
  int length = assay_host_fact(name, assay_length(name), text, sizeof text);
  if (length == 3 && text[0] == 'y' && text[1] == 'e' && text[2] == 's') return 1;
  return length == 2 && text[0] == 'n' && text[1] == 'o' ? 0 : -1;
}

// Whether the named yes-or-no fact is known and yes, or known and no.
ASSAY_HELPER int assay_is(const char *name) { return assay_yes_no(name) == 1; }
ASSAY_HELPER int assay_not(const char *name) { return assay_yes_no(name) == 0; }

// Cuts the first entry off a list, whose entries are separated by spaces, and returns it, or 0 if none is left:
//   char *rest = assay_dns_ns(), *server;
//   while ((server = assay_next(&rest))) ...
ASSAY_HELPER char *assay_next(char **rest) {
  char *entry = *rest;
  while (entry && *entry == ' ') entry++;
  if (!entry || !*entry) return 0;
  for (*rest = entry; **rest && **rest != ' ';) ++*rest;
  if (**rest) *(*rest)++ = 0;
  return entry;
}

#include "assay_facts.h"

// A text to build from parts. Begin with {0}. The host cuts what is longer than ASSAY_MAX_TEXT at the end of a
// character. It sees that by one byte more; the last byte is NUL.
struct assay_text {
  unsigned length;
  char bytes[ASSAY_MAX_TEXT + 2];
};

ASSAY_HELPER void assay_add_bytes(struct assay_text *t, const char *bytes, unsigned length) {
  for (unsigned i = 0; i < length && t->length < sizeof t->bytes - 1; i++) t->bytes[t->length++] = bytes[i];
  t->bytes[t->length] = 0;
}

ASSAY_HELPER void assay_add(struct assay_text *t, const char *text) { assay_add_bytes(t, text, assay_length(text)); }

ASSAY_HELPER void assay_add_number(struct assay_text *t, unsigned n) {
  char digits[10];
  unsigned begin = sizeof digits;
  do digits[--begin] = '0' + n % 10;
  while (n /= 10);
  assay_add_bytes(t, digits + begin, sizeof digits - begin);
}

// Reads a character of UTF-8: its number, or U+FFFD for a byte that is part of none, and its size.
ASSAY_HELPER unsigned assay_character(const char *bytes, unsigned length, unsigned *size) {
  const unsigned char *b = (const unsigned char *)bytes;
  unsigned n = *b < 0x80 ? 1 : *b < 0xc2 ? 0 : *b < 0xe0 ? 2 : *b < 0xf0 ? 3 : *b < 0xf5 ? 4 : 0;
  *size = 1;
  if (n < 1 || n > length) return 0xfffd;
  unsigned c = n == 1 ? *b : *b & (0x7f >> n);
  for (unsigned i = 1; i < n; i++) {
    if ((b[i] & 0xc0) != 0x80) return 0xfffd;
    c = c << 6 | (b[i] & 0x3f);
  }
  if (n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) return 0xfffd;
  if (n == 4 && (c < 0x10000 || c > 0x10ffff)) return 0xfffd;
  *size = n;
  return c;
}

// Whether a person can see a character, or the space that it makes.
ASSAY_HELPER int assay_visible(unsigned character) {
  unsigned low = 0, high = sizeof assay_hidden / sizeof *assay_hidden;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (assay_hidden[middle] <= character)
      low = middle + 1;
    else
      high = middle;
  }
  return low % 2 == 0;
}

// Adds a value in quotation marks, at the end of a sentence, so that no value makes the text too long or one that hosts
// refuse: what a person cannot see becomes "?", characters that join others are left out, and a long value is cut
// between two characters, with an ellipsis.
ASSAY_HELPER void assay_add_quoted_bytes(struct assay_text *t, const char *value, unsigned length) {
  unsigned size, quoted = 3; // bytes of a quotation mark
  assay_add(t, "“");
  for (unsigned i = 0; i < length; i += size) {
    unsigned character = assay_character(value + i, length - i, &size), bytes = size;
    const char *shown = value + i;
    if (character == 0x200c || character == 0x200d) continue;
    if (character == 0xfffd || !assay_visible(character)) shown = "?", bytes = 1;
    if ((quoted += bytes) > ASSAY_MAX_QUOTE - 3) {
      assay_add(t, "…");
      break;
    }
    assay_add_bytes(t, shown, bytes);
  }
  assay_add(t, "”");
}

ASSAY_HELPER void assay_add_quoted(struct assay_text *t, const char *value) {
  assay_add_quoted_bytes(t, value, assay_length(value));
}

// Adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a sentence
// that names the evidence.
ASSAY_HELPER void assay_signal(int points, const char *code, const char *text) {
  assay_host_signal(points, code, assay_length(code), text, assay_length(text));
}

// Names the category of fraud that this layer found. The last call counts.
ASSAY_HELPER void assay_threat(const char *name) { assay_host_threat(name, assay_length(name)); }

#ifndef __wasm__ // for tests

#include <stdio.h>
#include <string.h>

// A layer's answer to one native call. The score is 0 unless the layer scored; a host holds it to the manifest's
// score_range too. refused says why a host would refuse the answer, or is empty.
struct assay_answer {
  enum assay_outcome outcome;
  int score, signals;
  char codes[ASSAY_MAX_SIGNALS][97], texts[ASSAY_MAX_SIGNALS][ASSAY_MAX_TEXT + 1];
  char threat[65], refused[200];
};

struct assay_known {
  const char *name, *value;
};

static struct assay_answer assay_current;
static const struct assay_known *assay_facts;

static void assay_refuse(const char *code, const char *why) {
  if (!assay_current.refused[0])
    snprintf(assay_current.refused, sizeof assay_current.refused, "%.96s: %s", code, why);
}

static int assay_host_fact(const char *name, unsigned name_length, char *buffer, unsigned capacity) {
  for (const struct assay_known *f = assay_facts; f && f->name; f++) {
    if (strlen(f->name) != name_length || strncmp(f->name, name, name_length)) continue;
    unsigned length = strlen(f->value);
    if (length <= capacity) memcpy(buffer, f->value, length);
    return length;
  }
  return -1;
}

// Writes a text as hosts show it: a longer one is cut at the end of a character, with an ellipsis and, if a quotation
// is open, its closing mark.
static void assay_show(char *shown, const char *text, unsigned length) {
  int open = 0, straight = 0;
  const char *end = "";
  if (length > ASSAY_MAX_TEXT) {
    length = ASSAY_MAX_TEXT - 6;
    while (length && (text[length] & 0xc0) == 0x80) length--;
    for (unsigned i = 0; i < length; i++) {
      open += !strncmp(text + i, "“", 3) - !strncmp(text + i, "”", 3);
      straight ^= text[i] == '"';
    }
    end = open > 0 ? "…”" : straight ? "…\"" : "…";
  }
  snprintf(shown, ASSAY_MAX_TEXT + 1, "%.*s%s", (int)length, text, end);
}

static void assay_host_signal(int points, const char *code, unsigned code_length, const char *text,
                              unsigned text_length) {
  struct assay_answer *a = &assay_current;
  int colons = 0;
  for (unsigned i = 0; i < code_length; i++) colons += code[i] == ':';
  if (points < -ASSAY_MAX_POINTS || points > ASSAY_MAX_POINTS) assay_refuse(code, "points out of range");
  if (code_length > 96 || colons < 2) assay_refuse(code, "not of the form group:kind:detail");
  if (text_length < 1) assay_refuse(code, "the text is empty");
  if (a->signals == ASSAY_MAX_SIGNALS) assay_refuse(code, "too many signals");
  if (a->refused[0]) return;
  snprintf(a->codes[a->signals], sizeof a->codes[0], "%.*s", (int)code_length, code);
  assay_show(a->texts[a->signals++], text, text_length);
  a->score += points;
}

static void assay_host_threat(const char *name, unsigned name_length) {
  snprintf(assay_current.threat, sizeof assay_current.threat, "%.*s", (int)name_length, name);
}

static void assay_host_log(int level, const char *text, unsigned text_length) {
  fprintf(stderr, "log %d: %.*s\n", level, (int)text_length, text);
}

// Calls a layer natively with facts, which end with {0}. Tests of layers call it.
ASSAY_HELPER struct assay_answer assay_run(int (*score)(void), const struct assay_known *facts) {
  memset(&assay_current, 0, sizeof assay_current);
  assay_facts = facts;
  assay_used = 0;
  assay_current.outcome = score();
  if (assay_current.outcome != ASSAY_SCORED || assay_current.refused[0]) assay_current.score = 0;
  if (assay_current.score > ASSAY_MAX_POINTS) assay_current.score = ASSAY_MAX_POINTS;
  if (assay_current.score < -ASSAY_MAX_POINTS) assay_current.score = -ASSAY_MAX_POINTS;
  return assay_current;
}

#endif
#endif
