package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store/postgres"
	"assay/registry/fault"
)

type databaseExecCmd struct {
	Create  bool     `help:"${database_exec_create}"`
	Command []string `arg:"" passthrough:"" help:"Program and its arguments, such as pg_dump, pg_restore or psql."`
}

// Run runs a program with the database's address in its environment: a password among its arguments would be visible
// to other users. The private Postgres runs at least as long as the program. Nothing is migrated, because a backup is
// restored into an empty database.
func (cmd *databaseExecCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) (err error) {
	if _, err := cfg.LoadInstallation(); err != nil {
		return err
	}
	// pg_dump needs a session of its own, which a pooler may not give it.
	address := cmp.Or(cfg.DatabaseDirectURL, cfg.DatabaseURL)
	if address == "" {
		cluster, err := postgres.Open(ctx, postgres.Config{Dir: cfg.DataDir, Logger: installation.QuietLog(t),
			Progress: t.Stage, Existing: !cmd.Create})
		if errors.Is(err, postgres.ErrNone) {
			return cfg.NoPrivateDatabase()
		}
		if err != nil {
			return fmt.Errorf("opening the private Postgres: %w", err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), installation.StopTimeout)
			defer cancel()
			err = errors.Join(err, cluster.Close(ctx))
		}()
		address = cluster.URL()
	}
	variables, err := libpqVariables(address)
	if err != nil {
		return err
	}
	if cmd.Command[0] == "--" && len(cmd.Command) > 1 {
		cmd.Command = cmd.Command[1:]
	}
	program := exec.CommandContext(ctx, cmd.Command[0], cmd.Command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, t.Out, t.Err
	program.Env = append(os.Environ(), variables...)
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.WaitDelay = 10 * time.Second
	return fault.Wrap(program.Run(), "running %s", cmd.Command[0])
}

// libpqNames are the environment variables of parameters in a Postgres URL. Others concern only this program's driver.
var libpqNames = map[string]string{
	"application_name": "PGAPPNAME", "channel_binding": "PGCHANNELBINDING", "connect_timeout": "PGCONNECT_TIMEOUT",
	"dbname": "PGDATABASE", "gssencmode": "PGGSSENCMODE", "host": "PGHOST", "krbsrvname": "PGKRBSRVNAME",
	"options": "PGOPTIONS", "passfile": "PGPASSFILE", "password": "PGPASSWORD", "port": "PGPORT",
	"sslcert": "PGSSLCERT", "sslcrl": "PGSSLCRL", "sslkey": "PGSSLKEY", "sslmode": "PGSSLMODE",
	"sslrootcert": "PGSSLROOTCERT", "target_session_attrs": "PGTARGETSESSIONATTRS", "user": "PGUSER",
}

// libpqVariables returns a database's address as the environment variables of Postgres's own programs.
func libpqVariables(address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		// The parser's error would quote the address, and with it the password.
		return nil, errors.New("ASSAY_DATABASE_URL: this command needs an address such as " +
			"postgres://user:password@host/name")
	}
	values := map[string]string{"PGDATABASE": strings.TrimPrefix(u.Path, "/")}
	if u.User != nil {
		values["PGUSER"] = u.User.Username()
		values["PGPASSWORD"], _ = u.User.Password()
	}
	var hosts, ports []string
	for host := range strings.SplitSeq(u.Host, ",") {
		one := url.URL{Host: host}
		hosts, ports = append(hosts, one.Hostname()), append(ports, cmp.Or(one.Port(), "5432"))
	}
	if u.Host != "" {
		values["PGHOST"], values["PGPORT"] = strings.Join(hosts, ","), strings.Join(ports, ",")
	}
	for name, all := range u.Query() {
		if variable, ok := libpqNames[name]; ok {
			values[variable] = all[len(all)-1]
		}
	}
	var variables []string
	for name, value := range values {
		if value != "" { // libpq's own default then applies, for example the password in ~/.pgpass
			variables = append(variables, name+"="+value)
		}
	}
	return variables, nil
}
