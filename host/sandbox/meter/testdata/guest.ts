// A guest for the tests of package meter, compiled by AssemblyScript with its runtime.
export function run(n: u32): u32 {
  const counts = new Map<string, u32>();
  for (let i: u32 = 0; i < 200; i++) {
    const key = (i % 7).toString() + "-" + (i * n).toString(16);
    counts.set(key, (counts.has(key) ? counts.get(key) : 0) + i);
  }
  const words = counts.keys().sort();
  let h = n;
  for (let i = 0; i < words.length; i++) {
    for (let j = 0; j < words[i].length; j++) h = (h ^ words[i].charCodeAt(j)) * 16777619;
  }
  return h;
}
