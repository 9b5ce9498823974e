package secrets

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// DefaultCredential is the credential of hosts that name none.
const DefaultCredential = "default"

// Credential is a login that a node may use, and the hosts that it is for. Only a node's own file
// defines one: inventories and jobs refer to it by name. Paths are absolute.
type Credential struct {
	Name            string
	Agent           string // socket of an ssh-agent, or the environment variable that holds it
	IdentityFiles   []string
	CertificateFile string
	CAKey           string        // private key of a certificate CA
	CAVault         string        // MOUNT/ROLE of Vault's SSH engine
	CALifetime      time.Duration // of certificates; 0: the usual one
	Password        *Entry        // where the password is
	Passphrase      *Entry        // of the identity files
	BecomePassword  *Entry        // that sudo asks the login for

	Tenants []string // customers whose hosts may be logged in to; empty: of all
	Groups  []string // groups of the inventory, of which the host is in one; empty: of all

	addresses []address // never empty
	In        string    // the file
	Line, Col int       // of the name
}

// Place is file:line:col of the name.
func (c *Credential) Place() string { return fmt.Sprintf("%s:%d:%d", c.In, c.Line, c.Col) }

// address is one network, or one pattern of names.
type address struct {
	net  netip.Prefix
	name string
}

// parseAddress reads an IP address, a network, or a host name that may begin with "*.".
func parseAddress(text string) (address, bool) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return address{net: netip.PrefixFrom(ip, ip.BitLen())}, true
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return address{net: p}, p == p.Masked() && !p.Addr().Is4In6()
	}
	name := strings.TrimPrefix(text, "*.")
	ok := name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	return address{name: strings.ToLower(text)}, ok && strings.ContainsFunc(name, func(c rune) bool { return c > '9' })
}

// Reaches returns an error if the credential must not be offered to a machine: dialled is the name
// or address that was dialled, at the address behind it, which is invalid if a jump host resolves
// the name.
func (c *Credential) Reaches(dialled string, at netip.Addr) error {
	dialled = strings.ToLower(strings.TrimSuffix(dialled, "."))
	for _, a := range c.addresses {
		switch {
		case a.name != "":
			if ok, _ := path.Match(a.name, dialled); ok {
				return nil
			}
		case at.IsValid() && a.net.Contains(at.Unmap()):
			return nil
		}
	}
	what := yamlread.Clip(dialled)
	if at.IsValid() && at.String() != dialled {
		what += " (" + at.String() + ")"
	}
	return refusal(core.ErrInvalid, "if this is meant, add the address under addresses: there",
		"credential %q must not be offered to or through %s: %s limits it to other addresses", c.Name, what, c.Place())
}

// permits returns an error if the credential is not for the host, by the host's own data.
func (c *Credential) permits(h core.Host) error {
	if len(c.Tenants) > 0 && !slices.Contains(c.Tenants, h.Customer) {
		return refusal(core.ErrInvalid, "if this is meant, add the tenant under tenants: there",
			"credential %q is not for hosts of %s: %s limits it to other tenants", c.Name, customerText(h.Customer), c.Place())
	}
	if len(c.Groups) > 0 && !slices.ContainsFunc(h.Groups, func(g string) bool { return slices.Contains(c.Groups, g) }) {
		return refusal(core.ErrInvalid, "if this is meant, add a group of the host under groups: there",
			"credential %q is not for host %s: %s limits it to the groups %s", c.Name, yamlread.Clip(h.Name), c.Place(), strings.Join(c.Groups, ", "))
	}
	return nil
}

// refusedUse is a use of a credential that its limits do not allow.
type refusedUse struct {
	text string
	kind error
}

func (e *refusedUse) Error() string { return e.text }

func (e *refusedUse) Unwrap() error { return e.kind }

func refusal(kind error, hint, format string, args ...any) error {
	return &refusedUse{fmt.Sprintf(format, args...) + "\nhint: " + hint, kind}
}

func customerText(name string) string {
	if name == "" {
		return "no tenant"
	}
	return fmt.Sprintf("tenant %q", yamlread.Clip(name))
}

// Credential returns the credential that a host names, or the default one. It checks the host's
// tenant and group; the dialler checks the address, by Reaches. Errors show what to write where.
// They wrap core.ErrNotFound if there is no such credential, core.ErrInvalid if it is not for this
// host.
func (s *Store) Credential(h core.Host) (*Credential, error) {
	name := cmp.Or(h.SSH.Credential, DefaultCredential)
	c := s.current().credentials[name]
	if c == nil {
		said := fmt.Sprintf("host %s names credential %q", yamlread.Clip(h.Name), yamlread.Clip(name))
		if h.SSH.Credential == "" {
			said = fmt.Sprintf("host %s names no credential, and there is no %q", yamlread.Clip(h.Name), DefaultCredential)
		}
		hint := "define it under credentials: there, with the addresses it is for; docs/secrets.md shows how"
		if s.cfg.File == "" {
			hint = "define it under credentials: of a file, and give the file by --secrets or TURNUS_SECRETS; docs/secrets.md shows how"
		}
		return nil, refusal(core.ErrNotFound, hint,
			"%s: %s", said, s.missing())
	}
	if err := c.permits(h); err != nil {
		return nil, err
	}
	return c, nil
}

// missing returns where a credential should be defined.
func (s *Store) missing() string {
	if s.cfg.File == "" {
		return "this worker was started without --secrets FILE"
	}
	return "not in " + s.cfg.File + " of this worker"
}

// Credentials returns all of the node's own file, by name.
func (s *Store) Credentials() []*Credential {
	var out []*Credential
	for _, c := range s.current().credentials {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *Credential) int { return compare(a.Name, b.Name) })
	return out
}

// Login fetches the password or passphrase of a credential, for a host. It is the caller's, who
// should clear it after use. Errors are as those of Resolve.
func (s *Store) Login(ctx context.Context, e *Entry, h core.Host) ([]byte, error) {
	return s.value(ctx, *e, Ask{Name: e.Name, Tenant: h.Customer, Host: h})
}

// AtHand reports whether the value is on this node and reading it runs nothing.
func (e *Entry) AtHand() bool {
	k := e.Kind()
	return k == kindEnv || k == kindFile || k == kindAge
}

func (r *reader) credentials(v *yaml.Node) {
	r.named(v, "credential", "credentials", MaxNames, func(p yamlread.Pair) {
		c := &Credential{Name: p.Name, In: r.file, Line: p.Key.Line, Col: p.Key.Column}
		if r.credential(c, p.Value) {
			r.out.Credentials = append(r.out.Credentials, c)
		}
	})
}

// credential reads one.
func (r *reader) credential(c *Credential, v *yaml.Node) bool {
	before := len(r.problems)
	what := fmt.Sprintf("credential %q", c.Name)
	var addresses []string
	r.Mapping(v, what,
		r.Text("agent", &c.Agent), r.list("identity_file", &c.IdentityFiles), r.Text("certificate_file", &c.CertificateFile),
		r.Text("ca_key", &c.CAKey), r.Text("ca_vault", &c.CAVault), yamlread.Value(r.Reader, "ca_lifetime", &c.CALifetime, lifetime),
		r.reference(&c.Password, c, "password"), r.reference(&c.Passphrase, c, "passphrase"), r.reference(&c.BecomePassword, c, "become_password"),
		r.list("tenants", &c.Tenants), r.list("groups", &c.Groups), r.list("addresses", &addresses))
	if len(r.problems) > before {
		return false
	}
	for i := range c.IdentityFiles {
		c.IdentityFiles[i] = r.beside(c.IdentityFiles[i])
	}
	for _, p := range []*string{&c.CertificateFile, &c.CAKey} {
		*p = r.beside(*p)
	}
	if strings.Contains(c.Agent, "/") {
		c.Agent = r.beside(c.Agent)
	}
	for _, text := range addresses {
		a, ok := parseAddress(text)
		if !ok {
			r.fail(v, "write 192.0.2.7, 192.0.2.0/24, fw1.example.net or *.example.net", "%s: addresses: %q is no IP address, network or host name", what, yamlread.Clip(text))
			continue
		}
		c.addresses = append(c.addresses, a)
	}
	switch {
	case c.Agent == "" && len(c.IdentityFiles) == 0 && c.CAKey == "" && c.CAVault == "" && c.Password == nil:
		r.fail(v, "give agent, identity_file, ca_key, ca_vault or password", "%s: it has nothing to log in with", what)
	case c.CAKey != "" && c.CAVault != "":
		r.fail(v, "", "%s: ca_key and ca_vault: one certificate authority signs, so give one of them", what)
	case len(addresses) == 0:
		r.fail(v, `name the networks and host names it may be offered to, such as 10.0.0.0/8; everywhere is ["0.0.0.0/0", "::/0"]`, "%s: addresses are missing", what)
	}
	return len(r.problems) == before
}

func lifetime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, yamlread.Fault{Expected: "a duration such as 5m"}
	}
	return d, nil
}

// beside makes a path of this file absolute; "" stays.
func (r *reader) beside(path string) string {
	if path == "" || strings.HasPrefix(path, "~/") {
		return path
	}
	return beside(r.file, path)
}

// reference reads where one value of a credential is.
func (r *reader) reference(to **Entry, c *Credential, key string) yamlread.Field {
	return yamlread.Field{Key: key, Read: func(v *yaml.Node) {
		e := &Entry{Name: c.Name + "." + key, In: r.file, Line: v.Line, Col: v.Column}
		if r.ref(e, v, fmt.Sprintf("credential %q: %s", c.Name, key)) {
			*to = e
		}
	}}
}
