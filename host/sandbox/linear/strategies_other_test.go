//go:build !linux

package linear

func strategies() map[string]strategy {
	return map[string]strategy{"copy": {maxCopied: defaultMaxCopied}}
}
