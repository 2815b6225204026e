package hosttest

import (
	"encoding/json"
	"io"
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
	request := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, h.Admin+operator.Path, nil))(t)
	request.Header.Set("Authorization", "Bearer "+OperatorToken)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	expect.NoError(t, err)
	defer response.Body.Close()
	text := expect.Value(io.ReadAll(response.Body))(t)
	expect.Must(t, response.StatusCode == http.StatusOK, "the operator's page got %d:\n%s", response.StatusCode, text)
	return string(text)
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
