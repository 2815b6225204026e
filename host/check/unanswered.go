package check

import (
	"cmp"
	"fmt"
	"strings"
)

// hostText begins the text of every signal of the host, so that readers can tell it from the layers'. No layer's text
// may begin with it (sdk.HostText).
const hostText = "Assay: "

// UnansweredSignals reports third parties that did not respond or gave false answers, as [Collector] names them.
// Missing facts do not change the score.
func UnansweredSignals(sources []string) (signals []Signal) {
	for _, source := range sources {
		if name, ok := strings.CutPrefix(source, UntrustedSource); ok {
			signals = append(signals, Signal{
				Code: "host:" + source,
				Text: hostText + fmt.Sprintf("Scored without %s: the DNS server gives false answers", SourceName(name)),
			})
			continue
		}
		signals = append(signals, Signal{
			Code: "host:unknown:" + source,
			Text: hostText + fmt.Sprintf("Scored without %s: no answer in time", SourceName(source)),
		})
	}
	return signals
}

// sourceNames are the readable names of sources of facts, by the first part of the facts' names.
var sourceNames = map[string]string{
	"dns": "DNS", "rdap": "the domain's registration", "net": "network data",
	"similar": "similarity to reported names", "graph": "the reputation graph",
	"history": "your account's own checks", "feed": "imported lists",
}

// SourceName returns the readable name of a source of facts.
func SourceName(source string) string { return cmp.Or(sourceNames[source], source) }
