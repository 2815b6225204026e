package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"assay/host/installation"
	"assay/host/internal/envfile"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
	"assay/registry/fault"
	"assay/registry/suggest"
)

// The sources of a setting's value. A fourth is a file, with its name and line.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromDefault     = "default"
)

// BeforeResolve reads the configuration file, if a flag or the environment names one. Kong calls it.
func (*cli) BeforeResolve(ctx *kong.Context, s *settings) error {
	i := slices.IndexFunc(ctx.Model.Flags, isConfigFile)
	name, _ := ctx.FlagValue(ctx.Model.Flags[i]).(installation.ConfigFile)
	if name == "" {
		return nil
	}
	err := s.read(string(name), settingsOf(ctx.Model.Node))
	ctx.AddResolver(s)
	return err
}

// isConfigFile reports whether a flag names the file of the other settings. Flags and the environment take precedence.
func isConfigFile(f *kong.Flag) bool {
	return f.Target.Type() == reflect.TypeFor[installation.ConfigFile]()
}

// settings are the settings in a configuration file.
type settings struct {
	file      string
	public    bool // every user of the machine can read the file
	variables map[string]envfile.Variable
	broken    error // the error of invalid lines, or of the file itself
}

// read reads a file. Variables that are not settings, and values that a setting cannot have, are errors.
func (s *settings) read(file string, known []*kong.Flag) error {
	s.file, s.variables = file, map[string]envfile.Variable{}
	text, public, err := private.ReadAny(file)
	if err != nil {
		s.broken = fmt.Errorf("reading the configuration file: %w", err)
		return s.broken
	}
	s.public = public
	variables, err := envfile.Parse(file, string(text))
	broken, wrong := []error{err}, []error(nil)
	for _, v := range variables {
		i := slices.IndexFunc(known, func(f *kong.Flag) bool { return f.Envs[0] == v.Name })
		switch {
		case i < 0:
			broken = append(broken, fmt.Errorf("%s:%d: %s is not a setting%s", file, v.Line, v.Name,
				suggestion(v.Name, known)))
		case isConfigFile(known[i]):
			broken = append(broken, fmt.Errorf("%s:%d: %s cannot be set in a file that it names", file, v.Line, v.Name))
		default:
			s.variables[v.Name] = v
			if _, err := decode(known[i], v.Value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s:%d: %w", file, v.Line, err))
			}
		}
	}
	s.broken = errors.Join(broken...)
	return errors.Join(s.broken, errors.Join(wrong...))
}

// Validate implements kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a setting in the file, unless it is in the environment. Kong does not ask for flags that
// are on the command line.
func (s *settings) Resolve(_ *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
	if len(f.Envs) == 0 {
		return nil, nil
	}
	_, set := os.LookupEnv(f.Envs[0])
	if v, ok := s.variables[f.Envs[0]]; ok && !set {
		return v.Value, nil
	}
	return nil, nil
}

// source returns the source of a setting and, unless it is a flag, its text there.
func (s *settings) source(ctx *kong.Context, f *kong.Flag) (from, text string) {
	if slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved }) {
		return fromFlag, ""
	}
	if text, ok := os.LookupEnv(f.Envs[0]); ok {
		return fromEnvironment, text
	}
	if v, ok := s.variables[f.Envs[0]]; ok {
		return fmt.Sprintf("%s:%d", s.file, v.Line), v.Value
	}
	return fromDefault, f.Default
}

// locate adds the line to an error about a setting from the file.
func (s *settings) locate(ctx *kong.Context, err error) error {
	name, _, _ := strings.Cut(err.Error(), ":")
	for _, f := range settingsOf(ctx.Model.Node) {
		if from, _ := s.source(ctx, f); f.Envs[0] == name && strings.HasPrefix(from, s.file+":") {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return err
}

// warnings returns a sentence for each environment variable that looks like a setting but isn't one, and for secrets
// that every user can read.
func (s *settings) warnings(known []*kong.Flag, environ []string) (warnings []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		isSetting := slices.ContainsFunc(known, func(f *kong.Flag) bool { return f.Envs[0] == name })
		if strings.HasPrefix(name, "ASSAY_") && !isSetting && !fromElsewhere(name, value) {
			warnings = append(warnings, fmt.Sprintf("the environment sets %s, which is not a setting%s", name,
				suggestion(name, known)))
		}
	}
	for _, f := range known {
		if v, ok := s.variables[f.Envs[0]]; ok && s.public && hide(f, v.Value) != v.Value {
			return append(warnings, fmt.Sprintf("%s contains secrets, and every user of this machine can read it: "+
				"chmod o= %s", s.file, s.file))
		}
	}
	return warnings
}

// fromElsewhere reports whether a variable is one that Kubernetes makes for a service named assay, or one of tests.
func fromElsewhere(name, value string) bool {
	return strings.HasPrefix(name, "ASSAY_SERVICE_") || strings.HasPrefix(name, "ASSAY_PORT_") ||
		name == "ASSAY_PORT" && strings.Contains(value, "://") || strings.HasPrefix(name, "ASSAY_TEST_")
}

// warn prints the warnings.
func (s *settings) warn(ctx *kong.Context, t *terminal.Terminal) error {
	for _, warning := range s.warnings(settingsOf(ctx.Model.Node), os.Environ()) {
		if _, err := fmt.Fprintln(t.Err, "warning:", warning); err != nil {
			return err
		}
	}
	return nil
}

// settingsOf returns the settings: the program's flags that are also variables.
func settingsOf(app *kong.Node) (all []*kong.Flag) {
	for _, f := range app.Flags {
		if len(f.Envs) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// decode parses the text of a setting.
func decode(f *kong.Flag, text string) (reflect.Value, error) {
	value := reflect.New(f.Target.Type()).Elem()
	if value.Kind() == reflect.Pointer {
		value.Set(reflect.New(value.Type().Elem()))
	}
	scan := kong.Scan().PushTyped(text, kong.FlagValueToken)
	err := f.Mapper.Decode(&kong.DecodeContext{Value: f.Value, Scan: scan}, value)
	return value, fault.Wrap(err, "%s", f.Envs[0])
}

// These match secret parts of values, with the name before a password as $1. They match more rather than less.
var (
	accessKey         = regexp.MustCompile(`(?i)[a-z0-9]{20,}`) // a label of a zone that is a subscriber's key
	userPassword      = regexp.MustCompile(`(?s)(://[^:]*):.*@`)
	passwordParameter = regexp.MustCompile(`(?i)([?&][^=&]*pass[^=&]*=)[^&]*`)
	beginsURL         = regexp.MustCompile(`^(\w+://|off$)`)
)

// hide returns the value of a setting without its secret part: all of it, a key in it, or a URL's password.
func hide(f *kong.Flag, value string) string {
	switch {
	case value == "" || f.Target.Kind() == reflect.Map: // of links, which are public
		return value
	case f.Tag.Get("secret") == "label":
		return accessKey.ReplaceAllString(value, "***")
	case f.Tag.Has("secret") || f.PlaceHolder == "URL" && !beginsURL.MatchString(value): // it may be anywhere
		return "set"
	default:
		return hidePassword(value)
	}
}

// hidePassword hides the password in a URL.
func hidePassword(value string) string {
	return passwordParameter.ReplaceAllString(userPassword.ReplaceAllString(value, "$1:***@"), "$1***")
}

// suggestion names the setting that was probably meant, or where to find it.
func suggestion(name string, known []*kong.Flag) string {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.Envs[0]
	}
	return cmp.Or(suggest.Word(name, names), ": 'assay help settings' lists them")
}
