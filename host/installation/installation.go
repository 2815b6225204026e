// Package installation has what the hosts and commands of a data directory share: settings, secret, trust, the opened
// database and the built-in layers.
package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"assay/host/access/keyring"
)

// ErrNoInstallation is the error of a command that needs an installation. Only serve creates one.
var ErrNoInstallation = errors.New("there is no installation")

// LoadInstallation returns the keys of the installation that the settings name: a data directory with its master
// secret, which may be elsewhere. It creates nothing.
func (c *Config) LoadInstallation() (*keyring.Ring, error) {
	switch info, err := os.Stat(c.DataDir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, c.noInstallation()
	case err != nil:
		return nil, fmt.Errorf("ASSAY_DATA_DIR: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("ASSAY_DATA_DIR: %s is not a folder", c.DataDir)
	}
	keys, err := keyring.Load(c.SecretPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, c.noInstallation()
	}
	return keys, err
}

// noInstallation returns an ErrNoInstallation that names the settings.
func (c *Config) noInstallation() error {
	if c.SecretFile != "" {
		return fmt.Errorf("%w in %s (ASSAY_DATA_DIR) with the secret %s (ASSAY_SECRET_FILE): run `assay serve` with "+
			"these settings first, or name others", ErrNoInstallation, c.DataDir, c.SecretFile)
	}
	return fmt.Errorf("%w in %s (ASSAY_DATA_DIR): run `assay serve` there first, or name another folder",
		ErrNoInstallation, c.DataDir)
}

// NoPrivateDatabase returns the error of a command in an installation that has always used another database.
func (c *Config) NoPrivateDatabase() error {
	return fmt.Errorf("the installation in %s (ASSAY_DATA_DIR) has no private Postgres: set ASSAY_DATABASE_URL as for "+
		"its hosts", c.DataDir)
}

// HasInstallation reports whether there is an installation, for commands that can do without one. If the operator named
// one, it must exist.
func (c *Config) HasInstallation() (bool, error) {
	_, err := c.LoadInstallation()
	if errors.Is(err, ErrNoInstallation) && !c.Named {
		return false, nil
	}
	return err == nil, err
}

// CreateInstallation is like LoadInstallation, but creates missing parts, for the first start of a host.
func (c *Config) CreateInstallation() (*keyring.Ring, error) {
	if err := c.MakeDataDir(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.SecretPath()); errors.Is(err, fs.ErrNotExist) {
		c.fresh = true
	}
	return keyring.Create(c.SecretPath())
}

// withoutSecret returns the error of a host that lacks its database's secret, and removes the one that was made in its
// place, so that the next start does not take it for the right one.
func (c *Config) withoutSecret() error {
	return errors.Join(fmt.Errorf("the database belongs to an installation whose secret was not at %s: copy the file "+
		"from another host or a backup, or set ASSAY_SECRET_FILE. If there is no copy, the audit log and all that was "+
		"signed can still be verified with the public key, but nothing can be encrypted, signed or found by its value "+
		"again: start over with an empty database (ASSAY_DATABASE_URL)", c.SecretPath()), os.Remove(c.SecretPath()))
}
