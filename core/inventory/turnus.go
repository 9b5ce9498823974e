package inventory

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

var (
	topKeys      = []string{"defaults", "customers", "groups", "hosts", "pools"}
	settingsKeys = []string{
		"user", "port", "credential", "identity_file", "certificate_file", "jump", "password_env", "password_command", "connect_timeout",
		"certificate_principals", "certificate_source_address", "certificate_force_command",
		"window_set", "pool", "labels", "vars",
	}
	customerKeys = append([]string{"sites", "hosts"}, settingsKeys...)
	siteKeys     = append([]string{"hosts"}, settingsKeys...)
	groupKeys    = append([]string{"hosts", "children", "priority"}, settingsKeys...)
	hostKeys     = append([]string{"address", "customer", "site", "ha_group", "groups", "host_key", "host_key_alias"}, settingsKeys...)
	poolKeys     = []string{"customers", "sites", "groups", "hosts"}
)

// turnus reads a Turnus inventory.
type turnus struct {
	*file
	reading reading
	late    []func() // checks that need the whole file
}

func (f *file) turnus(root *yaml.Node) {
	t := &turnus{file: f}
	t.reading = reading{f: f, left: maxNodes}
	t.each(root, "the inventory", func(k, v *yaml.Node) {
		switch k.Value {
		case "defaults":
			t.each(v, "defaults", func(k, v *yaml.Node) {
				if !t.setting(&f.b.defaults, k, v) {
					t.unknown(k, "defaults", settingsKeys)
				}
			})
		case "customers":
			t.each(v, "customers", t.customer)
		case "groups":
			t.each(v, "groups", t.group)
		case "hosts":
			t.each(v, "hosts", func(k, v *yaml.Node) { t.hosts(k, v, "", "") })
		case "pools":
			t.each(v, "pools", t.pool)
		default:
			t.unknown(k, "the inventory", topKeys)
		}
	})
	for _, check := range t.late {
		check()
	}
}

func (t *turnus) customer(k, v *yaml.Node) {
	name := k.Value
	c := t.b.customer(name, t.at(k.Line, k.Column))
	what := "customer " + strconv.Quote(name)
	t.each(v, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "sites":
			t.each(v, "sites of "+what, func(k, v *yaml.Node) { t.site(name, c, k, v) })
		case "hosts":
			t.each(v, "hosts of "+what, func(k, v *yaml.Node) { t.hosts(k, v, name, "") })
		default:
			if !t.setting(&c.settings, k, v) {
				t.unknown(k, what, customerKeys)
			}
		}
	})
}

func (t *turnus) site(owner string, c *customer, k, v *yaml.Node) {
	name := k.Value
	s := c.sites[name]
	if s == nil {
		s = &settings{}
		c.sites[name] = s
	}
	what := "site " + strconv.Quote(name)
	t.each(v, what, func(k, v *yaml.Node) {
		switch {
		case k.Value == "hosts":
			t.each(v, "hosts of "+what, func(k, v *yaml.Node) { t.hosts(k, v, owner, name) })
		case !t.setting(s, k, v):
			t.unknown(k, what, siteKeys)
		}
	})
}

func (t *turnus) group(k, v *yaml.Node) {
	what := "group " + strconv.Quote(k.Value)
	g := t.b.group(k.Value, t.at(k.Line, k.Column))
	t.each(v, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "hosts":
			g.match = append(g.match, t.texts(v, "hosts of "+what)...)
		case "children":
			g.childRef = append(g.childRef, t.texts(v, "children of "+what)...)
		case "priority":
			g.priority = t.number(v, "priority of "+what, 1, 1_000_000)
		default:
			if !t.setting(&g.inline, k, v) {
				t.unknown(k, what, groupKeys)
			}
		}
	})
}

func (t *turnus) pool(k, v *yaml.Node) {
	what := "pool " + strconv.Quote(k.Value)
	p := &pool{name: k.Value, at: t.at(k.Line, k.Column)}
	t.b.pools = append(t.b.pools, p)
	t.each(v, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "customers":
			p.customers = t.texts(v, "customers of "+what)
		case "sites":
			p.sites = t.texts(v, "sites of "+what)
		case "groups":
			p.groups = t.texts(v, "groups of "+what)
		case "hosts":
			p.host = t.texts(v, "hosts of "+what)
		default:
			t.unknown(k, what, poolKeys)
		}
	})
}

// hosts reads one entry under hosts:, which a range makes several hosts.
func (t *turnus) hosts(k, v *yaml.Node, customer, site string) {
	names, err := t.b.expand(k.Value, t.at(k.Line, k.Column))
	if err != nil {
		t.fail(k.Line, k.Column, "host %v", err)
		return
	}
	what := "host " + strconv.Quote(shorten(k.Value))
	s := settings{customer: customer, site: site}
	var addresses, groups, aliases, keys []string
	var pairs []string
	t.each(v, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "address":
			addresses = t.parallel(v, "address of "+what, len(names), false)
		case "host_key_alias":
			aliases = t.parallel(v, "host_key_alias of "+what, len(names), false)
		case "ha_group":
			pairs = t.parallel(v, "ha_group of "+what, len(names), true)
		case "host_key":
			keys = plain(t.texts(v, "host_key of "+what))
		case "groups":
			groups = plain(t.texts(v, "groups of "+what))
		case "customer":
			t.owner(&s.customer, v, "customer", what)
		case "site":
			t.owner(&s.site, v, "site", what)
		default:
			if !t.setting(&s, k, v) {
				t.unknown(k, what, hostKeys)
			}
		}
	})
	t.late = append(t.late, func() { t.known(&s, k, what) })
	at := t.at(k.Line, k.Column)
	for i, name := range names {
		if err := checkName(name); err != nil {
			t.fail(k.Line, k.Column, "host %v", err)
			return
		}
		if old := t.b.hosts[name]; old != nil && old.at.file == at.file {
			t.fail(k.Line, k.Column, "host %q is there twice, first at line %d", name, old.at.line)
			return
		}
		e := t.b.host(name, at)
		e.own.over(&s)
		override(&e.own.address, pick(addresses, i, len(names)))
		override(&e.own.ssh.HostKeyAlias, pick(aliases, i, len(names)))
		override(&e.own.haGroup, pick(pairs, i, len(names)))
		overrideList(&e.own.ssh.HostKeys, keys)
		for _, g := range groups {
			t.b.join(t.b.group(g, at), e)
		}
	}
}

// owner reads customer or site of a host where its place does not say it already.
func (t *turnus) owner(into *string, v *yaml.Node, key, what string) {
	if *into != "" {
		t.fail(v.Line, v.Column, "%s stands under the %s %q already", what, key, *into)
		return
	}
	*into = t.text(v, key+" of "+what)
}

// known reports a customer or site that nobody defines, when any is defined.
func (t *turnus) known(s *settings, k *yaml.Node, what string) {
	if s.customer == "" || len(t.b.customers) == 0 {
		return
	}
	c := t.b.customers[s.customer]
	if c == nil {
		t.problem(k.Line, k.Column, "%s: the customer %q is not defined", what, s.customer).
			Hint = yamlread.DidYouMean(s.customer, slices.Sorted(maps.Keys(t.b.customers)))
		return
	}
	if s.site != "" && len(c.sites) > 0 && c.sites[s.site] == nil {
		t.problem(k.Line, k.Column, "%s: the customer %q has no site %q", what, s.customer, s.site).
			Hint = yamlread.DidYouMean(s.site, slices.Sorted(maps.Keys(c.sites)))
	}
}

// parallel expands a value that runs beside the names: as many values as names,
// or, where neighbours may share one, a number that divides theirs.
func (t *turnus) parallel(v *yaml.Node, what string, names int, share bool) []string {
	text := t.text(v, what)
	if text == "" {
		return nil
	}
	n := follow(v)
	values := []string{text}
	if hasRange(text) {
		var err error
		if values, err = expand(text); err != nil {
			t.fail(n.Line, n.Column, "%s: %v", what, err)
			return nil
		}
		if !t.b.spend(len(values), t.at(n.Line, n.Column)) {
			return nil
		}
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

// setting reads a key that every layer may have; false when it is none.
func (t *turnus) setting(s *settings, k, v *yaml.Node) bool {
	what := k.Value
	switch k.Value {
	case "user":
		s.ssh.User = t.text(v, what)
	case "port":
		s.ssh.Port = t.number(v, what, 1, 65535)
	case "credential":
		s.ssh.Credential = t.text(v, what)
	case "identity_file", "certificate_file", "password_env", "password_command":
		t.ownLogin(what, k.Line, k.Column, false)
		t.login(&s.login, what, v)
	case "jump":
		s.ssh.ProxyJump = t.jump(v)
	case "connect_timeout":
		s.ssh.ConnectTimeout = t.duration(v, what)
	case "certificate_principals":
		s.ssh.Principals = t.principals(v)
	case "certificate_source_address":
		s.ssh.SourceAddrs = t.networks(v)
	case "certificate_force_command":
		s.ssh.ForceCommand = t.text(v, what)
	case "window_set":
		s.windowSet = t.text(v, what)
	case "pool":
		s.pool = t.text(v, what)
	case "labels":
		t.each(v, "labels", func(k, v *yaml.Node) { s.setLabel(k.Value, t.text(v, "label "+strconv.Quote(k.Value))) })
	case "vars":
		t.each(v, "vars", func(k, v *yaml.Node) {
			val, err := t.reading.value(v, 0)
			if err != nil {
				t.fail(v.Line, v.Column, "var %q: %v", k.Value, err)
				return
			}
			s.setVar(k.Value, val)
		})
	default:
		return false
	}
	return true
}

// login reads a key that says what to log in with.
func (t *turnus) login(l *Login, key string, v *yaml.Node) {
	switch key {
	case "identity_file":
		l.IdentityFiles = plain(t.texts(v, key))
	case "certificate_file":
		l.CertificateFile = t.text(v, key)
	case "password_env":
		l.PasswordEnv = t.text(v, key)
	case "password_command":
		l.PasswordCommand = t.command(v)
	}
}

// jump reads hosts to go through, outermost first: a list, or text with commas.
func (t *turnus) jump(v *yaml.Node) []string {
	var out []string
	for _, s := range t.texts(v, "jump") {
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
	if n := follow(v); n.Kind == yaml.ScalarNode {
		return strings.Fields(t.text(n, "password_command"))
	}
	return plain(t.texts(v, "password_command"))
}

// principals reads names that a certificate is for.
func (t *turnus) principals(v *yaml.Node) []string {
	var out []string
	for _, s := range t.texts(v, "certificate_principals") {
		if s.text == "" || strings.ContainsAny(s.text, ", \t\n\"*?") {
			t.b.fail(s.at, "certificate_principals: %q is no principal: expected a name without blanks, commas and wildcards", s.text)
			continue
		}
		out = append(out, s.text)
	}
	return out
}

// networks reads the addresses and networks that a certificate may be used from.
func (t *turnus) networks(v *yaml.Node) []string {
	var out []string
	for _, s := range t.texts(v, "certificate_source_address") {
		_, one := netip.ParseAddr(s.text)
		if _, err := netip.ParsePrefix(s.text); err != nil && one != nil {
			t.b.fail(s.at, "certificate_source_address: %q is no address and no network, such as 192.0.2.7 or 192.0.2.0/24", s.text)
			continue
		}
		out = append(out, s.text)
	}
	return out
}

func (t *turnus) number(v *yaml.Node, what string, low, high int) int {
	v = follow(v)
	n, err := strconv.Atoi(v.Value)
	if v.Kind != yaml.ScalarNode || err != nil || n < low || n > high {
		t.fail(v.Line, v.Column, "%s must be a number from %d to %d, not %s", what, low, high, kindOf(v))
		return 0
	}
	return n
}

func (t *turnus) duration(v *yaml.Node, what string) time.Duration {
	v = follow(v)
	d, err := time.ParseDuration(v.Value)
	if v.Kind != yaml.ScalarNode || err != nil || d <= 0 || d > time.Hour {
		t.fail(v.Line, v.Column, "%s must be a duration up to 1h, such as 10s, not %s", what, kindOf(v))
		return 0
	}
	return d
}
