//go:build !linux

package linear

func ways() map[string]way { return map[string]way{"copy": {copyUpTo: copyUpTo}} }
