package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// yaml reads a YAML or JSON file; it reports whether it was an Ansible one.
func (f *file) yaml(data []byte) bool {
	var root *yaml.Node
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data) {
		root = f.parseJSON(data)
	} else {
		root = f.parseYAML(data)
	}
	if root == nil {
		return false
	}
	return f.parsed(root)
}

// parsed reads a file in the format of its top-level keys, and reports whether it was an Ansible
// one.
func (f *file) parsed(root *yaml.Node) bool {
	switch f.dialect(root) {
	case "turnus":
		f.turnus(root)
		return false
	case "list":
		f.listing(root, nil)
	case "plugin":
		f.problem(root.Line, root.Column, "this configures an inventory plugin of Ansible, which is not supported").
			Hint = "write its result into a file: ansible-inventory -i FILE --list > hosts.json"
	default:
		f.ansibleGroups(root)
	}
	return true
}

// dialect returns, by the top-level keys, the kind of a file: "turnus", "ansible", "list"
// (Ansible's --list) or "plugin".
func (f *file) dialect(root *yaml.Node) string {
	if root.Kind != yaml.MappingNode {
		return "turnus" // which explains what is expected
	}
	if f.given && isListing(root) {
		return "list"
	}
	looksLikeGroups := true
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch k := root.Content[i].Value; k {
		case "_meta":
			return "list"
		case "plugin":
			return "plugin"
		case "all", "ungrouped":
			return "ansible"
		default:
			if slices.Contains(topKeys, k) {
				return "turnus"
			}
		}
		looksLikeGroups = looksLikeGroups && isGroup(yamlread.Target(root.Content[i+1]))
	}
	if looksLikeGroups {
		return "ansible"
	}
	return "turnus"
}

func isGroup(n *yaml.Node) bool {
	if yamlread.IsNull(n) {
		return true
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !slices.Contains(groupKeys, n.Content[i].Value) {
			return false
		}
	}
	return true
}

// isListing reports whether an object has groups as --list prints them, with lists of names.
func isListing(root *yaml.Node) bool {
	isList := func(n *yaml.Node) bool { return yamlread.Target(n).Kind == yaml.SequenceNode }
	for i := 0; i+1 < len(root.Content); i += 2 {
		n := yamlread.Target(root.Content[i+1])
		if slices.Contains(topKeys, root.Content[i].Value) {
			return false
		}
		if isList(n) || isGroup(n) && n.Kind == yaml.MappingNode && slices.ContainsFunc(n.Content, isList) {
			return true
		}
	}
	return false
}

// ansibleGroups reads Ansible's YAML inventory.
func (f *file) ansibleGroups(root *yaml.Node) {
	r := &reading{f: f, left: maxNodes, ansible: true}
	f.each(root, "the inventory", func(k, v *yaml.Node) { f.ansibleGroup(r, k, v, 0) })
}

func (f *file) ansibleGroup(r *reading, k, v *yaml.Node, depth int) *group {
	g := f.b.group(k.Value, f.at(k.Line, k.Column))
	what := "group " + strconv.Quote(k.Value)
	if r.left--; depth > maxDepth || r.left < 0 {
		f.fail(k.Line, k.Column, "%s: %v", what, errBudget)
		return g
	}
	f.each(v, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "vars":
			f.varsInto(r, v, &g.inline, g)
		case "children":
			f.each(v, "children of "+what, func(k, v *yaml.Node) { g.addChild(f.ansibleGroup(r, k, v, depth+1)) })
		case "hosts":
			f.ansibleHosts(r, g, v)
		default:
			f.warn(k.Line, k.Column, "%s: unknown key %q is left out", what, k.Value)
		}
	})
	return g
}

func (f *file) ansibleHosts(r *reading, g *group, v *yaml.Node) {
	if n := yamlread.Target(v); n.Kind == yaml.ScalarNode && !yamlread.IsNull(n) {
		f.namedHosts(g, n.Value, n.Line, n.Column)
		return
	}
	f.each(v, "hosts of group "+strconv.Quote(g.name), func(k, v *yaml.Node) {
		for _, e := range f.namedHosts(g, k.Value, k.Line, k.Column) {
			f.varsInto(r, v, &e.own, nil)
		}
	})
}

// namedHosts adds the hosts of a pattern, with its port, to a group.
func (f *file) namedHosts(g *group, pattern string, line, col int) []*entry {
	if f.Full {
		return nil
	}
	names, port, err := expandHost(pattern)
	if f.b.expanded += len(names); f.b.expanded > maxExpanded {
		f.b.stop(f.at(line, col), "all patterns together are more than %d names", maxExpanded)
		return nil
	}
	if err != nil {
		f.fail(line, col, "host %v", err)
		return nil
	}
	out := make([]*entry, 0, len(names))
	for _, n := range names {
		e := f.b.host(n, f.at(line, col))
		if port > 0 {
			e.own.ssh.Port = port
			f.b.note(&e.own, "port", f.at(line, col))
		}
		if g != nil && g.name != "all" {
			f.b.join(g, e)
		}
		out = append(out, e)
	}
	return out
}

// ansibleVars reads a whole file of vars.
func (f *file) ansibleVars(root *yaml.Node, into *settings, g *group) {
	f.varsInto(&reading{f: f, left: maxNodes, ansible: true}, root, into, g)
}

// varsInto reads a mapping of vars; g is the group they belong to, nil for a host.
func (f *file) varsInto(r *reading, n *yaml.Node, into *settings, g *group) {
	f.each(n, "vars", func(k, v *yaml.Node) {
		val, err := r.value(v, 0)
		switch {
		case errors.Is(err, errVault):
			f.warn(k.Line, k.Column, "var %q is encrypted with Ansible Vault, which is not supported; it is left out", k.Value)
		case err != nil:
			f.fail(k.Line, k.Column, "var %q: %v", k.Value, err)
		default:
			f.ansibleVar(into, g, k.Value, val, k.Line, k.Column)
		}
	})
}

// ansibleVar files one var: keys about how to reach a host go to the settings, secrets go to
// Inventory.Login or nowhere, all else is a var.
func (f *file) ansibleVar(into *settings, g *group, key string, val any, line, col int) {
	text := fmt.Sprint(val)
	if val == nil {
		text = ""
	}
	if key == "window_set" || key == "ha_group" || key == "credential" { // keys of a Turnus inventory: here they set nothing
		f.warn(line, col, "%s is a plain var here; if it is meant for Turnus, write turnus_%s", key, key)
	}
	if strings.HasPrefix(key, "ansible_") || strings.HasPrefix(key, "turnus_") {
		if strings.Contains(text, "{{") && isConnection(key) {
			f.warn(line, col, "%s holds a Jinja expression, which is not supported; it is left out", key)
			return
		}
		if f.connection(into, g, key, text, line, col) {
			f.b.note(into, settingOf(key), f.at(line, col))
			return
		}
	}
	if s, ok := val.(string); ok && strings.Contains(s, "{{") {
		f.warn(line, col, "var %q holds a Jinja expression, which is kept as text", key)
	}
	into.setVar(key, val)
	f.b.note(into, "vars."+key, f.at(line, col))
}

func isConnection(key string) bool {
	switch key {
	case "ansible_python_interpreter":
		return false
	}
	return true
}

// connection applies a var that Ansible itself reads; false when it is none of these.
func (f *file) connection(into *settings, g *group, key, text string, line, col int) bool {
	switch key {
	case "ansible_host", "ansible_ssh_host":
		into.address = text
	case "ansible_port", "ansible_ssh_port":
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			f.fail(line, col, "%s: %q is no port", key, text)
			return true
		}
		into.ssh.Port = port
	case "ansible_user", "ansible_ssh_user":
		into.ssh.User = text
	case "ansible_ssh_private_key_file", "ansible_private_key_file":
		if text != "" {
			f.ownLogin(key, line, col, false)
			into.login.IdentityFiles = []string{text}
		}
	case "ansible_password", "ansible_ssh_pass", "ansible_ssh_password":
		if text != "" {
			f.ownLogin(key, line, col, true)
			into.login.Password = text
		}
	case "ansible_ssh_common_args", "ansible_ssh_extra_args":
		f.sshArgs(into, key, text, line, col)
	case "ansible_ssh_args":
		if strings.Contains(text, "-J") || strings.Contains(strings.ToLower(text), "proxy") {
			f.warn(line, col, "%s is not used: write its jump host in ansible_ssh_common_args", key)
		}
		return false
	case "ansible_become_exe", "ansible_become_flags", "ansible_ssh_executable":
		if text != "" {
			f.warn(line, col, "%s is not supported: it is a plain var here", key)
		}
		return false
	case "ansible_connection":
		if text != "ssh" && text != "smart" && text != "paramiko" && text != "paramiko_ssh" {
			f.warn(line, col, "ansible_connection=%s is not supported: the host is reached over SSH", text)
		}
	case "ansible_group_priority":
		if n, err := strconv.Atoi(text); err == nil && g != nil {
			g.priority = n
			return true
		}
		f.warn(line, col, "ansible_group_priority must be a number of a group; it is left out")
	case "turnus_customer":
		into.customer = text
	case "turnus_site":
		into.site = text
	case "turnus_pool":
		into.pool = text
	case "turnus_ha_group":
		into.haGroup = text
	case "turnus_window_set":
		into.windowSet = text
	case "turnus_credential":
		into.ssh.Credential = text
	default:
		if f.ansibleBecome(into, key, text, line, col) {
			return true
		}
		if !secretVar(key) {
			return false
		}
		f.warn(line, col, "%s is not used and not kept: a var is written to the queue in the clear", key)
	}
	return true
}

// secretVar reports whether a var of some Ansible plugin is a password, passphrase, token or
// private key.
func secretVar(key string) bool { return strings.HasPrefix(key, "ansible_") && SecretName(key) }

// SecretName reports whether the name of a var marks its value as a secret, such as db_password.
func SecretName(name string) bool {
	name = "_" + strings.ToLower(name)
	return slices.ContainsFunc([]string{"_pass", "_passwd", "_password", "_passphrase", "_token", "_secret", "_private_key"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// sshArgs finds the jump hosts in arguments for ssh; the rest is named in a warning.
func (f *file) sshArgs(into *settings, key, text string, line, col int) {
	words, err := splitWords(text, false)
	if err != nil {
		f.warn(line, col, "%s: %v; it is left out", key, err)
		return
	}
	jump := &into.ssh.ProxyJump
	if key == "ansible_ssh_extra_args" {
		jump = &into.extraJump
	}
	*jump = []string{noJump} // arguments replace those of outer layers as a whole
	for i := 0; i < len(words); i++ {
		w, arg := words[i], ""
		switch {
		case w == "-J" || w == "-o":
			if i+1 < len(words) {
				i++
				arg = words[i]
			}
		case strings.HasPrefix(w, "-J"), strings.HasPrefix(w, "-o"):
			w, arg = w[:2], w[2:]
		}
		name, value, _ := strings.Cut(strings.Replace(arg, " ", "=", 1), "=")
		switch {
		case w == "-J":
			*jump = jumps(arg)
		case w == "-o" && strings.EqualFold(name, "ProxyJump"):
			*jump = jumps(value)
		case w == "-o" && strings.EqualFold(name, "ProxyCommand"):
			f.warn(line, col, "%s: ProxyCommand is not supported: write -o ProxyJump=HOST instead", key)
		case w == "-o" && (strings.EqualFold(name, "StrictHostKeyChecking") || strings.EqualFold(name, "UserKnownHostsFile")):
			f.warn(line, col, "%s: %s is left out: host keys are always verified", key, name)
		case w == "-o":
			f.warn(line, col, "%s: the option %q is not supported; it is left out", key, name)
		default:
			f.warn(line, col, "%s: %q is not supported; it is left out", key, w)
		}
	}
}

// jumps returns the jump hosts of a list, or noJump if it is empty.
func jumps(list string) []string {
	var out []string
	for hop := range strings.SplitSeq(list, ",") {
		if hop = strings.TrimSpace(hop); hop != "" {
			out = append(out, hop)
		}
	}
	if out == nil {
		return []string{noJump}
	}
	return out
}
