package check

import (
	"encoding/json"
	"fmt"
	"strings"
)

// event is the body of a webhook event (contract section 2.3). Signals are codes, and the verdict is in upper case.
type event struct {
	Event     string    `json:"event"`
	Timestamp string    `json:"timestamp"`
	Data      eventData `json:"data"`
}

type eventData struct {
	Query   string   `json:"query"`
	Type    string   `json:"type"`
	Verdict string   `json:"verdict"`
	Score   int      `json:"score"`
	Signals []string `json:"signals"`
	Ref     string   `json:"ref"`
}

// Event returns the name and the JSON body of the decision's webhook event. An allow verdict has no event, so its name
// is empty (contract section 6).
func (d *Decision) Event() (name string, body []byte, err error) {
	switch d.Verdict {
	case Block:
		name = "check.blocked"
	case Review:
		name = "check.review"
	default:
		return "", nil, nil
	}
	codes := make([]string, len(d.Signals))
	for i, s := range d.Signals {
		codes[i] = s.Code
	}
	body, err = json.Marshal(event{
		Event: name, Timestamp: d.At.Format(TimeFormat), Data: eventData{
			Query: d.Query, Type: string(d.Type), Verdict: strings.ToUpper(string(d.Verdict)), Score: d.Score,
			Signals: codes, Ref: d.Ref,
		},
	})
	if err != nil {
		return "", nil, fmt.Errorf("writing event: %w", err)
	}
	return name, body, nil
}
