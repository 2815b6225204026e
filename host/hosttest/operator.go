package hosttest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"assay/host/web/operator"
	"assay/registry/expect"
)

// OperatorToken opens the operator's page of a test's host.
const OperatorToken = "0123456789abcdef"

// ShownState is the state that a host shows an operator.
type ShownState struct {
	Health operator.Health
	operator.State
}

// AskOperator returns the operator's page of a host, as JSON or HTML.
func AskOperator(t *testing.T, h *HostProcess, accept string) string {
	t.Helper()
	status, text := request(t, OperatorToken, http.MethodGet, h.Admin+operator.Path, "", "Accept", accept)
	expect.Must(t, status == http.StatusOK, "the operator's page got %d:\n%s", status, text)
	return text
}

// State returns the state that the host shows an operator.
func (h *HostProcess) State(t *testing.T) (s ShownState) {
	t.Helper()
	expect.NoError(t, json.Unmarshal([]byte(AskOperator(t, h, "application/json")), &s))
	return s
}

// Warns reports whether a state has a warning with a text.
func Warns(warnings []operator.Warning, text string) bool {
	return slices.ContainsFunc(warnings, func(w operator.Warning) bool { return strings.Contains(w.What, text) })
}
