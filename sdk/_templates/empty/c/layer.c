// The layer my-layer.
#include "assay.h"
#include "signals.h"

// Scores a domain, or the domain of an email address.
static int score(void) {
  if (!assay_domain_registrable()) return ASSAY_ABSTAINED; // absent must never add risk
  return ASSAY_SCORED;
}

ASSAY_LAYER(score)
