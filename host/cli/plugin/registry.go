package plugin

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"assay/host/installation"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
	"assay/registry/oci"
)

// registryAccess are the flags with which commands reach an OCI registry.
type registryAccess struct {
	Username  string `placeholder:"NAME" help:"${registry_username}"`
	Password  string `name:"password-file" placeholder:"FILE" help:"${registry_password}"`
	CA        string `name:"ca" placeholder:"FILE" help:"${registry_ca}"`
	PlainHTTP bool   `name:"plain-http" help:"${registry_plain}"`
}

// options reads the files that the flags name.
func (r registryAccess) options() (oci.Options, error) {
	o := oci.Options{Username: r.Username, PlainHTTP: r.PlainHTTP, UserAgent: "assay/" + installation.Version}
	if (r.Username == "") != (r.Password == "") {
		return o, terminal.Misuse{Err: errors.New("--username and --password-file go together")}
	}
	if r.Password != "" {
		read := private.Read
		if r.Password == "-" {
			read = installation.ReadFileOrStdin
		}
		text, err := read(r.Password)
		if err != nil {
			return o, fmt.Errorf("--password-file: %w", err)
		}
		o.Password = strings.TrimRight(string(text), "\r\n")
	}
	if r.CA != "" {
		text, err := os.ReadFile(r.CA)
		if err != nil {
			return o, fmt.Errorf("--ca: %w", err)
		}
		if o.CA, err = x509.SystemCertPool(); err != nil {
			return o, err
		}
		if !o.CA.AppendCertsFromPEM(text) {
			return o, fmt.Errorf("--ca: %s has no certificate as PEM", r.CA)
		}
	}
	return o, nil
}
