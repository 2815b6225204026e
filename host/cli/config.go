package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/web/admin"
)

type configCmd struct{ terminal.Output }

func (*configCmd) readsWrongSettings() {}

// settingInForce is the JSON output of `assay config` for a setting.
type settingInForce struct {
	Setting string `json:"setting"`
	Flag    string `json:"flag"`
	Value   string `json:"value"` // without secrets; "" if it is not set, and its default is not a fixed value
	Source  string `json:"source"`
	Error   string `json:"error,omitempty"`

	otherwise string // the meaning of an empty value
}

// Run prints the settings in force and their sources. It opens and creates nothing. It fails if a setting is invalid.
func (cmd *configCmd) Run(ctx *kong.Context, cfg *installation.Config, s *settings, t *terminal.Terminal) error {
	if err := s.warn(ctx, t); err != nil {
		return err
	}
	all, err := s.inForce(ctx, cfg)
	return errors.Join(terminal.List(t, all, []string{"SETTING", "VALUE", "FROM"}, func(v settingInForce) []string {
		value := v.Value
		if value == "" && v.otherwise != "" {
			value = "(" + v.otherwise + ")"
		}
		return []string{v.Setting, cmp.Or(value, "-"), v.Source}
	}), err)
}

// inForce returns the settings in force. Parsing the command line may have failed because of one of them, so it reads
// each again from its source. The error names all invalid ones.
func (s *settings) inForce(ctx *kong.Context, cfg *installation.Config) ([]settingInForce, error) {
	known := settingsOf(ctx.Model.Node)
	if file := cmp.Or(string(cfg.ConfigFile), os.Getenv("ASSAY_CONFIG")); file != "" && s.variables == nil {
		_ = s.read(file, known) // reported below
	}
	errs := []error{s.broken}
	all := make([]settingInForce, len(known))
	wrong := func(name string, err error) {
		i := slices.IndexFunc(all, func(v settingInForce) bool { return v.Setting == name })
		if i < 0 {
			errs = append(errs, err)
			return
		}
		_, all[i].Error, _ = strings.Cut(err.Error(), ": ")
		errs = append(errs, fmt.Errorf("%w (%s)", err, all[i].Source))
	}
	for i, f := range known {
		from, text := s.source(ctx, f)
		all[i] = settingInForce{Setting: f.Envs[0], Flag: "--" + f.Name, Source: from, otherwise: settingDefault(f)}
		if from == fromFlag || from == fromDefault && text == "" {
			continue // parsing the command line has set it
		}
		value, err := decode(f, text)
		if err != nil {
			all[i].Value = hide(f, text)
			wrong(f.Envs[0], err)
			value, _ = decode(f, f.Default) // without another error
		}
		f.Target.Set(value)
	}
	for _, err := range split(cfg.Validate()) {
		name, _, _ := strings.Cut(err.Error(), ":")
		wrong(name, err)
	}
	derived := derived(cfg)
	for i, f := range known {
		all[i].Value = cmp.Or(all[i].Value, hide(f, textOf(f.Target)), hide(f, derived[f.Envs[0]]))
	}
	return all, errors.Join(errs...)
}

// derived returns the defaults that depend on other settings.
func derived(c *installation.Config) map[string]string {
	return map[string]string{
		"ASSAY_ADMIN_LISTEN":        defaultAdminListen(c),
		"ASSAY_SECRET_FILE":         c.SecretPath(),
		"ASSAY_TRUST_FILE":          c.TrustPath(),
		"ASSAY_OPERATOR_KEY":        c.OperatorKeyPath(),
		"ASSAY_DATABASE_DIRECT_URL": c.DatabaseURL,
		"ASSAY_DNS":                 strings.Join(c.Resolvers(), ","),
	}
}

// defaultAdminListen returns the address for operators if none is set and its port is free.
func defaultAdminListen(c *installation.Config) string {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return ""
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr = netip.IPv4Unspecified() // a name, whose address is not looked up here
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return ""
	}
	customers := net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(number)))
	return admin.ByDefault(customers, number == 0).String()
}

// textOf returns a value as it is written in a setting.
func textOf(value reflect.Value) string {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return ""
		}
		value = value.Elem()
	}
	switch v := value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+"="+v[name])
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value.Interface())
}

// split returns the errors that were joined in an error.
func split(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}
