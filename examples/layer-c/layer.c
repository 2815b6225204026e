// The layer long-subdomain: domains that hide behind long or hyphenated labels.
#include "assay.h"
#include "signals.h"

enum { MIN_LENGTH = 25, LENGTH_POINTS = 30, MIN_HYPHENS = 2, HYPHENS_POINTS = 20, NEW_DAYS = 90, NEW_POINTS = 20 };

static int count_hyphens(const char *text) {
  int n = 0;
  for (; *text; text++) n += *text == '-';
  return n;
}

// Whether a hosting company assigned the subdomain, for example to a customer or a server.
static int is_hosted(void) {
  const char *kind = assay_domain_suffix_kind();
  return kind && kind[0] == 'p'; // private
}

static void add(struct assay_text *text, const char *before, unsigned n, const char *after) {
  text->length = 0;
  assay_add(text, before);
  assay_add_number(text, n);
  assay_add(text, after);
}

// Scores a domain by the labels left of its registrable domain.
static int score(void) {
  struct assay_text text = {0};
  if (!assay_has("domain.registrable")) return ASSAY_ABSTAINED; // a public suffix
  const char *subdomain = assay_domain_subdomain();
  if (!subdomain || is_hosted()) return ASSAY_SCORED;
  int length = assay_length(subdomain), hyphens = count_hyphens(subdomain);
  if (length >= MIN_LENGTH) {
    add(&text, "", length, " characters in front of the registered name");
    assay_signal(LENGTH_POINTS, SIGNAL_LABELS_LONG, text.bytes);
  }
  if (hyphens >= MIN_HYPHENS) {
    add(&text, "", hyphens, " hyphens in front of the registered name");
    assay_signal(HYPHENS_POINTS, SIGNAL_LABELS_HYPHENS, text.bytes);
  }
  int days = assay_rdap_age_days();
  if ((length >= MIN_LENGTH || hyphens >= MIN_HYPHENS) && days >= 0 && days < NEW_DAYS) {
    add(&text, "Registered ", days, days == 1 ? " day ago" : " days ago");
    assay_signal(NEW_POINTS, SIGNAL_LABELS_NEW, text.bytes);
    assay_threat(ASSAY_PHISHING);
  }
  return ASSAY_SCORED;
}

ASSAY_LAYER(score)
