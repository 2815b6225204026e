package main

import (
	"testing"

	"assay/registry/expect"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		a, b       string
		most, want int
	}{
		"equal":          {"paypal", "paypal", 2, 0},
		"swap":           {"payapl", "paypal", 2, 1},
		"insert":         {"payypal", "paypal", 2, 1},
		"drop":           {"papal", "paypal", 2, 1},
		"change":         {"paybal", "paypal", 2, 1},
		"two":            {"pybal", "paypal", 2, 2},
		"beyond":         {"kraken", "paypal", 2, 3},
		"against empty":  {"", "ab", 3, 2},
		"swap and drop":  {"stecmommunity", "steamcommunity", 3, 2},
		"last row first": {"ab", "", 1, 2},
	} {
		expect.Equal(t, name, distance([]byte(tt.a), tt.b, tt.most), tt.want)
	}
}

func TestEachDifference(t *testing.T) {
	t.Parallel()
	type testCase struct{ written, key, want string }
	expect.Each(t, map[string]testCase{
		"none":            {"pay-pal", "paypal", ""},
		"pair twice":      {"cliscorcl", "discord", "cl>d cl>d "},
		"pair with digit": {"discorc1", "discord", "c1>d "},
		"for a pair":      {"iowafambureau", "iowafarnbureau", "m>rn "},
		"ligature":        {"phœnix", "phoenix", "œ>oe "},
		"eszett as b":     {"coinßase", "coinbase", "ß>b "},
		"eszett as ss":    {"meßenger", "messenger", "ß>ss "},
		"mark":            {"pạypal", "paypal", "̣> "},
	}, func(t *testing.T, tt testCase) {
		got := ""
		eachDifference(tt.written, tt.key, func(_ int, mine, theirs string) bool {
			got += mine + ">" + theirs + " "
			return true
		})
		expect.That(t, got == tt.want, "eachDifference(%q, %q) visits %q, want %q", tt.written, tt.key, got, tt.want)
	})
}
