package hosttest

import "assay/host/check"

// Labelled are values of every type. The layers classify most of them correctly.
const Labelled = `{"type":"domain","value":"paypa1-secure-login.xyz","label":1,"source":"feed","category":"phishing"}
{"type":"domain","value":"netflix-account-verify.top","label":1,"source":"list","category":"phishing","rank":7}
{"type":"domain","value":"google.com","label":0,"source":"popular","category":"brand"}
{"type":"domain","value":"kleine-werkstatt.de","label":0,"source":"longtail","category":"shop"}
{"type":"email","value":"support@paypa1-secure-login.xyz","label":1,"source":"feed"}
{"type":"email","value":"x7q2@mailinator.com","label":1,"source":"list"}
{"type":"email","value":"jane.doe@gmail.com","label":0,"source":"popular"}
{"type":"email","value":"info@kleine-werkstatt.de","label":0,"source":"longtail"}
{"type":"phone","value":"+12025550123","label":1,"source":"feed"}
{"type":"phone","value":"+1202555","label":1,"source":"list"}
{"type":"phone","value":"030 901820","label":0,"source":"popular","region":"DE"}
{"type":"phone","value":"+33612345678","label":0,"source":"longtail"}
{"type":"iban","value":"DE88370400440532013000","label":1,"source":"feed"}
{"type":"iban","value":"GB00WEST12345698765432","label":1,"source":"list"}
{"type":"iban","value":"DE89370400440532013000","label":0,"source":"popular"}
{"type":"iban","value":"FR1420041010050500013M02606","label":0,"source":"longtail"}
`

// EvalReport holds the fields of the output of `assay eval --json` that tests use.
type EvalReport struct {
	Rows   int `json:"rows"`
	Lineup struct {
		Revision int64 `json:"revision"`
	} `json:"lineup"`
	Type string   `json:"type"`
	N    int      `json:"n"`
	AUC  *float64 `json:"auc"`

	Types []struct {
		Type   string   `json:"type"`
		AUC    *float64 `json:"auc"`
		Layers []struct {
			Name string   `json:"name"`
			AUC  *float64 `json:"auc"`
			Lost map[string]int
		} `json:"layers"`
		Errors struct {
			Malicious []struct {
				Value  string          `json:"value"`
				Layers []check.Outcome `json:"layers"`
			} `json:"malicious_lowest"`
		} `json:"errors"`
	} `json:"types"`
}
