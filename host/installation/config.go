package installation

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/audit/witness"
	"assay/host/auditlog"
	"assay/host/facts/network"
	"assay/host/facts/resolver"
	"assay/host/store"
	"assay/host/web/admin"
	"assay/host/web/mail"
	"assay/host/web/operator"
	"assay/registry/fault"
)

// Percent is a share that is written as a percentage, such as 1% or 0.5%.
type Percent float64

// UnmarshalText reads a percentage from 0% to 100%.
func (p *Percent) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	share, err := strconv.ParseFloat(number, 64)
	if !found || err != nil || !(share >= 0 && share <= 100) {
		return fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
	}
	*p = Percent(share / 100)
	return nil
}

func (p Percent) String() string { return strconv.FormatFloat(100*float64(p), 'g', 4, 64) + "%" }

// Config holds the settings that all commands share, each as a flag and as an environment variable. The help texts are
// in host/cli/help_texts.go: the first sentence of each is its line in lists of settings. A group is the topic of a
// setting and of those after it. Secrets are not shown; with "label", only the keys in a setting are hidden.
// Errors do not quote settings that may hold a secret, such as a password in a URL.
type Config struct {
	Listen         string   `group:"serving" env:"ASSAY_LISTEN" default:"127.0.0.1:8080" help:"${listen}"`
	URL            string   `name:"public-url" env:"ASSAY_URL" placeholder:"URL" help:"${public_url}"`
	TrustedProxies []string `env:"ASSAY_TRUSTED_PROXIES" placeholder:"CIDR" help:"${trusted_proxies}"`
	WebhookAllow   []string `env:"ASSAY_WEBHOOK_ALLOW" placeholder:"CIDR" help:"${webhook_allow}"`

	Rates           []string `env:"ASSAY_RATES" placeholder:"NAME=N" help:"${rates}"`
	SecurityContact []string `env:"ASSAY_SECURITY_CONTACT" placeholder:"URI" help:"${security_contact}"`

	Witness []string `env:"ASSAY_WITNESS" placeholder:"URL KEY" help:"${witness_setting}"`

	SMTPURL string `name:"smtp-url" env:"ASSAY_SMTP_URL" placeholder:"URL" help:"${smtp_url}"`
	TLSCert string `name:"tls-cert" env:"ASSAY_TLS_CERT" placeholder:"FILE" help:"${tls_cert}"`
	TLSKey  string `name:"tls-key" env:"ASSAY_TLS_KEY" placeholder:"FILE" help:"${tls_key}"`

	Drain      *time.Duration `env:"ASSAY_DRAIN" placeholder:"TIME" help:"${drain}"`
	ConfigFile ConfigFile     `name:"config" env:"ASSAY_CONFIG" placeholder:"FILE" help:"${config}"`

	AdminListen   string `group:"admin" env:"ASSAY_ADMIN_LISTEN" placeholder:"HOST:PORT" help:"${admin_listen}"`
	OperatorToken string `env:"ASSAY_OPERATOR_TOKEN" secret:"" help:"${operator_token}"`

	DataDir    string `group:"files" env:"ASSAY_DATA_DIR" default:".assay" placeholder:"DIR" help:"${data_dir}"`
	SecretFile string `env:"ASSAY_SECRET_FILE" placeholder:"FILE" help:"${secret_file}"`

	CheckpointKey     string `env:"ASSAY_CHECKPOINT_KEY" placeholder:"FILE" help:"${checkpoint_key}"`
	CheckpointCommand string `env:"ASSAY_CHECKPOINT_COMMAND" placeholder:"COMMAND" help:"${checkpoint_command}"`

	DatabaseURL         string `group:"database" env:"ASSAY_DATABASE_URL" placeholder:"URL" help:"${database_url}"`
	DatabaseDirectURL   string `env:"ASSAY_DATABASE_DIRECT_URL" placeholder:"URL" help:"${direct_url}"`
	DatabaseConnections int    `env:"ASSAY_DATABASE_CONNECTIONS" default:"12" help:"${connections}"`
	Chains              int    `env:"ASSAY_CHAINS" default:"1" help:"${chains}"`

	TrustFile   string  `group:"lineup" env:"ASSAY_TRUST_FILE" placeholder:"FILE" help:"${trust_file}"`
	OperatorKey string  `env:"ASSAY_OPERATOR_KEY" placeholder:"FILE" help:"${operator_key}"`
	FlipLimit   Percent `env:"ASSAY_FLIP_LIMIT" default:"1%" placeholder:"SHARE" help:"${flip_limit}"`

	DNS         []string `group:"lookups" env:"ASSAY_DNS" placeholder:"HOST:PORT" help:"${dns}"`
	RDAPURL     string   `name:"rdap-url" env:"ASSAY_RDAP_URL" placeholder:"URL" help:"${rdap_url}"`
	DNSBL       []string `name:"dnsbl" env:"ASSAY_DNSBL" placeholder:"ZONE" secret:"label" help:"${dnsbl}"`
	MMDBASN     string   `name:"mmdb-asn" env:"ASSAY_MMDB_ASN" placeholder:"FILE" help:"${mmdb_asn}"`
	MMDBCountry string   `name:"mmdb-country" env:"ASSAY_MMDB_COUNTRY" placeholder:"FILE" help:"${mmdb_country}"`

	StripeKey           string            `group:"billing" env:"ASSAY_STRIPE_KEY" secret:"" help:"${stripe_key}"`
	StripeWebhookSecret string            `env:"ASSAY_STRIPE_WEBHOOK_SECRET" secret:"" help:"${stripe_webhook_secret}"`
	StripeURL           string            `name:"stripe-url" env:"ASSAY_STRIPE_URL" hidden:"" help:"${stripe_url}"`
	StripeTax           bool              `env:"ASSAY_STRIPE_TAX" help:"${stripe_tax}"`
	TestCheckout        *bool             `env:"ASSAY_TEST_CHECKOUT" help:"${test_checkout}"`
	Links               map[string]string `env:"ASSAY_LINKS" mapsep:"," placeholder:"NAME=URL" help:"${links}"`

	Now   func() time.Time `kong:"-"` // of the store; nil: time.Now. Tests let it jump.
	Wait  time.Duration    `kong:"-"` // of a starting host, for a database that is down
	Named bool             `kong:"-"` // a setting names the installation
	fresh bool             // CreateInstallation made the secret
}

// Off disables a source of facts that is enabled by default.
const Off = "off"

// Validate checks all settings. Each error begins with the name of a setting. Kong calls it.
func (c *Config) Validate() error {
	return errors.Join(c.validateServing(), c.validateDatabase(), c.ValidateBilling(), c.validateLookups(),
		c.validateMail())
}

// problems are the errors of settings.
type problems []error

// add adds an error if a setting is bad.
func (p *problems) add(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (c *Config) validateServing() error {
	var p problems
	_, port, err := net.SplitHostPort(c.Listen)
	_, unknown := net.LookupPort("tcp", port)
	p.add(err != nil || unknown != nil, "ASSAY_LISTEN: %q is not of the form host:port", c.Listen)
	err = admin.Validate(c.AdminListen)
	p.add(err != nil, "ASSAY_ADMIN_LISTEN: %w", err)
	err = operator.CheckToken(c.OperatorToken)
	p.add(err != nil, "ASSAY_OPERATOR_TOKEN: %w", err)
	p.add(c.TLSCert != "" && c.TLSKey == "", "ASSAY_TLS_KEY: it is empty, but ASSAY_TLS_CERT is set")
	p.add(c.TLSCert == "" && c.TLSKey != "", "ASSAY_TLS_CERT: it is empty, but ASSAY_TLS_KEY is set")
	p.add(c.DataDir == "", "ASSAY_DATA_DIR: it must not be empty")
	u, err := url.Parse(c.URL)
	p.add(c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" ||
		!strings.EqualFold(strings.TrimSuffix(c.URL, "/"), u.Scheme+"://"+u.Host)),
		"ASSAY_URL: it is not of the form https://host")
	_, proxies := c.Proxies()
	_, networks := c.WebhookNetworks()
	_, rates := c.RateLimits()
	_, witnesses := c.Witnesses()
	return errors.Join(append(p, proxies, networks, rates, witnesses, c.ValidateDrain(), c.validateContact())...)
}

// validateContact checks that the contacts are URIs, as security.txt must name them.
func (c *Config) validateContact() error {
	var p problems
	for _, text := range c.SecurityContact {
		u, err := url.Parse(text)
		p.add(err != nil || strings.ContainsAny(text, " \t\r\n") ||
			(u.Scheme != "mailto" || !strings.Contains(u.Opaque, "@")) && (u.Scheme != "https" || u.Host == ""),
			"ASSAY_SECURITY_CONTACT: %q is neither of the form mailto:name@host nor https://host/path", text)
	}
	return errors.Join(p...)
}

func (c *Config) validateDatabase() error {
	var p problems
	for setting, url := range map[string]string{"ASSAY_DATABASE_URL": c.DatabaseURL,
		"ASSAY_DATABASE_DIRECT_URL": c.DatabaseDirectURL} {
		scheme := strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
		p.add(url != "" && !scheme, "%s: it must begin with postgres://", setting)
		if err := store.CheckURL(url); scheme && err != nil {
			p = append(p, fmt.Errorf("%s: %w", setting, err))
		}
	}
	p.add(c.DatabaseDirectURL != "" && c.DatabaseURL == "",
		"ASSAY_DATABASE_DIRECT_URL: it is set, but ASSAY_DATABASE_URL is empty")
	p.add(c.DatabaseConnections < store.MinConnections, "ASSAY_DATABASE_CONNECTIONS: a host needs at least %d",
		store.MinConnections)
	p.add(c.Chains < 1 || c.Chains > store.MaxChains, "ASSAY_CHAINS: it must be from 1 to %d", store.MaxChains)
	return errors.Join(p...)
}

// LinkNames are the names of the documents in Config.Links.
var LinkNames = []string{"terms", "dpa", "imprint", "support", "status"}

// ValidateBilling checks the settings of payments.
func (c *Config) ValidateBilling() error {
	var p problems
	for name, link := range c.Links {
		u, err := url.Parse(link)
		page := err == nil && u.Scheme == "https" && u.Host != ""
		address := err == nil && name == "support" && u.Scheme == "mailto" && u.Opaque != ""
		p.add(!slices.Contains(LinkNames, name) || !page && !address || strings.ContainsAny(link, " ()"),
			"ASSAY_LINKS: %s=%s is not one of %s=https://host/path, or support=mailto:address", name, link,
			strings.Join(LinkNames, ", "))
	}
	p.add(c.StripeKey == "" && (c.StripeWebhookSecret != "" || c.StripeURL != "" || c.StripeTax), "ASSAY_STRIPE_KEY: "+
		"it is empty, but ASSAY_STRIPE_WEBHOOK_SECRET, ASSAY_STRIPE_URL or ASSAY_STRIPE_TAX is set")
	p.add(c.StripeKey != "" && c.StripeWebhookSecret == "",
		"ASSAY_STRIPE_WEBHOOK_SECRET: it is required with ASSAY_STRIPE_KEY to verify Stripe's events")
	p.add(c.StripeKey != "" && c.TestCheckout != nil && *c.TestCheckout,
		"ASSAY_TEST_CHECKOUT: it cannot be set together with ASSAY_STRIPE_KEY")
	return errors.Join(p...)
}

func (c *Config) validateMail() error {
	if c.SMTPURL == "" {
		return nil
	}
	var p problems
	_, err := mail.New(c.SMTPURL)
	p.add(err != nil, "ASSAY_SMTP_URL: %w", err)
	p.add(c.URL == "", "ASSAY_URL: it is required with ASSAY_SMTP_URL, because links in messages begin with it")
	return errors.Join(p...)
}

// TestMode reports whether plans are sold for test cards. With the operator's own database, this must be requested.
func (c *Config) TestMode() bool {
	asked := c.TestCheckout
	return c.StripeKey == "" && (asked != nil && *asked || asked == nil && c.DatabaseURL == "")
}

func (c *Config) validateLookups() error {
	var p problems
	for _, server := range c.ConfiguredResolvers() {
		host, port, err := net.SplitHostPort(server)
		_, unknown := net.LookupPort("udp", port)
		p.add(err != nil || host == "" || port == "" || unknown != nil,
			"ASSAY_DNS: %q is neither off nor of the form host:port", server)
	}
	u, err := url.Parse(c.RDAPURL)
	p.add(c.RDAPURL != "" && c.RDAPURL != Off && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")),
		"ASSAY_RDAP_URL: it is neither off nor a URL such as https://rdap.example.net/")
	_, err = c.blocklists()
	return errors.Join(append(p, err)...)
}

// ConfiguredResolvers returns the DNS resolvers that the operator named. It returns none when the setting is empty,
// which means the system's resolvers, and when DNS is off.
func (c *Config) ConfiguredResolvers() []string {
	if len(c.DNS) == 1 && c.DNS[0] == Off {
		return nil
	}
	return c.DNS
}

// Resolvers returns the DNS resolvers to query, or none when DNS is off.
func (c *Config) Resolvers() []string {
	if len(c.DNS) == 0 {
		return resolver.SystemServers()
	}
	return c.ConfiguredResolvers()
}

func (c *Config) blocklists() ([]network.Blocklist, error) {
	var all []network.Blocklist
	for _, text := range c.DNSBL {
		list, err := network.ParseBlocklist(text)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_DNSBL: %w", err)
		}
		all = append(all, list)
	}
	return all, nil
}

// Proxies returns the networks of trusted proxies.
func (c *Config) Proxies() ([]netip.Prefix, error) {
	return parseNetworks("ASSAY_TRUSTED_PROXIES", c.TrustedProxies)
}

// Witnesses returns the witnesses of the audit log.
func (c *Config) Witnesses() ([]witness.Address, error) {
	var all []witness.Address
	for line := range strings.Lines(strings.Join(c.Witness, "\n")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		address, err := witness.ParseAddress(line)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_WITNESS: %w", err)
		}
		same := func(a witness.Address) bool { return a.Key.Name() == address.Key.Name() }
		if slices.ContainsFunc(all, same) {
			return nil, fmt.Errorf("ASSAY_WITNESS: two witnesses have the name %s", address.Key.Name())
		}
		all = append(all, address)
	}
	return all, nil
}

// WebhookNetworks returns the private networks that webhooks may reach.
func (c *Config) WebhookNetworks() ([]netip.Prefix, error) {
	return parseNetworks("ASSAY_WEBHOOK_ALLOW", c.WebhookAllow)
}

// parseNetworks parses a setting that lists networks in CIDR notation or single addresses.
func parseNetworks(setting string, list []string) ([]netip.Prefix, error) {
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

// SecretPath is the file of the master secret.
func (c *Config) SecretPath() string {
	return cmp.Or(c.SecretFile, c.Path("secret"))
}

// MakeDataDir creates the data directory. Other users may traverse it but not list it, because Postgres may run as
// another user. Files that must stay private have their own modes.
func (c *Config) MakeDataDir() error {
	return fault.Wrap(os.MkdirAll(c.DataDir, 0o711), "creating the data directory")
}

// Path returns the path of a file in the data directory.
func (c *Config) Path(elements ...string) string {
	return filepath.Join(append([]string{c.DataDir}, elements...)...)
}

// CheckpointDir is the folder of signed checkpoints.
func (c *Config) CheckpointDir() auditlog.CheckpointDir {
	return auditlog.CheckpointDir(c.Path("checkpoints"))
}

// ConfigFile is the setting that names the file of the other settings. A flag and the environment take precedence.
type ConfigFile string

// Scheme returns the beginning of the host's URL.
func (c *Config) Scheme() string {
	if c.TLSCert != "" {
		return "https://"
	}
	return "http://"
}
