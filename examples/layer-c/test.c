// These tests run natively: clang -o build-tests test.c && ./build-tests. `assay plugin test` runs cases.jsonl in the
// sandbox.
#include "layer.c"

#define NAME {"domain.registrable", "a.example"}

int main(void) {
  const struct {
    const char *name;
    struct assay_known facts[5];
    int score;
    const char *text, *threat;
  } cases[] = {
      {"no label", {NAME}, 0, "", ""},
      {"short labels", {NAME, {"domain.subdomain", "www.shop-eu"}}, 0, "", ""},
      {"24 characters", {NAME, {"domain.subdomain", "abcdefghijkl.abcdefghijk"}}, 0, "", ""},
      {"25 characters", {NAME, {"domain.subdomain", "abcdefghijkl.abcdefghijkl"}}, 30,
       "25 characters in front of the registered name", ""},
      {"hyphens", {NAME, {"domain.subdomain", "amazon-co-jp"}}, 20, "2 hyphens in front of the registered name", ""},
      {"both, new", {NAME, {"domain.subdomain", "kuerennkaycaato-co-jp.kuer"}, {"rdap.age_days", "1"}}, 70,
       "26 characters in front of the registered name", ASSAY_PHISHING},
      {"both, not so new", {NAME, {"domain.subdomain", "kuerennkaycaato-co-jp.kuer"}, {"rdap.age_days", "90"}}, 50,
       "26 characters in front of the registered name", ""},
      {"new alone", {NAME, {"domain.subdomain", "www"}, {"rdap.age_days", "1"}}, 0, "", ""},
      {"hosted", {NAME, {"domain.subdomain", "amazon-co-jp"}, {"domain.suffix_kind", "private"}}, 0, "", ""},
      {"not hosted", {NAME, {"domain.subdomain", "amazon-co-jp"}, {"domain.suffix_kind", "icann"}}, 20,
       "2 hyphens in front of the registered name", ""},
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
