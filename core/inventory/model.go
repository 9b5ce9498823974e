package inventory

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// settings are the settings of hosts in one layer. An empty one is not set there.
type settings struct {
	ssh       core.SSH
	extraJump []string // of ansible_ssh_extra_args: used if ssh.ProxyJump has none
	windowSet string
	pool      string
	address   string
	haGroup   string
	customer  string
	site      string
	login     Login
	become    become
	labels    map[string]string
	vars      map[string]any
	places    map[string]place // of keys, where they are recorded: see builder.note
}

func (s *settings) setVar(k string, v any) {
	if s.vars == nil {
		s.vars = make(map[string]any)
	}
	s.vars[k] = v
}

func (s *settings) setLabel(k, v string) {
	if s.labels == nil {
		s.labels = make(map[string]string)
	}
	s.labels[k] = v
}

// over lays a later layer over s. Maps are replaced by merged copies, never
// changed, so that layers can share them.
func (s *settings) over(top *settings) {
	override(&s.windowSet, top.windowSet)
	override(&s.pool, top.pool)
	override(&s.address, top.address)
	override(&s.haGroup, top.haGroup)
	override(&s.customer, top.customer)
	override(&s.site, top.site)
	a, b := &s.ssh, &top.ssh
	override(&a.User, b.User)
	override(&a.Port, b.Port)
	override(&a.HostKeyAlias, b.HostKeyAlias)
	override(&a.ConnectTimeout, b.ConnectTimeout)
	override(&a.ForceCommand, b.ForceCommand)
	override(&a.FirstContact, b.FirstContact)
	s.overLogin(top)
	s.become.over(top.become)
	overrideList(&a.ProxyJump, b.ProxyJump)
	overrideList(&s.extraJump, top.extraJump)
	overrideList(&a.HostKeys, b.HostKeys)
	overrideList(&a.Principals, b.Principals)
	overrideList(&a.SourceAddrs, b.SourceAddrs)
	s.labels = merged(s.labels, top.labels)
	s.vars = merged(s.vars, top.vars)
	s.places = merged(s.places, top.places)
}

// overLogin lays how to log in over s. A layer that names a credential replaces what the layers
// below it log in with, and the other way round.
func (s *settings) overLogin(top *settings) {
	a, b := &s.login, &top.login
	if !b.None() {
		s.ssh.Credential = ""
	}
	override(&a.Password, b.Password)
	override(&a.BecomePassword, b.BecomePassword)
	override(&a.CertificateFile, b.CertificateFile)
	overrideList(&a.IdentityFiles, b.IdentityFiles)
	if b.PasswordEnv != "" || b.PasswordCommand != nil { // one way to a password replaces the other
		a.PasswordEnv, a.PasswordCommand = b.PasswordEnv, b.PasswordCommand
	}
	if top.ssh.Credential != "" {
		s.ssh.Credential, s.login = top.ssh.Credential, Login{}
	}
}

func override[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}

func overrideList(dst *[]string, v []string) {
	if v != nil {
		*dst = v
	}
}

func merged[V any](under, over map[string]V) map[string]V {
	if len(over) == 0 {
		return under
	}
	if len(under) == 0 {
		return over
	}
	m := make(map[string]V, len(under)+len(over))
	maps.Copy(m, under)
	maps.Copy(m, over)
	return m
}

type (
	group struct {
		name     string
		at       place
		inline   settings // set by inventories
		files    settings // set by group_vars files
		priority int
		children []*group
		has      map[*group]bool // the same as a set
		hosts    []*entry
		match    []selector // of hosts, resolved when all are known
		childRef []selector // the same for groups

		id      int
		depth   int
		parents []*group
		up      []*group // itself and every group above, without all
		state   int      // of the walk that looks for cycles
	}

	// entry is one host.
	entry struct {
		name   string
		at     place
		own    settings
		files  settings // set by host_vars files
		groups []*group // direct ones
	}

	customer struct {
		settings settings
		sites    map[string]*settings
		at       place
	}

	pool struct {
		name                           string
		at                             place
		customers, sites, groups, host []selector
	}

	// selector is a name or pattern with its place.
	selector struct {
		text string
		at   place
	}
)

// builder collects the data of the sources; build makes hosts of it.
type builder struct {
	tree       fs.FS // disk, or a tree that is given
	defaults   settings
	customers  map[string]*customer
	groups     map[string]*group
	order      []*group
	hosts      map[string]*entry
	list       []*entry
	pools      []*pool
	varDirs    []string // folders beside which group_vars and host_vars may be
	beside     string   // one more such folder, read last; "" for none
	files      int
	errs       Errors
	logins     Errors // places that set what to log in with, which others must not
	warnings   []string
	warned     map[string]bool
	bounds     yamlread.Bounds                            // of all files together
	expanded   int                                        // names that patterns were expanded to
	compared   int                                        // names that were compared with patterns
	besideRead bool                                       // varDirs have the files of beside already
	explained  string                                     // the host whose values are asked for; "" records no places
	origins    []Origin                                   // of that host
	froms      map[string]func(host, field string) string // of documents
	of         *Document                                  // only its hosts are made; nil: those of the paths
	known      known                                      // names of other documents
	ran        map[string][]byte                          // what programs printed already, by their calls
}

func newBuilder(tree fs.FS) *builder {
	return &builder{
		tree:      tree,
		customers: map[string]*customer{}, groups: map[string]*group{}, hosts: map[string]*entry{},
		warned: map[string]bool{}, froms: map[string]func(host, field string) string{}, bounds: yamlread.Bounds{Values: maxRead, Bytes: math.MaxInt},
	}
}

// stop ends the reading at a bound, with one error, however many there are already.
func (b *builder) stop(at place, format string, args ...any) {
	if !b.bounds.Full {
		b.bounds.Full = true
		b.errs = append(b.errs, &Error{File: at.file, Line: at.line, Col: at.col, Msg: fmt.Sprintf(format, args...)})
	}
}

// expand writes out a pattern within the bound of all patterns.
func (b *builder) expand(pattern string, at place) ([]string, error) {
	if b.bounds.Full {
		return nil, nil
	}
	names, err := expand(pattern)
	if b.expanded += len(names); b.expanded > maxExpanded {
		b.stop(at, "all patterns together are more than %d names", maxExpanded)
		return nil, nil
	}
	return names, err
}

// host finds or adds a host.
func (b *builder) host(name string, at place) *entry {
	if e := b.hosts[name]; e != nil {
		return e
	}
	e := &entry{name: name, at: at}
	if len(b.list) >= maxHosts {
		b.stop(at, "more than %d hosts", maxHosts)
		return e
	}
	b.hosts[name] = e
	b.list = append(b.list, e)
	return e
}

// group finds or adds a group.
func (b *builder) group(name string, at place) *group {
	if g := b.groups[name]; g != nil {
		return g
	}
	g := &group{name: name, at: at, priority: 1, id: len(b.order)}
	if len(b.order) >= maxGroups {
		b.stop(at, "more than %d groups", maxGroups)
		return g
	}
	b.groups[name] = g
	b.order = append(b.order, g)
	return g
}

func (b *builder) customer(name string, at place) *customer {
	c := b.customers[name]
	if c == nil {
		c = &customer{sites: map[string]*settings{}, at: at}
		b.customers[name] = c
	}
	return c
}

func (g *group) addChild(c *group) {
	if !g.has[c] {
		if g.has == nil {
			g.has = map[*group]bool{}
		}
		g.has[c] = true
		g.children = append(g.children, c)
	}
}

// join puts a host into a group.
func (b *builder) join(g *group, e *entry) {
	if slices.Contains(e.groups, g) {
		return
	}
	if len(e.groups) >= maxMembership {
		b.stop(e.at, "host %q is in more than %d groups", e.name, maxMembership)
		return
	}
	e.groups = append(e.groups, g)
	g.hosts = append(g.hosts, e)
}

// build resolves groups and layers. Mistakes go to b.errs.
func (b *builder) build() *Inventory {
	b.resolveChildren()
	b.resolveMembers()
	if g := b.groups["ungrouped"]; g != nil {
		for _, e := range b.list {
			if len(e.groups) == 0 {
				b.join(g, e)
			}
		}
	}
	if b.bounds.Full || !b.orderGroups() {
		return nil
	}
	inv := &Inventory{
		Hosts: make([]core.Host, 0, len(b.list)), Warnings: b.warnings, foreign: b.logins,
		index: make(map[string]int, len(b.list)), members: map[string][]int{}, logins: map[string]Login{},
	}
	bases := map[string]*base{}
	var key []byte
	for _, e := range b.list {
		if b.of != nil && e.at.file != b.of.Name {
			continue // the document does not name it
		}
		who, where := b.belongs(e)
		key = append(append(append(append(key[:0], who...), 0), where...), 0)
		for _, g := range e.groups {
			key = append(key, byte(g.id), byte(g.id>>8), byte(g.id>>16))
		}
		under := bases[string(key)]
		if under == nil {
			under = b.base(e, who, where)
			bases[string(key)] = under
		}
		s := under.settings
		s.over(&e.own)
		s.over(&e.files)
		s.customer, s.site = who, where
		b.finish(inv, e, &s, under)
	}
	b.orderMembers(inv)
	return inv
}

// base is the result of all layers below the host; hosts alike share it.
type base struct {
	settings settings
	groups   []string
}

func (b *builder) base(e *entry, who, where string) *base {
	out := &base{settings: b.defaults}
	for _, l := range b.layers(e, who, where) {
		out.settings.over(l.settings)
	}
	for _, g := range e.allGroups() {
		if g.name != "ungrouped" {
			out.groups = append(out.groups, g.name)
		}
	}
	slices.Sort(out.groups)
	return out
}

// layer is one place of the order of layers, with its settings.
type layer struct {
	name     string
	settings *settings
}

// layers are those between the defaults and the host itself, in order.
func (b *builder) layers(e *entry, who, where string) (all []layer) {
	if c := b.customers[who]; c != nil {
		all = append(all, layer{"customer " + who, &c.settings})
		if site := c.sites[where]; site != nil {
			all = append(all, layer{"site " + where, site})
		}
	}
	if g := b.groups["all"]; g != nil {
		all = append(all, layer{"group all", &g.inline}, layer{"group all", &g.files})
	}
	gs := e.allGroups()
	for _, g := range gs {
		all = append(all, layer{"group " + g.name, &g.inline})
	}
	for _, g := range gs {
		all = append(all, layer{"group " + g.name, &g.files})
	}
	return all
}

// belongs finds a host's customer and site: its own word, else its groups'.
func (b *builder) belongs(e *entry) (who, where string) {
	who, where = e.own.customer, e.own.site
	if e.files.customer != "" {
		who = e.files.customer
	}
	if e.files.site != "" {
		where = e.files.site
	}
	if who != "" && where != "" || len(e.groups) == 0 && b.groups["all"] == nil {
		return who, where
	}
	var s settings
	if all := b.groups["all"]; all != nil {
		s.customer, s.site = all.inline.customer, all.inline.site
		override(&s.customer, all.files.customer)
		override(&s.site, all.files.site)
	}
	if b.groupsBelong() {
		for _, g := range e.allGroups() {
			override(&s.customer, g.inline.customer)
			override(&s.site, g.inline.site)
			override(&s.customer, g.files.customer)
			override(&s.site, g.files.site)
		}
	}
	who = cmp.Or(who, s.customer)
	where = cmp.Or(where, s.site)
	return who, where
}

// groupsBelong reports whether any group names a customer or site.
func (b *builder) groupsBelong() bool {
	return slices.ContainsFunc(b.order, func(g *group) bool {
		return g.inline.customer != "" || g.files.customer != "" || g.inline.site != "" || g.files.site != ""
	})
}

// finish makes the host and files it under its name, groups, customer and site.
func (b *builder) finish(inv *Inventory, e *entry, s *settings, under *base) {
	h := core.Host{
		Name: e.name, Address: s.address, Customer: s.customer, Site: s.site, Pool: s.pool, HAGroup: s.haGroup,
		WindowSet: s.windowSet, Groups: under.groups, Labels: s.labels, Vars: s.vars, SSH: s.ssh,
		Become: s.become.host(),
	}
	h.SSH.ProxyJump = hops(s.ssh.ProxyJump)
	if h.SSH.ProxyJump == nil {
		h.SSH.ProxyJump = hops(s.extraJump)
	}
	if h.Pool == "" {
		h.Pool = b.poolOf(e, &h)
	}
	if e.name == b.explained {
		b.explain(e, &h, s)
	}
	i := len(inv.Hosts)
	inv.Hosts = append(inv.Hosts, h)
	inv.places = append(inv.places, e.at)
	inv.index[h.Name] = i
	for _, g := range h.Groups {
		inv.members[g] = append(inv.members[g], i)
	}
	if len(h.Groups) == 0 {
		inv.members["ungrouped"] = append(inv.members["ungrouped"], i)
	}
	for _, name := range []string{h.Customer, h.Site} {
		if m := inv.members[name]; name != "" && (len(m) == 0 || m[len(m)-1] != i) {
			inv.members[name] = append(m, i)
		}
	}
	if !s.login.None() {
		inv.logins[h.Name] = s.login
	}
}

// noJump removes jump hosts of outer layers.
const noJump = "none"

func hops(jump []string) []string {
	if slices.Equal(jump, []string{noJump}) {
		return nil
	}
	return jump
}

// poolOf finds the pool that claims a host. Two that do are a mistake.
func (b *builder) poolOf(e *entry, h *core.Host) string {
	var found *pool
	for _, p := range b.pools {
		if !p.claims(h) {
			continue
		}
		if found != nil && found.name != p.name {
			b.problem(e.at, "host %q is claimed by the pools %q (%s) and %q (%s)", h.Name, found.name, found.at, p.name, p.at).
				Hint = "write pool: on the host, its site or its customer, which beats pools:"
			return found.name
		}
		found = p
	}
	if found == nil {
		return ""
	}
	return found.name
}

func (p *pool) claims(h *core.Host) bool {
	return anyMatch(p.customers, h.Customer) || anyMatch(p.sites, h.Site) || h.Customer != "" && anyMatch(p.sites, h.Customer+"/"+h.Site) ||
		slices.ContainsFunc(h.Groups, func(g string) bool { return anyMatch(p.groups, g) }) || anyMatch(p.host, h.Name)
}

func anyMatch(ss []selector, name string) bool {
	return slices.ContainsFunc(ss, func(s selector) bool { return name != "" && glob(s.text, name) })
}

// allGroups is every group of a host except all, in the order of layers.
func (e *entry) allGroups() []*group {
	var gs []*group
	for _, g := range e.groups {
		for _, u := range g.up {
			if u.name == "ungrouped" && len(e.groups) > 1 {
				continue // it is in another group after all
			}
			if !slices.Contains(gs, u) {
				gs = append(gs, u)
			}
		}
	}
	slices.SortFunc(gs, func(a, b *group) int {
		if a.depth != b.depth {
			return a.depth - b.depth
		}
		if a.priority != b.priority {
			return a.priority - b.priority
		}
		return strings.Compare(a.name, b.name)
	})
	return gs
}
