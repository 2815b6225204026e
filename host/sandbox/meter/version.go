package meter

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
)

//go:embed bulk.go declarations.go definitions.go doc.go emitter.go function.go instructions.go limits.go module.go
//go:embed parser.go planner.go reader.go
var sources embed.FS

// Version returns a digest of this package's sources. Compiled code is cached under it and the digest of the original
// module, so that a change to this package makes cached code out of date automatically.
func Version() string {
	files, _ := sources.ReadDir(".")
	h := sha256.New()
	for _, file := range files {
		text, _ := sources.ReadFile(file.Name())
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))
}
