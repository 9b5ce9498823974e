package node

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/plugins/assert"
	"github.com/turnus/turnus/plugins/authorizedkey"
	"github.com/turnus/turnus/plugins/block"
	"github.com/turnus/turnus/plugins/command"
	"github.com/turnus/turnus/plugins/config"
	"github.com/turnus/turnus/plugins/copytree"
	"github.com/turnus/turnus/plugins/cron"
	"github.com/turnus/turnus/plugins/dnssec"
	"github.com/turnus/turnus/plugins/facts"
	"github.com/turnus/turnus/plugins/fetch"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/firmware"
	"github.com/turnus/turnus/plugins/git"
	"github.com/turnus/turnus/plugins/group"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/hostname"
	"github.com/turnus/turnus/plugins/http"
	"github.com/turnus/turnus/plugins/line"
	"github.com/turnus/turnus/plugins/mount"
	"github.com/turnus/turnus/plugins/packages"
	"github.com/turnus/turnus/plugins/reboot"
	"github.com/turnus/turnus/plugins/script"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/service"
	"github.com/turnus/turnus/plugins/sysctl"
	"github.com/turnus/turnus/plugins/unarchive"
	"github.com/turnus/turnus/plugins/user"
	"github.com/turnus/turnus/plugins/wait"
)

// ServeVerb is how the binary is started as the process of a built-in plugin. It is not for people.
const ServeVerb = "__plugin"

// BuiltinDefs are the job types of the binary, by plugin. From the worker they reach those inner
// networks only.
func BuiltinDefs(reach ...netip.Prefix) map[string][]sdk.Def {
	defs := map[string][]sdk.Def{}
	for name, make := range builtins(reach) {
		defs[name] = make()
	}
	return defs
}

// builtins make BuiltinDefs one by one: the schemas of all take longer than a short command.
func builtins(reach []netip.Prefix) map[string]func() []sdk.Def {
	one := func(def func() sdk.Def) func() []sdk.Def { return func() []sdk.Def { return []sdk.Def{def()} } }
	return map[string]func() []sdk.Def{
		"command": one(command.Def), "script": one(script.Def), "file": one(file.Def), "facts": one(facts.Def), "fetch": one(fetch.Def), "config": one(config.Def),
		"reboot": one(reboot.Def), "service": one(service.Def), "package": one(packages.Def), "wait": one(wait.Def), "dnssec": one(dnssec.Def),
		"user": one(user.Def), "group": one(group.Def), "line": one(line.Def), "block": one(block.Def), "authorized_key": one(authorizedkey.Def), "cron": one(cron.Def),
		"sysctl": one(sysctl.Def), "git": one(git.Def), "unarchive": one(unarchive.Def), "copy": one(copytree.Def), "mount": one(mount.Def), "assert": one(assert.Def), "hostname": one(hostname.Def),
		"http":     func() []sdk.Def { return []sdk.Def{http.Def(reach...)} },
		"firewall": func() []sdk.Def { return []sdk.Def{firewall.Def(reach...)} },
		"firmware": func() []sdk.Def { return firmware.Defs(reach...) },
	}
}

// sharedProcess is the name of the process that has all built-in plugins of the same needs. No
// plugin can have that name.
const sharedProcess = "(built-in)"

// shared reports whether a built-in plugin is in that process: those that open connections have one
// each, which the others' must not do.
func shared(name string) bool { return !slices.Contains(NetworkBuiltins, name) }

// defsOf returns the job types of a built-in plugin, or of all in the shared process.
func defsOf(name string, reach []netip.Prefix) []sdk.Def {
	all := builtins(reach)
	if name != sharedProcess {
		if one, ok := all[name]; ok {
			return one()
		}
		return nil
	}
	var defs []sdk.Def
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if shared(name) {
			defs = append(defs, all[name]()...)
		}
	}
	return defs
}

// ServePlugin is the process of a built-in plugin, or of several: the same path as anybody's.
func ServePlugin(name string, networks []string, stderr io.Writer) int {
	var reach []netip.Prefix
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			fmt.Fprintf(stderr, "built-in plugin %s: expected networks behind its name: %v\n", name, err)
			return console.ExitInvalid
		}
		reach = append(reach, network)
	}
	defs := defsOf(name, reach)
	if len(defs) == 0 {
		fmt.Fprintf(stderr, "no built-in plugin %q\n", name)
		return console.ExitInvalid
	}
	sdk.Serve(defs...)
	return console.ExitOK
}

// BuiltinPlugins returns how the worker starts them, with the inner networks that NetworkBuiltins
// may reach. Their manifests need no process.
func BuiltinPlugins(reach ...netip.Prefix) ([]host.Plugin, error) { return builtinPlugins("", reach) }

// builtinPlugins is BuiltinPlugins of one plugin; "" is all.
func builtinPlugins(only string, reach []netip.Prefix) ([]host.Plugin, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program itself, to start built-in plugins: %w", err)
	}
	defs := builtins(nil)
	var all []host.Plugin
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if only != "" && name != only {
			continue
		}
		text, err := json.Marshal(sdk.Describe(defs[name]()...))
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		var m host.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		m.Name, m.Version = name, settings.Version()
		all = append(all, builtin(self, only, reach, m))
	}
	return all, nil
}

// builtin returns how the built-in plugin of the manifest is started by the program self. The one
// that a node has only is alone in its process: the job types of the others take time to be made.
func builtin(self, only string, reach []netip.Prefix, m host.Manifest) host.Plugin {
	p := host.Plugin{Name: m.Name, Version: m.Version, Argv: []string{self, ServeVerb, m.Name}, Manifest: m}
	switch {
	case !shared(m.Name):
		p.Allow.Network = true
		for _, network := range reach {
			p.Argv = append(p.Argv, network.String())
		}
	case only == "":
		p.Process, p.Argv[2] = sharedProcess, sharedProcess
	}
	return p
}

// NetworkBuiltins open connections of their own, as their manuals state.
var NetworkBuiltins = []string{"http", "firewall", "firmware"}
