package inventory

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// topKeys are the keys of an inventory by which it is known as one.
var topKeys = []string{"defaults", "customers", "groups", "hosts", "pools"}

// turnus reads a Turnus inventory.
type turnus struct {
	*file
	reading reading
	host    draft    // that is being read
	perHost []field  // into it
	late    []func() // checks that need the whole file
}

type field = yamlread.Field

func (f *file) turnus(root *yaml.Node) {
	t := &turnus{file: f}
	t.reading = reading{f: f, left: maxNodes}
	t.perHost = t.hostFields()
	t.MappingWith(root, "the inventory", map[string]string{
		"sources": "sources are named by the person who types: turnus run -i FILE; they are no part of a project",
	}, t.topFields()...)
	for _, check := range t.late {
		check()
	}
}

// topFields are the keys of a file. topKeys has their names.
func (t *turnus) topFields() []field {
	return []field{
		{Key: "defaults", Read: func(v *yaml.Node) { t.Mapping(v, "defaults", t.settings(&t.b.defaults)...) }},
		t.named("customers", t.customer),
		t.named("groups", t.group),
		t.named("hosts", func(k, v *yaml.Node) { t.hosts(k, v, "", "") }),
		t.named("pools", t.pool),
	}
}

// named is a field of names, of which each is read.
func (t *turnus) named(key string, read func(k, v *yaml.Node)) field {
	return field{Key: key, Read: func(v *yaml.Node) { t.each(v, key, read) }}
}

// selectors is a field of one text or a list of texts.
func (t *turnus) selectors(key string, into *[]selector) field {
	return field{Key: key, Read: func(v *yaml.Node) { *into = append(*into, t.texts(v)...) }}
}

// list is a field of one text or a list of texts, each read by a parser.
func (t *turnus) list(key string, into *[]string, parse func(string) (string, error)) field {
	return field{Key: key, Read: func(v *yaml.Node) {
		*into = nil
		for _, item := range t.OneOrMore(v, "text, or a list of texts") {
			var text string
			if yamlread.Parse(t.Reader, item, &text, parse); text != "" {
				*into = append(*into, text)
			}
		}
	}}
}

func (t *turnus) one(key string, into *string) field {
	return yamlread.Value(t.Reader, key, into, asWritten)
}

func asWritten(text string) (string, error) { return text, nil }

func (t *turnus) customer(k, v *yaml.Node) {
	name := k.Value
	c := t.b.customer(name, t.at(k.Line, k.Column))
	t.Mapping(v, "customer "+strconv.Quote(name), t.customerFields(name, c)...)
}

func (t *turnus) customerFields(name string, c *customer) []field {
	return append(t.settings(&c.settings),
		t.named("sites", func(k, v *yaml.Node) { t.site(name, c, k, v) }),
		t.named("hosts", func(k, v *yaml.Node) { t.hosts(k, v, name, "") }))
}

func (t *turnus) site(owner string, c *customer, k, v *yaml.Node) {
	name := k.Value
	s := c.sites[name]
	if s == nil {
		s = &settings{}
		c.sites[name] = s
	}
	t.Mapping(v, "site "+strconv.Quote(name), t.siteFields(owner, name, s)...)
}

func (t *turnus) siteFields(owner, name string, s *settings) []field {
	return append(t.settings(s), t.named("hosts", func(k, v *yaml.Node) { t.hosts(k, v, owner, name) }))
}

func (t *turnus) group(k, v *yaml.Node) {
	g := t.b.group(k.Value, t.at(k.Line, k.Column))
	t.Mapping(v, "group "+strconv.Quote(k.Value), t.groupFields(g)...)
}

const maxPriority = 1_000_000

func (t *turnus) groupFields(g *group) []field {
	return append(t.settings(&g.inline),
		t.selectors("hosts", &g.match),
		t.selectors("children", &g.childRef),
		t.Int("priority", &g.priority, 1, maxPriority))
}

func (t *turnus) pool(k, v *yaml.Node) {
	p := &pool{name: k.Value, at: t.at(k.Line, k.Column)}
	t.b.pools = append(t.b.pools, p)
	t.Mapping(v, "pool "+strconv.Quote(k.Value), t.poolFields(p)...)
}

func (t *turnus) poolFields(p *pool) []field {
	return []field{
		t.selectors("customers", &p.customers), t.selectors("sites", &p.sites),
		t.selectors("groups", &p.groups), t.selectors("hosts", &p.host),
	}
}

// draft is an entry under hosts: while it is read.
type draft struct {
	settings
	what                                    string // for messages
	names                                   []string
	addresses, aliases, pairs, groups, keys []string
}

// hostFields read into t.host: one table serves all hosts.
func (t *turnus) hostFields() []field {
	h := &t.host
	parallel := func(key string, into *[]string, share bool) field {
		return field{Key: key, Read: func(v *yaml.Node) { *into = t.parallel(v, key+" of "+h.what, len(h.names), share) }}
	}
	noted := func(f field) field {
		read := f.Read
		f.Read = func(v *yaml.Node) { t.noteKey(&h.settings, f.Key); read(v) }
		return f
	}
	return append(t.settings(&h.settings),
		noted(parallel("address", &h.addresses, false)),
		noted(parallel("host_key_alias", &h.aliases, false)),
		noted(parallel("ha_group", &h.pairs, true)),
		noted(t.list("host_key", &h.keys, asWritten)),
		t.list("groups", &h.groups, asWritten),
		noted(t.owner("customer", &h.customer)),
		noted(t.owner("site", &h.site)))
}

// hosts reads one entry under hosts:, which a range makes several hosts.
func (t *turnus) hosts(k, v *yaml.Node, customer, site string) {
	names, err := t.b.expand(k.Value, t.at(k.Line, k.Column))
	if err != nil {
		t.fail(k.Line, k.Column, "host %v", err)
		return
	}
	t.host = draft{settings: settings{customer: customer, site: site}, names: names, what: "host " + strconv.Quote(shorten(k.Value))}
	t.Mapping(v, t.host.what, t.perHost...)
	h := t.host
	at := t.at(k.Line, k.Column)
	if !t.given { // another system has customers that no file of ours lists
		t.late = append(t.late, func() { t.known(h.customer, h.site, k, h.what) })
	}
	if customer != "" {
		t.b.note(&h.settings, "customer", at)
	}
	if site != "" {
		t.b.note(&h.settings, "site", at)
	}
	for i, name := range names {
		if err := CheckName(name); err != nil {
			t.fail(k.Line, k.Column, "host %v", err)
			return
		}
		if old := t.b.hosts[name]; old != nil && old.at.file == at.file {
			t.fail(k.Line, k.Column, "host %q is there twice, first at line %d", name, old.at.line)
			return
		}
		e := t.b.host(name, at)
		e.own.over(&h.settings)
		override(&e.own.address, pick(h.addresses, i, len(names)))
		override(&e.own.ssh.HostKeyAlias, pick(h.aliases, i, len(names)))
		override(&e.own.haGroup, pick(h.pairs, i, len(names)))
		overrideList(&e.own.ssh.HostKeys, h.keys)
		for _, g := range h.groups {
			t.b.join(t.b.group(g, at), e)
		}
	}
}

// owner is customer or site of a host where its place does not set it already.
func (t *turnus) owner(key string, into *string) field {
	return field{Key: key, Read: func(v *yaml.Node) {
		if *into != "" {
			t.fail(v.Line, v.Column, "%s stands under the %s %q already", t.host.what, key, *into)
			return
		}
		*into = t.text(v)
	}}
}

// known reports a customer or site that nobody defines, when any is defined.
func (t *turnus) known(customer, site string, k *yaml.Node, what string) {
	if customer == "" || len(t.b.customers) == 0 {
		return
	}
	c := t.b.customers[customer]
	if c == nil {
		t.problem(k.Line, k.Column, "%s: the customer %q is not defined", what, customer).
			Hint = yamlread.DidYouMean(customer, slices.Sorted(maps.Keys(t.b.customers)))
		return
	}
	if site != "" && len(c.sites) > 0 && c.sites[site] == nil {
		t.problem(k.Line, k.Column, "%s: the customer %q has no site %q", what, customer, site).
			Hint = yamlread.DidYouMean(site, slices.Sorted(maps.Keys(c.sites)))
	}
}

// parallel expands a value that runs beside the names: as many values as names,
// or, where neighbours may share one, a number that divides theirs.
func (t *turnus) parallel(v *yaml.Node, what string, names int, share bool) []string {
	text := t.text(v)
	if text == "" {
		return nil
	}
	n := yamlread.Target(v)
	values := []string{text}
	if hasRange(text) {
		var err error
		if values, err = expand(text); err != nil {
			t.fail(n.Line, n.Column, "%s: %v", what, err)
			return nil
		}
		t.Values -= len(values)
	}
	switch {
	case len(values) == names, share && names%len(values) == 0:
		return values
	case share:
		t.fail(n.Line, n.Column, "%s is %d names for %d hosts, which cannot be shared evenly", what, len(values), names)
	default:
		t.problem(n.Line, n.Column, "%s is %d values for %d hosts", what, len(values), names).
			Hint = "a range here must have as many values as the host's name"
	}
	return nil
}

// pick returns the value of host i of n.
func pick(values []string, i, n int) string {
	if len(values) == 0 {
		return ""
	}
	return values[i*len(values)/n]
}

const maxPort = 65535

// settings are the fields that every layer may have.
func (t *turnus) settings(s *settings) []field {
	fields := []field{
		t.one("user", &s.ssh.User),
		t.Int("port", &s.ssh.Port, 1, maxPort),
		t.one("credential", &s.ssh.Credential),
		t.own(t.list("identity_file", &s.login.IdentityFiles, asWritten)),
		t.own(t.one("certificate_file", &s.login.CertificateFile)),
		t.own(t.one("password_env", &s.login.PasswordEnv)),
		t.own(field{Key: "password_command", Read: func(v *yaml.Node) { s.login.PasswordCommand = t.command(v) }}),
		t.becomeField(s),
		// jump replaces both lists.
		{Key: "jump", Read: func(v *yaml.Node) { s.ssh.ProxyJump, s.extraJump = t.jump(v), []string{noJump} }},
		yamlread.Value(t.Reader, "connect_timeout", &s.ssh.ConnectTimeout, timeout),
		t.list("certificate_principals", &s.ssh.Principals, principal),
		t.list("certificate_source_address", &s.ssh.SourceAddrs, network),
		t.one("certificate_force_command", &s.ssh.ForceCommand),
		yamlread.Value(t.Reader, "first_contact", &s.ssh.FirstContact, firstContact),
		t.one("window_set", &s.windowSet),
		t.one("pool", &s.pool),
		t.named("labels", func(k, v *yaml.Node) {
			s.setLabel(k.Value, t.text(v))
			t.b.note(s, "labels."+k.Value, t.at(k.Line, k.Column))
		}),
		t.named("vars", func(k, v *yaml.Node) {
			val, err := t.reading.value(v, 0)
			if err != nil {
				t.fail(v.Line, v.Column, "var %q: %v", k.Value, err)
				return
			}
			s.setVar(k.Value, val)
			t.b.note(s, "vars."+k.Value, t.at(k.Line, k.Column))
		}),
	}
	if t.b.explained == "" {
		return fields
	}
	for i, f := range fields {
		if f.Key != "labels" && f.Key != "vars" {
			fields[i].Read = func(v *yaml.Node) { t.noteKey(s, f.Key); f.Read(v) }
		}
	}
	return fields
}

// noteKey records the place of the key that is being read.
func (t *turnus) noteKey(s *settings, key string) {
	t.b.note(s, key, t.at(t.Key().Line, t.Key().Column))
}

// own is a field that sets what to log in with.
func (t *turnus) own(f field) field {
	read := f.Read
	f.Read = func(v *yaml.Node) {
		t.ownLogin(f.Key, t.Key().Line, t.Key().Column, false)
		read(v)
	}
	return f
}

// jump reads hosts to go through, outermost first: a list, or text with commas.
func (t *turnus) jump(v *yaml.Node) []string {
	var out []string
	for _, s := range t.texts(v) {
		for hop := range strings.SplitSeq(s.text, ",") {
			if hop = strings.TrimSpace(hop); hop == "" || hop[0] == '-' || strings.ContainsAny(hop, " \t\n'\"") {
				t.b.fail(s.at, "jump: %q is no host", hop)
				continue
			}
			out = append(out, hop)
		}
	}
	return out
}

// command reads an argv; text is split at blanks.
func (t *turnus) command(v *yaml.Node) []string {
	if n := yamlread.Target(v); n.Kind == yaml.ScalarNode {
		return strings.Fields(t.text(n))
	}
	return plain(t.texts(v))
}

// principal reads a name that a certificate is for.
func principal(text string) (string, error) {
	if text == "" || strings.ContainsAny(text, ", \t\n\"*?") {
		return "", yamlread.Fault{Expected: "a name without blanks, commas and wildcards"}
	}
	return text, nil
}

// firstContact reads whether the key of an unknown host may be pinned. An inner layer refuses what
// an outer one allows.
func firstContact(text string) (string, error) {
	if text != core.FirstContactPin && text != "refuse" {
		return "", yamlread.Fault{Expected: "pin, or refuse, which is the default"}
	}
	return text, nil
}

// network reads an address or network that a certificate may be used from.
func network(text string) (string, error) {
	_, one := netip.ParseAddr(text)
	if _, err := netip.ParsePrefix(text); err != nil && one != nil {
		return "", yamlread.Fault{Expected: "an address or a network, such as 192.0.2.7 or 192.0.2.0/24"}
	}
	return text, nil
}

func timeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > time.Hour {
		return 0, yamlread.Fault{Expected: "a duration up to 1h, such as 10s"}
	}
	return d, nil
}
