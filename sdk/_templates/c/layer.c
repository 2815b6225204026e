// The layer my-layer: domains with long numbers in their names, and new ones.
#include "assay.h"
#include "signals.h"

enum { MIN_DIGITS = 4, DIGITS_POINTS = 20, NEW_DAYS = 30, NEW_POINTS = 30 };

// Finds the longest run of digits in a name, the first one if several are as long.
static int longest_number(const char *name, const char **longest) {
  int most = 0, begin = 0;
  *longest = name;
  for (int i = 0; name[i]; i++) {
    if (name[i] < '0' || name[i] > '9') {
      begin = i + 1;
    } else if (i + 1 - begin > most) {
      most = i + 1 - begin;
      *longest = name + begin;
    }
  }
  return most;
}

// Scores a domain by the longest number in its name and by its age.
static int score(void) {
  const char *name = assay_domain_registrable(), *digits;
  if (!name) return ASSAY_ABSTAINED; // absent means "not known", and must never add risk
  int run = longest_number(name, &digits);
  struct assay_text text = {0};
  assay_add(&text, "longest number: ");
  assay_add_number(&text, run);
  assay_add(&text, " digits");
  assay_log(ASSAY_DEBUG, text.bytes);
  if (run >= MIN_DIGITS) {
    text.length = 0;
    assay_add(&text, "Contains the number ");
    assay_add_quoted_bytes(&text, digits, run);
    assay_signal(DIGITS_POINTS, SIGNAL_NAME_DIGITS, text.bytes);
  }
  int age = assay_rdap_age_days();
  if (age < 0 || age >= NEW_DAYS) return ASSAY_SCORED;
  text.length = 0;
  if (age == 0) {
    assay_add(&text, "Registered today");
  } else {
    assay_add(&text, "Registered ");
    assay_add_number(&text, age);
    assay_add(&text, age == 1 ? " day ago" : " days ago");
  }
  assay_signal(NEW_POINTS, SIGNAL_AGE_NEW, text.bytes);
  if (run >= MIN_DIGITS) assay_threat(ASSAY_SCAM);
  return ASSAY_SCORED;
}

ASSAY_LAYER(score)
