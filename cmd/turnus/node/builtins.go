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

// ServePlugin is the process of a built-in plugin: the same path as anybody's.
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
	defs, ok := builtins(reach)[name]
	if !ok {
		fmt.Fprintf(stderr, "no built-in plugin %q\n", name)
		return console.ExitInvalid
	}
	sdk.Serve(defs()...)
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
		argv := []string{self, ServeVerb, name}
		if slices.Contains(NetworkBuiltins, name) {
			for _, network := range reach {
				argv = append(argv, network.String())
			}
		}
		all = append(all, host.Plugin{
			Name: name, Version: settings.Version(), Argv: argv, Manifest: m,
			Allow: host.Allow{Network: slices.Contains(NetworkBuiltins, name)},
		})
	}
	return all, nil
}

// NetworkBuiltins open connections of their own, as their manuals state.
var NetworkBuiltins = []string{"http", "firewall", "firmware"}
