// A guest for the tests of package meter, compiled by clang with bulk memory and SIMD.
typedef unsigned int u32;
typedef unsigned char u8;
static u8 heap[1 << 16];
static u32 state = 1;

static u32 next(void) { return state = state * 1664525 + 1013904223; }
static u32 add(u32 a, u32 b) { return a + b; }
static u32 mix(u32 a, u32 b) { return (a ^ b) * 16777619; }
static u32 (*const table[])(u32, u32) = {add, mix};

static void sort(u8 *a, int n) {
  if (n < 2) return;
  u8 pivot = a[n / 2];
  int i = 0, j = n - 1;
  for (;; i++, j--) {
    while (a[i] < pivot) i++;
    while (a[j] > pivot) j--;
    if (i >= j) break;
    u8 t = a[i];
    a[i] = a[j];
    a[j] = t;
  }
  sort(a, i);
  sort(a + i, n - i);
}

static u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static u32 parse(const u8 *s, int n) {
  u32 words = 0, in = 0;
  for (int i = 0; i < n; i++) {
    switch (s[i] & 15) {
    case 0: case 1: in = 0; break;
    case 2: words += 3; /* fall through */
    case 3: case 4: if (!in) { in = 1; words++; } break;
    case 9: if (words > 100000) return words; break;
    default: continue;
    }
  }
  return words;
}

__attribute__((export_name("run"))) u32 run(u32 n) {
  u32 sum = n;
  for (u32 i = 0; i < sizeof heap; i++) heap[i] = next() >> 24;
  __builtin_memset(heap + 100, n, n % 1000);
  __builtin_memmove(heap + 50, heap + 20, n % 500);
  sort(heap, 5000);
  for (u32 i = 0; i < 5000; i++) sum = table[heap[i] & 1](sum, heap[i]);
  return sum + fib(n % 18) + parse(heap, sizeof heap);
}
