package installation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"assay/host/access/keyring"
	"assay/host/check"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/registry"
	"assay/registry/activation"
)

// Names of keys in trust files.
const (
	HostKeyName     = "assay/host"
	OperatorKeyName = "assay/operator"
)

// Authority holds the keys that a host trusts to change its lineup, and its own.
type Authority struct {
	lineup.Verifier
	host     activation.Key  // of the current generation of the secret
	Operator *activation.Key // nil if this host cannot read it
	file     string          // the trust file
	text     string          // written to the trust file once a lineup is in force; "" if the file exists
}

// OpenAuthority reads the trust file and, if it exists, the operator's key. memory is that of the data directory's
// host.
//
// If neither a trust file nor a signed activation exists and create is set, it makes an operator's key. save writes the
// trust file after the first activation, so that an interrupted first start begins again.
func (b *Backend) OpenAuthority(ctx context.Context, cfg *Config, memory *lineup.Memory, create bool) (
	*Authority, error) {
	a := &Authority{file: cfg.TrustPath(), Verifier: lineup.Verifier{Records: b.Store, Memory: memory}}
	var err error
	if a.host, err = b.HostKey(); err != nil {
		return nil, err
	}
	if a.Operator, err = ReadKey(cfg.OperatorKeyPath()); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(a.file)
	if err == nil {
		a.Trust, err = activation.ParseTrust(string(text))
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if !create && a.Operator == nil {
		return a, nil // nothing is trusted
	}
	return a, a.begin(ctx, cfg)
}

// HostKey returns the key with which hosts sign activations now.
func (b *Backend) HostKey() (activation.Key, error) {
	return activation.NewKey(HostKeyName, b.Keys.Current().Activation)
}

// begin prepares a trust file.
func (a *Authority) begin(ctx context.Context, cfg *Config) error {
	signed, _, err := a.Records.LastActivation(ctx)
	if err != nil {
		return err
	}
	if a.Operator == nil {
		if signed != "" {
			return a.noTrustFile()
		}
		if a.Operator, err = CreateKey(cfg.OperatorKeyPath(), OperatorKeyName); err != nil {
			return err
		}
	}
	a.text = fmt.Sprintf("# Keys that may sign activations of lineups. See docs/operations.md.\noperator %s\nhost %s\n",
		a.Operator.Verifier, a.host.Verifier)
	if a.Trust, err = activation.ParseTrust(a.text); err != nil {
		return err
	}
	if signed == "" {
		return nil
	}
	if _, err := a.Trust.Open(signed); err != nil { // not signed by an interrupted first start
		return a.noTrustFile()
	}
	return nil
}

func (a *Authority) noTrustFile() error {
	return fmt.Errorf("the lineup in force is signed, but the trust file %s does not exist: copy it from a host that "+
		"runs", a.file)
}

// save writes the trust file of a first start.
func (a *Authority) save() error {
	if a.text == "" {
		return nil
	}
	if err := keyring.CreateFile(a.file, []byte(a.text)); err != nil {
		return fmt.Errorf("storing the trust file: %w", err)
	}
	a.text = ""
	return nil
}

// ReadTrust returns what the trust file names, for commands that need no database.
func (c *Config) ReadTrust() (activation.Trust, error) {
	text, err := os.ReadFile(c.TrustPath())
	if errors.Is(err, fs.ErrNotExist) {
		return activation.Trust{}, fmt.Errorf("the trust file %s does not exist, which names who may sign plugins: "+
			"copy it from a host and set ASSAY_TRUST_FILE, or start a host here, which makes one", c.TrustPath())
	}
	if err != nil {
		return activation.Trust{}, err
	}
	return activation.ParseTrust(string(text))
}

// ReadKey returns nil if the file does not exist.
func ReadKey(file string) (*activation.Key, error) {
	text, err := private.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	key, err := activation.ParseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("reading the key from %s: %w", file, err)
	}
	return &key, nil
}

// CreateKey creates a key file, unless another host was faster, and returns its key.
func CreateKey(file, name string) (*activation.Key, error) {
	seed := make([]byte, 32)
	rand.Read(seed)
	key, err := activation.NewKey(name, seed)
	if err == nil {
		err = keyring.CreateFile(file, []byte(key.Private+"\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("creating the key: %w", err)
	}
	return ReadKey(file)
}

// operator returns an operator that signs with the operator's key, for an installation's hosts.
func (b *Backend) operator(a *Authority) *change.Operator {
	return &change.Operator{Verifier: &a.Verifier, Storage: b.Store, Key: a.Operator, Author: author()}
}

// Operator returns an operator that changes the lineup, next to the host of this data directory.
func (b *Backend) Operator(ctx context.Context, cfg *Config, t *terminal.Terminal) (*change.Operator, error) {
	a, err := b.Authority(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o := b.operator(a)
	o.LayerTime = CheckTimeout - lookupTimeout
	o.Try = func(ctx context.Context, l registry.LineupDocument, inForce []registry.LineupLayer) (
		[]registry.Manifest, error,
	) {
		return lineup.Try(ctx, b.Store, b.OpenSandbox(cfg, QuietLog(t)), l, inForce)
	}
	o.BuiltIn = sync.OnceValues(func() ([]registry.Module, error) { return BuiltInLayers(ctx, cfg, t) })
	o.Open = func(ctx context.Context, all ...registry.LineupDocument) ([]*check.Lineup, func(), error) {
		return lineup.OpenPinned(ctx, b.Store, b.OpenSandbox(cfg, QuietLog(t)), all...)
	}
	return o, nil
}

// author returns the user of this command, such as "ana@laptop".
func author() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	machine, _ := os.Hostname()
	return Printable(name + "@" + cmp.Or(machine, "unknown"))
}

// Printable returns a text as the author of an activation: one line without control characters.
func Printable(text string) string {
	clean := []rune(strings.Map(func(r rune) rune {
		if r != ' ' && (unicode.IsSpace(r) || !unicode.IsPrint(r)) {
			return -1
		}
		return r
	}, text))
	return strings.TrimSpace(string(clean[:min(len(clean), 100)]))
}

// TrustPath is the file that names the keys whose signatures this host trusts.
func (c *Config) TrustPath() string {
	return cmp.Or(c.TrustFile, filepath.Join(filepath.Dir(c.SecretPath()), "trust"))
}

// OperatorKeyPath is the file of the key with which operators sign. It need not exist.
func (c *Config) OperatorKeyPath() string {
	return cmp.Or(c.OperatorKey, filepath.Join(filepath.Dir(c.SecretPath()), "operator.key"))
}

// MemoryPath is where a host remembers the activation that it ran.
func (c *Config) MemoryPath() string { return c.Path("activation") }

// Verifying returns the authority of this data directory's host, to verify what is signed. It changes nothing.
func (b *Backend) Verifying(ctx context.Context, cfg *Config) (*Authority, error) {
	memory, err := lineup.RecallMemory(cfg.MemoryPath())
	if err != nil {
		return nil, err
	}
	return b.OpenAuthority(ctx, cfg, memory, false)
}
