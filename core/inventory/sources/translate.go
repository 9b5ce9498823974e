package sources

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/turnus/turnus/core/inventory"
)

// defaultMap has the places of a host's values in a record of NetBox. map: of a source replaces
// single entries.
func defaultMap() map[string]string {
	return map[string]string{
		"address": "primary_ip.address", "customer": "tenant.slug", "site": "site.slug", "groups": "tags.slug",
		"labels.role": "role.slug", "labels.platform": "platform.slug", "labels.model": "device_type.slug", "labels.status": "status.value",
	}
}

// translate makes hosts of records. A record that is no host, because it has no name or address or
// shares its name with another one, is left out and named.
func (s Source) translate(records []record, g *Generation) error {
	g.Paths, g.Records = maps.Clone(s.Map), map[string]string{}
	g.Paths["name"] = "name"
	names := map[string]int{}
	for _, r := range records {
		if name, ok := r.fields["name"].(string); ok {
			names[name]++
		}
	}
	hosts := map[string]any{}
	for _, r := range records {
		name, _ := r.fields["name"].(string)
		switch {
		case name == "":
			g.leave(r.place(), "it has no name")
			continue
		case names[name] > 1:
			g.leave(r.place(), fmt.Sprintf("%d records have the name %s", names[name], clipped(name)))
			continue
		case inventory.CheckName(name) != nil:
			g.leave(r.place(), "the name "+clipped(name)+" is none of a host")
			continue
		}
		host, why := s.host(r)
		if why != "" {
			g.leave(r.place()+" "+clipped(name), why)
			continue
		}
		hosts[name] = host
		g.Records[name] = r.place()
	}
	body, err := json.MarshalIndent(map[string]any{"hosts": hosts}, "", " ")
	if err != nil {
		return fmt.Errorf("write hosts: %w", err)
	}
	g.Body = string(body)
	return nil
}

// host is a record in the Turnus format; why is the reason if it is none.
func (s Source) host(r record) (host map[string]any, why string) {
	host = map[string]any{}
	nested := func(key, name string, value any) {
		m, _ := host[key].(map[string]any)
		if m == nil {
			m = map[string]any{}
			host[key] = m
		}
		m[name] = value
	}
	for _, field := range slices.Sorted(maps.Keys(s.Map)) {
		value := lookup(r.fields, strings.Split(s.Map[field], "."))
		if value == nil || value == "" {
			continue
		}
		if name, ok := strings.CutPrefix(field, "vars."); ok {
			nested("vars", name, value)
			continue
		}
		text, isText := plainText(value)
		switch name, isLabel := strings.CutPrefix(field, "labels."); {
		case isLabel && isText:
			nested("labels", name, text)
		case field == "groups" || field == "host_key":
			host[field] = listOf(value)
		case isText:
			host[field] = text
		default:
			return nil, field + " is no single value"
		}
	}
	if _, asked := s.Map["address"]; !asked {
		return host, ""
	}
	address, _ := host["address"].(string)
	address, _, _ = strings.Cut(address, "/") // NetBox writes 192.0.2.1/24
	if address == "" {
		return nil, "it has no address"
	}
	if _, err := netip.ParseAddr(address); err != nil && inventory.CheckName(address) != nil {
		return nil, "its address is none"
	}
	host["address"] = address
	return host, ""
}

// lookup follows a path; through a list it gives the values of each item.
func lookup(value any, path []string) any {
	if len(path) == 0 {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		return lookup(v[path[0]], path[1:])
	case []any:
		var all []any
		for _, item := range v {
			if one := lookup(item, path); one != nil {
				all = append(all, one)
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

func plainText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number, bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

func listOf(value any) []string {
	out := []string{}
	if many, ok := value.([]any); ok {
		for _, item := range many {
			if text, ok := plainText(item); ok {
				out = append(out, text)
			}
		}
		return out
	}
	if text, ok := plainText(value); ok {
		out = append(out, text)
	}
	return out
}
