package secrets

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Vault defines how a node talks to HashiCorp Vault, or to OpenBao, which answers alike. Paths of
// files count from the folder of the node's own file.
type Vault struct {
	Address    string // https://HOST:PORT; http on the loopback device only
	Namespace  string // sent as X-Vault-Namespace
	CAFile     string // PEM, in place of the system's CAs
	ClientCert string // PEM, with ClientKey, for mutual TLS
	ClientKey  string

	// One way to log in is set.
	TokenEnv  string // environment variable that holds a token
	TokenFile string // file that holds one, read again when it is refused
	AppRole   *AppRole

	// Allow are the prefixes MOUNT/PATH that references of a definitions tree may read; {tenant}
	// stands for the run's tenant. Empty: none. The node's own file reads what its token may.
	Allow []string

	file      string
	line, col int
}

// AppRole logs in by a role and its secret id.
type AppRole struct {
	Mount        string // "approle" when empty
	RoleID       string
	SecretIDFile string
	SecretIDEnv  string
}

// same reports whether two settings are equal, wherever they stand.
func (v *Vault) same(o *Vault) bool {
	if v == nil || o == nil {
		return v == o
	}
	a, b := *v, *o
	a.line, a.col, b.line, b.col = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func (r *reader) vault(v *yaml.Node) {
	cfg := &Vault{file: r.file, line: v.Line, col: v.Column}
	before := len(r.problems)
	r.Mapping(v, "vault",
		r.Text("address", &cfg.Address), r.Text("namespace", &cfg.Namespace), r.Text("ca_file", &cfg.CAFile),
		r.Text("client_cert_file", &cfg.ClientCert), r.Text("client_key_file", &cfg.ClientKey),
		r.Text("token_env", &cfg.TokenEnv), r.Text("token_file", &cfg.TokenFile), r.list("allow", &cfg.Allow),
		yamlread.Field{Key: "approle", Read: func(v *yaml.Node) {
			cfg.AppRole = &AppRole{}
			r.Mapping(v, "approle of vault", r.Text("mount", &cfg.AppRole.Mount), r.Text("role_id", &cfg.AppRole.RoleID),
				r.Text("secret_id_file", &cfg.AppRole.SecretIDFile), r.Text("secret_id_env", &cfg.AppRole.SecretIDEnv))
		}})
	if len(r.problems) > before {
		return
	}
	for _, path := range []*string{&cfg.CAFile, &cfg.ClientCert, &cfg.ClientKey, &cfg.TokenFile} {
		if *path != "" {
			*path = beside(r.file, *path)
		}
	}
	if a := cfg.AppRole; a != nil && a.SecretIDFile != "" {
		a.SecretIDFile = beside(r.file, a.SecretIDFile)
	}
	if err := cfg.check(); err != nil {
		r.fail(v, "", "vault: %v", err)
		return
	}
	r.out.Vault = cfg
}

// check returns what cannot work, before Vault is asked.
func (v *Vault) check() error {
	if _, err := v.url(); err != nil {
		return err
	}
	ways := 0
	for _, set := range []bool{v.TokenEnv != "", v.TokenFile != "", v.AppRole != nil} {
		if set {
			ways++
		}
	}
	switch a := v.AppRole; {
	case ways != 1:
		return fmt.Errorf("%d ways to log in are given, expected one of token_env, token_file, approle", ways)
	case a != nil && (a.RoleID == "" || (a.SecretIDFile == "") == (a.SecretIDEnv == "")):
		return errors.New("approle: expected role_id, and one of secret_id_file, secret_id_env")
	case a != nil && a.Mount != "" && !safePath(a.Mount):
		return errors.New("approle: mount: expected the path where the method is mounted, such as approle")
	case (v.ClientCert == "") != (v.ClientKey == ""):
		return errors.New("client_cert_file and client_key_file belong together")
	}
	for _, prefix := range v.Allow {
		if !safePath(strings.ReplaceAll(strings.Trim(prefix, "/"), "{tenant}", "tenant")) {
			return fmt.Errorf("allow: %q: expected MOUNT/PATH, in which {tenant} may stand for a run's tenant", yamlread.Clip(prefix))
		}
	}
	return nil
}

// url is where the API is.
func (v *Vault) url() (*url.URL, error) {
	u, err := url.Parse(v.Address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("address: expected https://HOST:PORT")
	case u.Scheme == "https", u.Scheme == "http" && core.ThisMachine(u.Hostname()):
		return u, nil
	}
	return nil, errors.New("address: expected https://HOST:PORT: without TLS everybody on the way reads the secrets (http is taken for this machine itself)")
}

// transport is HTTP over TLS with these settings. Files that are renewed are taken over with the
// next connection; behind a proxy those of the start stay.
func (v *Vault) transport(log *slog.Logger) (*http.Transport, error) {
	files, err := securefile.OpenTLS(securefile.TLSFiles{CA: v.CAFile, Cert: v.ClientCert, Key: v.ClientKey}, func(text string) { log.Info("vault: " + text) })
	if err != nil {
		return nil, fmt.Errorf("ca_file, client_cert_file, client_key_file: %w", err)
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t = &http.Transport{}
	}
	t = t.Clone()
	t.TLSClientConfig, t.DialTLSContext = files.Client(""), files.Dial
	return t, nil
}

// vaultPath is one field of one entry of a key-value engine.
type vaultPath struct{ path, field string }

var (
	segmentForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.@+=:,-]+$`) })
	placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}]*\}`) })
)

// safePath reports whether a path is plain words between slashes, which mean the same to every
// server and proxy on the way.
func safePath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if !segmentForm().MatchString(part) || strings.Trim(part, ".") == "" {
			return false
		}
	}
	return len(path) <= 1024
}

// Placeholders of vault references.
var placeholders = []string{"{tenant}", "{host}", "{playbook}"}

// parseVaultPath reads MOUNT/PATH#FIELD.
func parseVaultPath(text string) (vaultPath, error) {
	path, name, ok := strings.Cut(text, "#")
	for _, p := range placeholder().FindAllString(path, -1) {
		if !slices.Contains(placeholders, p) {
			return vaultPath{}, fmt.Errorf("unknown placeholder %s, expected one of: %s", yamlread.Clip(p), strings.Join(placeholders, ", "))
		}
	}
	switch plain := placeholder().ReplaceAllString(path, "x"); {
	case !ok || name == "":
		return vaultPath{}, errors.New("no field is named behind #")
	case !strings.Contains(path, "/"):
		return vaultPath{}, errors.New("expected a mount and a path in it")
	case strings.Contains(strings.SplitN(path, "/", 2)[0], "{"):
		return vaultPath{}, errors.New("the mount must not depend on the run")
	case !safePath(plain):
		return vaultPath{}, fmt.Errorf("the path %q may have letters, digits and _ . @ + = : , - between slashes", yamlread.Clip(path))
	case len(name) > 256 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }):
		return vaultPath{}, errors.New("the field's name is too long, or has characters that are none")
	}
	return vaultPath{path, name}, nil
}

// locate fills in what depends on the run, and keeps references of a tree within what this node
// allows.
func (c *vaultClient) locate(e Entry, a Ask) (vaultPath, error) {
	p, err := parseVaultPath(e.Vault)
	if err != nil {
		return p, fmt.Errorf("%w: %w", err, core.ErrInvalid)
	}
	for name, value := range map[string]string{"{tenant}": a.Tenant, "{host}": a.Host.Name, "{playbook}": a.Playbook} {
		if !strings.Contains(p.path, name) {
			continue
		}
		if !safePath(value) || strings.Contains(value, "/") {
			return p, fmt.Errorf("%s of its path stands for %q here, which is no part of a path: %w", name, yamlread.Clip(value), core.ErrInvalid)
		}
		p.path = strings.ReplaceAll(p.path, name, value)
	}
	if e.In != "" || c.allows(p.path, a.Tenant) {
		return p, nil
	}
	if len(c.cfg.Allow) == 0 {
		return p, fmt.Errorf("this node lets no project read its Vault: name the prefixes that they may read under vault: allow: in %s: %w", c.cfg.file, core.ErrInvalid)
	}
	return p, fmt.Errorf("the project may not read %s for %s on this node: vault: allow: in %s has no such prefix: %w", p.path, tenantText(a.Tenant), c.cfg.file, core.ErrInvalid)
}

func tenantText(tenant string) string {
	if tenant == "" {
		return "a run of no tenant"
	}
	return fmt.Sprintf("tenant %q", yamlread.Clip(tenant))
}

func (c *vaultClient) allows(path, tenant string) bool {
	return slices.ContainsFunc(c.cfg.Allow, func(prefix string) bool {
		prefix = strings.Trim(prefix, "/")
		if strings.Contains(prefix, "{tenant}") {
			if !safePath(tenant) || strings.Contains(tenant, "/") {
				return false
			}
			prefix = strings.ReplaceAll(prefix, "{tenant}", tenant)
		}
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	})
}
