package inventory

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Origin is a value of a host with the layer and the place that it comes from.
type Origin struct {
	Field string // as the Turnus format has it, such as address, labels.role or vars.ntp
	Value any
	Layer string // defaults, customer NAME, site NAME, group NAME, pool NAME or host
	Place string // file:line:col, or the record of a source
}

// Explain loads as Load does, and returns where each value of one host comes from. A password is
// named, not shown.
func Explain(ctx context.Context, paths []string, host string, docs ...Document) ([]Origin, error) {
	return explain(ctx, disk{}, paths, host, docs)
}

// ExplainFS is Explain of paths of a tree, which LoadFS and LoadDocument load.
func ExplainFS(ctx context.Context, tree fs.FS, paths []string, host string, docs ...Document) ([]Origin, error) {
	return explain(ctx, tree, paths, host, docs)
}

func explain(ctx context.Context, tree fs.FS, paths []string, host string, docs []Document) ([]Origin, error) {
	p := parts{tree: tree, paths: paths, docs: docs, explained: host}
	inv, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := inv.Host(host); !ok {
		hint := yamlread.DidYouMean(host, slices.Collect(maps.Keys(inv.index)))
		if hint != "" {
			hint = "\nhint: " + hint
		}
		return nil, fmt.Errorf("the inventory has no host %s: %w%s", yamlread.Quote(host), core.ErrNotFound, hint)
	}
	return p.origins, nil
}

// note records the place of a key of some settings, if a host will be explained.
func (b *builder) note(s *settings, field string, at place) {
	if b.explained == "" || field == "" {
		return
	}
	if s.places == nil {
		s.places = map[string]place{}
	}
	s.places[field] = at
}

// explain fills the origins of a host from its layers: the last one that has a key sets it.
func (b *builder) explain(e *entry, h *core.Host, s *settings) {
	layers := slices.Concat([]layer{{"defaults", &b.defaults}}, b.layers(e, h.Customer, h.Site), []layer{{"host", &e.own}, {"host", &e.files}})
	add := func(field string, value any) {
		o := Origin{Field: field, Value: value}
		for _, l := range layers {
			if at, ok := l.settings.places[field]; ok {
				o.Layer, o.Place = l.name, b.placeOf(e.name, field, at)
			}
		}
		if field == "pool" && o.Place == "" {
			o.Layer, o.Place = b.claimed(h)
		}
		b.origins = append(b.origins, o)
	}
	b.origins = []Origin{{Field: "name", Value: e.name, Layer: "host", Place: b.placeOf(e.name, "name", e.at)}}
	for _, f := range shown(h, s) {
		if f.value != "" {
			add(f.name, f.value)
		}
	}
	for _, g := range e.allGroups() {
		if slices.Contains(h.Groups, g.name) {
			b.origins = append(b.origins, Origin{Field: "groups", Value: g.name, Layer: "group " + g.name, Place: b.placeOf(e.name, "groups", g.at)})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		add("labels."+k, h.Labels[k])
	}
	for _, k := range slices.Sorted(maps.Keys(h.Vars)) {
		add("vars."+k, h.Vars[k])
	}
}

// placeOf is a place for people: the place that a source names, or else file, line and column.
func (b *builder) placeOf(host, field string, at place) string {
	if from := b.froms[at.file]; from != nil {
		if text := from(host, field); text != "" {
			return at.file + ": " + text
		}
	}
	return at.String()
}

// claimed is the pool that has the host by pools:.
func (b *builder) claimed(h *core.Host) (layer, at string) {
	for _, p := range b.pools {
		if p.name == h.Pool && p.claims(h) {
			return "pool " + p.name, b.placeOf(h.Name, "pool", p.at)
		}
	}
	return "", ""
}

type shownField struct{ name, value string }

// shown are the settings of a host as text. Of a password it shows only that there is one.
func shown(h *core.Host, s *settings) []shownField {
	hidden := func(secret string) string {
		if secret == "" {
			return ""
		}
		return "(hidden)"
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	took := ""
	if h.SSH.ConnectTimeout > 0 {
		took = h.SSH.ConnectTimeout.Round(time.Millisecond).String()
	}
	list := func(l []string) string { return strings.Join(l, ", ") }
	return []shownField{
		{"address", h.Address},
		{"customer", h.Customer},
		{"site", h.Site},
		{"pool", h.Pool},
		{"window_set", h.WindowSet},
		{"ha_group", h.HAGroup},
		{"user", h.SSH.User},
		{"port", number(h.SSH.Port)},
		{"jump", list(h.SSH.ProxyJump)},
		{"credential", h.SSH.Credential},
		{"host_key", list(h.SSH.HostKeys)},
		{"host_key_alias", h.SSH.HostKeyAlias},
		{"connect_timeout", took},
		{"certificate_principals", list(h.SSH.Principals)},
		{"certificate_source_address", list(h.SSH.SourceAddrs)},
		{"certificate_force_command", h.SSH.ForceCommand},
		{"first_contact", h.SSH.FirstContact},
		{"become", becomeText(h.Become)},
		{"identity_file", list(s.login.IdentityFiles)},
		{"certificate_file", s.login.CertificateFile},
		{"password_env", s.login.PasswordEnv},
		{"password_command", list(s.login.PasswordCommand)},
		{"password", hidden(s.login.Password)},
		{"become_password", hidden(s.login.BecomePassword)},
	}
}

func becomeText(b core.HostBecome) string {
	if b == (core.HostBecome{}) {
		return ""
	}
	return fmt.Sprintf("always: %t, user: %s, method: %s", b.Always, cmp.Or(b.User, "root"), cmp.Or(b.Method, core.BecomeSudo))
}

// settingOf is the Turnus key that a connection var of Ansible sets; "" for none.
func settingOf(key string) string {
	switch key {
	case "ansible_host", "ansible_ssh_host":
		return "address"
	case "ansible_port", "ansible_ssh_port":
		return "port"
	case "ansible_user", "ansible_ssh_user":
		return "user"
	case "ansible_ssh_private_key_file", "ansible_private_key_file":
		return "identity_file"
	case "ansible_password", "ansible_ssh_pass", "ansible_ssh_password":
		return "password"
	case "ansible_ssh_common_args", "ansible_ssh_extra_args":
		return "jump"
	case "ansible_become", "ansible_become_user", "ansible_become_method":
		return "become"
	case "ansible_become_password", "ansible_become_pass", "ansible_sudo_pass":
		return "become_password"
	}
	name, _ := strings.CutPrefix(key, "turnus_")
	return name
}
