package service

import (
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/login"
)

// Flags define what a service keeps, follows and listens on.
type Flags struct {
	Queue           QueueFlags
	data, Ledger    string
	Project         string
	repo, branch    string
	repoEvery       time.Duration
	hookSecret      string
	listen          string
	insecure        bool
	tlsCert, tlsKey string
	tlsClientCA     string
	outputs         string
	retention       RetentionFlags
	notify          notifyFlags
	acme            acmeFlags
	oidc            oidcFlags
	people          *login.Provider // of oidc; nil: there are tokens only
	measure         measureFlags
	scale           scaleFlags
	hosts           sourcesFlag
	// Settings are those of the command, without secrets, for the API.
	Settings []api.Setting
}

// Defaults for following --repo.
const (
	defaultBranch    = "main"
	defaultRepoEvery = time.Minute
)

// Add gives the command the flags.
func (f *Flags) Add(c *cobra.Command) {
	f.Queue.Add(c)
	f.notify.add(c)
	f.acme.add(c)
	f.oidc.add(c)
	f.retention.Add(c)
	f.measure.add(c)
	f.scale.add(c)
	f.hosts.add(c)
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "turnus-data", "folder of everything that this process keeps: ledger, large outputs, checkouts, the first token")
	fl.StringVar(&f.Ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "ledger: postgres://…, or sqlite:FILE (TURNUS_LEDGER; default: a file in --data)")
	fl.Lookup("ledger").DefValue = "" // --help would print the password
	settings.ReadsEnvironment(fl, "ledger")
	fl.StringVar(&f.outputs, "outputs", "", "where outputs over 64 KiB are: a folder, or s3://BUCKET[/PREFIX][?endpoint=URL]; several servers share one (default: outputs in --data)")
	fl.StringVar(&f.repo, "repo", "", "repository with the project to follow: https, ssh, or a path")
	fl.StringVar(&f.branch, "branch", defaultBranch, "branch of --repo")
	fl.DurationVar(&f.repoEvery, "repo-every", defaultRepoEvery, "between polls of --repo; a webhook makes the server poll immediately")
	fl.StringVar(&f.hookSecret, "webhook-secret-file", "", "file with the secret of the repository's webhook; without it no webhook is taken")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8470", "address of the API; port 0 takes a free one")
	fl.BoolVar(&f.insecure, "insecure-listen", false, "listen without TLS on an address that other machines reach; an eavesdropper can read every token")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "certificate chain of the API, in PEM; read again when it is renewed")
	fl.StringVar(&f.tlsKey, "tls-key", "", "its key, in PEM")
	fl.StringVar(&f.tlsClientCA, "tls-client-ca", "", "certificate authorities, in PEM; every client needs a certificate of one and a token; read again when it changes")
	settings.NamesFiles(fl, "tls-cert", "tls-client-ca")
	settings.NamesSecretFiles(fl, "webhook-secret-file", "tls-key")
}

// Check refuses what contradicts itself, before anything is opened.
func (f *Flags) Check() error {
	if f.repo != "" && f.Project != "" {
		return console.Invalid("--repo and --project both name the project: give one")
	}
	if f.Project != "" {
		if info, err := os.Stat(f.Project); err != nil || !info.IsDir() {
			return console.Invalid("--project %s: expected a folder with playbooks/ and inventory/ in it (docs/definitions.md)\nhint: turnus init DIR makes one", f.Project)
		}
		if !definitions.IsProject(f.Project) {
			return console.Invalid("--project %s: the folder is no project: it has no playbooks/, no inventory/ and no turnus.yaml\nhint: turnus init DIR makes one; then turnus up --project DIR", f.Project)
		}
	}
	if f.repo == "" && (f.branch != defaultBranch || f.repoEvery != defaultRepoEvery) {
		return console.Invalid("--branch and --repo-every set how --repo is followed: also give it")
	}
	if f.hookSecret != "" && f.repo == "" {
		return console.Invalid("--webhook-secret-file needs --repo: a webhook makes the server fetch its repository")
	}
	if _, err := f.notify.config(); err != nil {
		return err
	}
	if err := f.hosts.check(); err != nil {
		return err
	}
	if err := f.retention.Check(); err != nil {
		return err
	}
	var err error
	if f.people, err = f.oidc.open(); err != nil {
		return err
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return console.Invalid("--tls-cert and --tls-key go together")
	}
	if err := f.acme.check(f.tlsCert); err != nil {
		return err
	}
	if f.tlsClientCA != "" && !f.secure() {
		return console.Invalid("--tls-client-ca needs --tls-cert or --acme-name: clients show their certificates over TLS")
	}
	if err := f.measure.check(); err != nil {
		return err
	}
	if _, err := f.scale.config(""); err != nil {
		return err
	}
	address, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return console.Invalid("--listen %s: expected HOST:PORT, as 127.0.0.1:8470", f.listen)
	}
	if !f.secure() && !f.insecure && !core.ThisMachine(address) {
		return console.Invalid("--listen %s: other machines reach this address, and tokens would cross the network in the clear\nhint: --tls-cert and --tls-key, or --acme-name; or, behind a proxy that ends TLS, --insecure-listen", f.listen)
	}
	if f.people != nil && f.oidc.server == "" && !core.ThisMachine(address) {
		return console.Invalid("--oidc-issuer with --listen %s: a login is for one server alone, and this one does not know by which name people reach it\nhint: --oidc-server HOST[:PORT], as in their --server https://HOST[:PORT]", f.listen)
	}
	return nil
}

// secure reports whether the API listens over TLS.
func (f *Flags) secure() bool { return f.tlsCert != "" || len(f.acme.names) > 0 }
