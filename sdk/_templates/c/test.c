// These tests run natively: clang -o build-tests test.c && ./build-tests. `assay plugin test` runs cases.jsonl in the
// sandbox.
#include "layer.c"

int main(void) {
  const struct {
    const char *name;
    struct assay_known facts[3];
    int score;
    const char *text, *threat;
  } cases[] = {
      {"few digits", {{"domain.registrable", "shop24.de"}}, 0, "", ""},
      {"digits", {{"domain.registrable", "shop20245.com"}}, 20, "Contains the number “20245”", ""},
      {"new", {{"domain.registrable", "a.de"}, {"rdap.age_days", "1"}}, 30, "Registered 1 day ago", ""},
      {"not so new", {{"domain.registrable", "a.de"}, {"rdap.age_days", "30"}}, 0, "", ""},
      {"both", {{"domain.registrable", "1-2024.com"}, {"rdap.age_days", "0"}}, 50, "Contains the number “2024”",
       ASSAY_SCAM},
  };
  int failed = 0;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct assay_answer got = assay_run(score, cases[i].facts);
    if (got.outcome != ASSAY_SCORED || got.refused[0] || got.score != cases[i].score ||
        strcmp(got.texts[0], cases[i].text) || strcmp(got.threat, cases[i].threat)) {
      printf("%s: score %d, text \"%s\", threat \"%s\" %s\n", cases[i].name, got.score, got.texts[0], got.threat,
             got.refused);
      failed = 1;
    }
  }
  if (assay_run(score, 0).outcome != ASSAY_ABSTAINED) {
    printf("without facts, the layer does not abstain\n");
    failed = 1;
  }
  return failed;
}
