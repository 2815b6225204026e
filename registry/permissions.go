package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ManifestChange is one difference between the manifests of two plugins.
type ManifestChange struct {
	What string `json:"what"`
	From string `json:"from"`
	To   string `json:"to"`
	// Grants reports whether the second plugin may do more than the first: read or emit more, move a score further or
	// use more resources. An operator agrees to such changes by putting the plugin in a lineup.
	Grants bool `json:"grants"`
}

// DiffManifests returns the differences between two manifests.
func DiffManifests(from, to Manifest) []ManifestChange {
	changes := []ManifestChange{}
	differ := func(what string, a, b any, grants bool) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			changes = append(changes, ManifestChange{what, x, y, grants})
		}
	}
	fromLowest, fromHighest := from.Range()
	toLowest, toHighest := to.Range()
	differ("plugin", from.Name, to.Name, false)
	differ("version", from.Version, to.Version, false)
	differ("summary", from.Summary, to.Summary, false)
	differ("class", from.LayerClass(), to.LayerClass(), true) // decides what its signals may do
	differ("lowest score", fromLowest, toLowest, toLowest < fromLowest)
	differ("highest score", fromHighest, toHighest, toHighest > fromHighest)
	differ("scores of style that may block", from.Blocks.scores(), to.Blocks.scores(),
		to.Blocks != nil && (from.Blocks == nil || to.Blocks.From < from.Blocks.From))
	differ("budget of fuel", from.BudgetFuel, to.BudgetFuel, to.BudgetFuel > from.BudgetFuel)
	differ("memory in MiB", from.MemoryMB, to.MemoryMB, to.MemoryMB > from.MemoryMB)
	differ("suggested weight", strconv.FormatFloat(from.DefaultWeight, 'g', -1, 64),
		strconv.FormatFloat(to.DefaultWeight, 'g', -1, 64), false)
	changes = append(changes, DiffSets("entity type", from.Entities, to.Entities)...)
	changes = append(changes, DiffSets("fact", from.Facts, to.Facts)...)
	changes = append(changes, DiffSets("threat", from.Threats, to.Threats)...)
	changes = append(changes, diffSignals(from, to)...)
	return changes
}

// scores says which scores may block.
func (p *Proof) scores() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("from %d", p.From)
}

// DiffSets returns the members that only one of two sets has; what names a member. Added members grant more.
func DiffSets[T cmp.Ordered](what string, from, to []T) []ManifestChange {
	var changes []ManifestChange
	for _, member := range slices.Sorted(slices.Values(to)) {
		if !slices.Contains(from, member) {
			changes = append(changes, ManifestChange{what, "", fmt.Sprint(member), true})
		}
	}
	for _, member := range slices.Sorted(slices.Values(from)) {
		if !slices.Contains(to, member) {
			changes = append(changes, ManifestChange{what, fmt.Sprint(member), "", false})
		}
	}
	return changes
}

// diffSignals returns the differences between the signals of two manifests. A signal that warrants a band, becomes
// final or yields to more grants more.
func diffSignals(from, to Manifest) []ManifestChange {
	a, b := signalsByCode(from), signalsByCode(to)
	changes := DiffSets("signal", slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	for _, code := range slices.Sorted(maps.Keys(b)) {
		before, ok := a[code]
		after := b[code]
		if x, y := before.promise(), after.promise(); x != y {
			changes = append(changes, ManifestChange{"promise of " + code, x, y,
				bandOrder(after.Warrants) > bandOrder(before.Warrants) || after.Final && !before.Final ||
					after.Warrants != "" && after.Points > before.Points})
		}
		changes = append(changes, DiffSets("signals that "+code+" yields to", before.YieldsTo, after.YieldsTo)...)
		if ok && before.Text != after.Text {
			changes = append(changes, ManifestChange{"text of " + code, before.Text, after.Text, false})
		}
	}
	return changes
}

func signalsByCode(m Manifest) map[string]SignalText {
	all := map[string]SignalText{}
	for _, s := range m.Signals {
		all[s.Code] = s
	}
	return all
}

func bandOrder(band string) int {
	return slices.Index([]string{"", WarrantsReview, WarrantsBlock}, band)
}

// promise returns the signal's promises, except its text, such as "100 points, warrants block, final".
func (s SignalText) promise() string {
	var parts []string
	if s.Points != 0 {
		parts = append(parts, fmt.Sprintf("%d points", s.Points))
	}
	if s.Warrants != "" {
		parts = append(parts, "warrants "+s.Warrants)
	}
	if s.Final {
		parts = append(parts, "final")
	}
	if s.Threat != "" {
		parts = append(parts, string(s.Threat))
	}
	return strings.Join(parts, ", ")
}
