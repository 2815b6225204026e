package check

import (
	"fmt"
	"strings"
)

// hostText begins the text of every signal of the host, so that readers can tell it from the layers'. No layer's text
// may begin with it (sdk.HostText).
const hostText = "Assay: "

// unansweredSignals reports third parties that did not respond or gave false answers. Missing facts do not change the
// score.
func unansweredSignals(sources []string) []Signal {
	var signals []Signal
	for _, source := range sources {
		if name, ok := strings.CutPrefix(source, UntrustedSource); ok {
			signals = append(signals, Signal{
				Code: "host:" + source,
				Text: hostText + fmt.Sprintf("Scored without %s: the DNS server gives false answers", sourceName(name)),
			})
			continue
		}
		signals = append(signals, Signal{
			Code: "host:unknown:" + source,
			Text: hostText + fmt.Sprintf("Scored without %s: no answer in time", sourceName(source)),
		})
	}
	return signals
}

// sourceName returns the readable name of a source of facts.
func sourceName(source string) string {
	switch source {
	case "dns":
		return "DNS"
	case "rdap":
		return "the domain's registration"
	case "net":
		return "network data"
	}
	return source
}
