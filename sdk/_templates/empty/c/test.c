// These tests run natively: clang -o build-tests test.c && ./build-tests. `assay plugin test` runs cases.jsonl in the
// sandbox.
#include "layer.c"

int main(void) {
  const struct assay_known known[] = {{"domain.registrable", "a.de"}, {0, 0}};
  struct assay_answer got = assay_run(score, known);
  if (got.outcome != ASSAY_SCORED || got.score != 0 || assay_run(score, 0).outcome != ASSAY_ABSTAINED) {
    printf("outcome %d, score %d\n", got.outcome, got.score);
    return 1;
  }
  return 0;
}
