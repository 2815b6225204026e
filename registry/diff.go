package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Change is one difference between two lineups.
type Change struct {
	What string `json:"what"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Diff returns the differences between two lineups: bias and bands first, then each layer by name. plugins holds the
// known manifests by name@version, because a layer's manifest limits how much it may clear.
func Diff(from, to LineupDocument, plugins map[string]Manifest) []Change {
	changes := []Change{}
	differ := func(what string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			changes = append(changes, Change{what, x, y})
		}
	}
	differ("bias", from.Bias, to.Bias)
	differ("review from", from.Bands.Review, to.Bands.Review)
	differ("block from", from.Bands.Block, to.Bands.Block)
	names := map[string]bool{}
	for _, item := range slices.Concat(from.Layers, to.Layers) {
		name, _, _ := item.Ref()
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := layerNamed(from, name), layerNamed(to, name)
		differ(name+": layer", cmp.Or(x.Layer, "none"), cmp.Or(y.Layer, "none"))
		differ(name+": lowest score", lowest(x, plugins), lowest(y, plugins))
		if x.Layer == "" || y.Layer == "" {
			continue
		}
		differ(name+": class", plugins[x.Layer].LayerClass(), plugins[y.Layer].LayerClass())
		differ(name+": digest", cmp.Or(x.Digest, "any"), cmp.Or(y.Digest, "any"))
		differ(name+": mode", x.Runs(), y.Runs())
		differ(name+": fuel", fuel(x, plugins), fuel(y, plugins))
		differ(name+": weight", x.Weight, y.Weight)
		differ(name+": floor", floor(x), floor(y))
		differ(name+": required", x.Required, y.Required)
		differ(name+": isolation", cmp.Or(x.Isolation, "default"), cmp.Or(y.Isolation, "default"))
		differ(name+": config", settings(x.Config), settings(y.Config))
	}
	return changes
}

// lowest returns the lowest score of a layer in its lineup, or 0 without a layer or without its manifest.
func lowest(item LineupLayer, plugins map[string]Manifest) int {
	low, _ := item.Range(plugins[item.Layer])
	return low
}

// fuel returns the budget of a layer in its lineup.
func fuel(item LineupLayer, plugins map[string]Manifest) int64 {
	return cmp.Or(item.Fuel, plugins[item.Layer].BudgetFuel)
}

func floor(item LineupLayer) string {
	if item.Floor == nil {
		return "none"
	}
	return strconv.Itoa(*item.Floor)
}

// layerNamed returns the layer with a name, or an empty one.
func layerNamed(l LineupDocument, name string) (item LineupLayer) {
	if found := l.Layer(name); found != nil {
		item = *found
	}
	return item
}

func sortedKeys(config map[string]string) []string { return slices.Sorted(maps.Keys(config)) }

func settings(config map[string]string) string {
	parts := make([]string, 0, len(config))
	for _, name := range sortedKeys(config) {
		parts = append(parts, plain(name)+"="+plain(config[name]))
	}
	return strings.Join(parts, " ")
}

// plain quotes text that could be read as two settings, or is not printable.
func plain(s string) string {
	if q := strconv.Quote(s); strings.ContainsAny(s, " =") || q != `"`+s+`"` {
		return q
	}
	return s
}
