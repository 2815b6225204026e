package registry_test

import (
	"fmt"

	"assay/registry"
)

// A plugin is one file: a WebAssembly module with its manifest as a custom section.
func ExamplePack() {
	module := []byte("\x00asm\x01\x00\x00\x00") // compiled code would follow
	manifest := `{
		"name": "bait", "version": "1.0.0", "summary": "Words that bait victims",
		"entities": ["domain"], "facts": ["domain.name"],
		"signals": [{"code": "bait:word:login", "text": "The name contains a bait word."}],
		"threats": ["phishing"], "budget_fuel": 100000, "memory_mb": 4, "default_weight": 2
	}`
	plugin, err := registry.Pack(module, []byte(manifest), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	opened, err := registry.OpenModule(plugin)
	fmt.Println(opened.Ref(), err)
	// Output: bait@1.0.0 <nil>
}

// Operators compare a candidate with the lineup in force before they activate it.
func ExampleDiff() {
	from, _ := registry.ParseLineup([]byte(`{"bias": -6, "bands": {"review": 40, "block": 70},
		"layers": [{"layer": "bait@1.0.0", "weight": 2}]}`))
	to, _ := registry.ParseLineup([]byte(`{"bias": -6, "bands": {"review": 40, "block": 70},
		"layers": [{"layer": "bait@1.1.0", "weight": 3, "required": true}]}`))
	for _, change := range registry.Diff(from, to, nil) {
		fmt.Printf("%s: %s -> %s\n", change.What, change.From, change.To)
	}
	// Output:
	// bait: layer: bait@1.0.0 -> bait@1.1.0
	// bait: weight: 2 -> 3
	// bait: required: false -> true
}
