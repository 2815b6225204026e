package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"assay/host/keyring"
)

// errNoInstallation is the error of a command that needs an installation where there is none. Only serve creates one.
var errNoInstallation = errors.New("there is no installation")

// loadInstallation returns the keys of the installation that the settings name: a data directory with its master
// secret, which may be elsewhere. It creates nothing.
func (c *Config) loadInstallation() (*keyring.Ring, error) {
	switch info, err := os.Stat(c.DataDir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, c.noInstallation()
	case err != nil:
		return nil, fmt.Errorf("ASSAY_DATA_DIR: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("ASSAY_DATA_DIR: %s is not a folder", c.DataDir)
	}
	keys, err := keyring.Load(c.secretFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, c.noInstallation()
	}
	return keys, err
}

// noInstallation returns an errNoInstallation that names the settings.
func (c *Config) noInstallation() error {
	if c.SecretFile != "" {
		return fmt.Errorf("%w in %s (ASSAY_DATA_DIR) with the secret %s (ASSAY_SECRET_FILE): run `assay serve` with "+
			"these settings first, or name others", errNoInstallation, c.DataDir, c.SecretFile)
	}
	return fmt.Errorf("%w in %s (ASSAY_DATA_DIR): run `assay serve` there first, or name another folder",
		errNoInstallation, c.DataDir)
}

// createInstallation is like loadInstallation, but creates what is missing, as the first start of a host does.
func (c *Config) createInstallation() (*keyring.Ring, error) {
	if err := c.makeDataDir(); err != nil {
		return nil, err
	}
	return keyring.Create(c.secretFile())
}
