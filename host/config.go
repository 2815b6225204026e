package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Config is the operator's reference: every setting that all commands share, as a flag and as a variable.
type Config struct {
	Listen         string   `env:"ASSAY_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to serve HTTP on. TLS is the work of the proxy in front."`
	DatabaseURL    string   `env:"ASSAY_DATABASE_URL" placeholder:"URL" help:"Postgres to use, as postgres://user:password@host:port/name. Empty: a private one in the data directory."`
	DataDir        string   `env:"ASSAY_DATA_DIR" default:".assay" placeholder:"DIR" help:"Where the host keeps its files: secret, logs, built layers, checkpoints, the private Postgres."`
	SecretFile     string   `env:"ASSAY_SECRET_FILE" placeholder:"FILE" help:"The master secret, made at the first start. Every host of one database needs the same. Empty: secret in the data directory."`
	TrustedProxies []string `env:"ASSAY_TRUSTED_PROXIES" placeholder:"CIDR,..." help:"Networks of proxies whose X-Forwarded-For is believed."`
}

// Validate says what is wrong with the settings. Kong calls it.
func (c *Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("ASSAY_LISTEN: %q is not of the form host:port", c.Listen)
	}
	if c.DatabaseURL != "" && !strings.HasPrefix(c.DatabaseURL, "postgres://") && !strings.HasPrefix(c.DatabaseURL, "postgresql://") {
		return fmt.Errorf("ASSAY_DATABASE_URL: it must begin with postgres://")
	}
	if c.DataDir == "" {
		return fmt.Errorf("ASSAY_DATA_DIR: it must not be empty")
	}
	_, err := c.proxies()
	return err
}

// proxies reads TrustedProxies: networks, or single addresses.
func (c *Config) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range c.TrustedProxies {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_TRUSTED_PROXIES: %q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

func (c *Config) secretFile() string {
	if c.SecretFile != "" {
		return c.SecretFile
	}
	return c.path("secret")
}

// makeDataDir makes the data directory. Others may pass through it, since Postgres may run under a user of its own, but not
// look into it; what must be kept from them has modes of its own.
func (c *Config) makeDataDir() error {
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	return nil
}

// path is the place of a file in the data directory.
func (c *Config) path(elements ...string) string {
	return filepath.Join(append([]string{c.DataDir}, elements...)...)
}
