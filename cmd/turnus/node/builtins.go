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
	"github.com/turnus/turnus/plugins/command"
	"github.com/turnus/turnus/plugins/config"
	"github.com/turnus/turnus/plugins/dnssec"
	"github.com/turnus/turnus/plugins/fetch"
	"github.com/turnus/turnus/plugins/file"
	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/firmware"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/http"
	"github.com/turnus/turnus/plugins/reboot"
	"github.com/turnus/turnus/plugins/script"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/wait"
)

// ServeVerb is how the binary is started as the process of a built-in plugin. It is not for people.
const ServeVerb = "__plugin"

// BuiltinDefs are the job types of the binary, by plugin. From the worker http reaches those inner networks.
func BuiltinDefs(reach ...netip.Prefix) map[string][]sdk.Def {
	return map[string][]sdk.Def{
		"command": {command.Def()}, "script": {script.Def()}, "file": {file.Def()}, "fetch": {fetch.Def()}, "config": {config.Def()},
		"reboot": {reboot.Def()}, "wait": {wait.Def()}, "http": {http.Def(reach...)},
		"firewall": {firewall.Def()}, "dnssec": {dnssec.Def()},
		"firmware": firmware.Defs(reach...),
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
	defs, ok := BuiltinDefs(reach...)[name]
	if !ok {
		fmt.Fprintf(stderr, "no built-in plugin %q\n", name)
		return console.ExitInvalid
	}
	sdk.Serve(defs...)
	return console.ExitOK
}

// BuiltinPlugins says how the worker starts them, with the inner networks that http and firmware may reach. Their manifests need no process.
func BuiltinPlugins(reach ...netip.Prefix) ([]host.Plugin, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program itself, to start built-in plugins: %w", err)
	}
	defs := BuiltinDefs()
	var all []host.Plugin
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		text, err := json.Marshal(sdk.Describe(defs[name]...))
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		var m host.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		m.Name, m.Version = name, settings.Version()
		argv := []string{self, ServeVerb, name}
		if name == "http" || name == "firmware" {
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

// NetworkBuiltins open connections of their own, and their manuals say so.
var NetworkBuiltins = []string{"http", "firewall", "firmware"}
