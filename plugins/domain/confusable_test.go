package main

import (
	"testing"
	"unicode/utf8"

	"assay/registry/expect"
)

// The tables must be sorted for findRecord, and findRecord must return each record.
func TestUnicodeTables(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"lookalikes": confusables, "scriptRanges": scriptRanges} {
		last := rune(0)
		for rest := table; rest != ""; {
			r, size := utf8.DecodeRuneInString(rest)
			end := size
			for end < len(rest) && rest[end] < utf8.RuneSelf {
				end++
			}
			expect.Must(t, r > last && r >= utf8.RuneSelf && end != size, "%s: %q is out of order or empty", name,
				rest[:end])
			letter, entry := findRecord(table, r)
			expect.Must(t, letter == r && entry == rest[size:end], "%s: looking up %q returns %q, %q", name, rest[:end],
				letter, entry)
			expect.Must(t, name != "scriptRanges" || int(entry[0]-'!') < len(scriptSets), "%s: %q names no set", name,
				rest[:end])
			last, rest = r, rest[end:]
		}
	}
}

func TestAsASCII(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]struct {
		letters string
		how     likeness
	}{
		'а': {"a", identical}, 'ο': {"o", identical}, 'ı': {"i", identical}, 'ӏ': {"l", identical},
		'œ': {"oe", identical},
		'é': {"e", accented}, 'ø': {"o", accented}, 'ł': {"l", accented}, 'ß': {"ss", accented}, 'ḿ': {"m", accented},
		'в': {"b", similar}, 'н': {"h", similar}, 'ω': {"w", similar},
		'ɡ': {"g", rare}, 'ꜱ': {"s", rare}, 'ʀ': {"r", rare},
		'ʼ': {"", hyphenLike}, 'ー': {"", hyphenLike}, 'ノ': {"", dotLike}, '\u0323': {"", combining},
		'ж': {"", unlike}, '中': {"", unlike}, '\U0010ffff': {"", unlike},
	} {
		if letters, how := asASCII(r); letters != want.letters || how != want.how {
			t.Errorf("asASCII(%q) = %q, %d, want %q, %d", r, letters, how, want.letters, want.how)
		}
	}
}
