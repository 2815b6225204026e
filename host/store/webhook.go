package store

import "assay/host/check"

// eventOf returns the name of a check's webhook event and its sealed body, or "" if the verdict triggers none.
func (s *Store) eventOf(d *check.Decision) (name string, payload []byte, err error) {
	name, body, err := d.Event()
	if err != nil || name == "" {
		return "", nil, err
	}
	return name, s.keys.Seal(body, eventContext(d.Ref)), nil
}

func eventContext(ref string) string          { return "event " + ref }
func endpointContext(accountID string) string { return "endpoint " + accountID }

// testPrefix begins the references of test events, which are also sent to disabled endpoints.
const testPrefix = "test_"
