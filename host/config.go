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
	TrustedProxies []string `env:"ASSAY_TRUSTED_PROXIES" placeholder:"CIDR" help:"Networks of proxies whose X-Forwarded-For is believed."`
	WebhookAllow   []string `env:"ASSAY_WEBHOOK_ALLOW" placeholder:"CIDR" help:"Networks that webhooks may be sent to although they are not public, on any port and without TLS."`
	URL            string   `name:"public-url" env:"ASSAY_URL" placeholder:"URL" help:"This service's address as customers reach it, such as https://assay.example. Empty: as each request says."`
	StripeKey      string   `env:"ASSAY_STRIPE_KEY" placeholder:"KEY" help:"Stripe's secret API key. Empty: a built-in test checkout that takes no real cards."`
	StripeSecret   string   `name:"stripe-webhook-secret" env:"ASSAY_STRIPE_WEBHOOK_SECRET" placeholder:"SECRET" help:"Signing secret of the Stripe webhook that leads to /api/billing/stripe."`
	StripeURL      string   `name:"stripe-url" env:"ASSAY_STRIPE_URL" placeholder:"URL" help:"Another base of Stripe's API, for tests."`
	DNS            []string `env:"ASSAY_DNS" placeholder:"HOST:PORT" help:"Recursive DNS resolvers to ask, the first first. Empty: the system's. off: none."`
	RDAPURL        string   `name:"rdap-url" env:"ASSAY_RDAP_URL" placeholder:"URL" help:"RDAP server to ask about registrations, in the background. Empty: the registries' own. off: none."`
	MMDBASN        string   `name:"mmdb-asn" env:"ASSAY_MMDB_ASN" placeholder:"FILE" help:"MaxMind-format file of autonomous systems, such as GeoLite2-ASN.mmdb."`
	MMDBCountry    string   `name:"mmdb-country" env:"ASSAY_MMDB_COUNTRY" placeholder:"FILE" help:"MaxMind-format file of countries, such as GeoLite2-Country.mmdb."`
	DNSBL          []string `name:"dnsbl" env:"ASSAY_DNSBL" placeholder:"ZONE" help:"DNS blocklists to ask: zones that list addresses, or domain: and a zone that lists domains."`
}

// Validate says what is wrong with the settings. Kong calls it.
func (c *Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("ASSAY_LISTEN: %q is not of the form host:port", c.Listen)
	}
	if c.DatabaseURL != "" && !strings.HasPrefix(c.DatabaseURL, "postgres://") &&
		!strings.HasPrefix(c.DatabaseURL, "postgresql://") {
		return fmt.Errorf("ASSAY_DATABASE_URL: it must begin with postgres://")
	}
	if c.DataDir == "" {
		return fmt.Errorf("ASSAY_DATA_DIR: it must not be empty")
	}
	if err := c.validateLookups(); err != nil {
		return err
	}
	if err := c.validateSales(); err != nil {
		return err
	}
	if _, err := c.webhookAllow(); err != nil {
		return err
	}
	_, err := c.proxies()
	return err
}

func (c *Config) proxies() ([]netip.Prefix, error) {
	return networks("ASSAY_TRUSTED_PROXIES", c.TrustedProxies)
}

func (c *Config) webhookAllow() ([]netip.Prefix, error) {
	return networks("ASSAY_WEBHOOK_ALLOW", c.WebhookAllow)
}

// networks reads a setting that lists networks, or single addresses.
func networks(setting string, list []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range list {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is neither an address nor a network such as 10.0.0.0/8", setting, text)
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

// makeDataDir makes the data directory. Others may pass through it, since Postgres may run under a user of its own, but
// not look into it; what must be kept from them has modes of its own.
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
