package starter

// The signals of the layer. In a project, `assay plugin` writes this file from manifest.json.
const (
	signalNameDigits = "my-layer:name:digits"
	signalAgeNew     = "my-layer:age:new"
)
