// The words that the benchmarks' layers in C search for, and the search.
typedef unsigned int u32;
typedef unsigned long long u64;

static const struct {
  const char *word, *code, *text;
} words[] = {
    {"login", "bench:word:login", "The name holds the word login"},
    {"secure", "bench:word:secure", "The name holds the word secure"},
    {"verify", "bench:word:verify", "The name holds the word verify"},
    {"account", "bench:word:account", "The name holds the word account"},
    {"paypal", "bench:word:paypal", "The name holds the word paypal"},
};
enum { WORDS = sizeof words / sizeof *words };

static u32 length(const char *s) {
  u32 n = 0;
  while (s[n]) n++;
  return n;
}

// holds reports whether the size bytes at s contain word.
static int holds(const char *s, u32 size, const char *word) {
  u32 n = length(word);
  for (u32 i = 0; i + n <= size; i++) {
    u32 same = 0;
    while (same < n && s[i + same] == word[same]) same++;
    if (same == n) return 1;
  }
  return 0;
}
