package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/turnus/turnus/cmd/turnus/console"
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

// serveVerb is how the binary is started as the process of a built-in plugin. It is not for people.
const serveVerb = "__plugin"

// builtinDefs are the job types of the binary, by plugin. From the worker http reaches those inner networks.
func builtinDefs(reach ...netip.Prefix) map[string][]sdk.Def {
	return map[string][]sdk.Def{
		"command": {command.Def()}, "script": {script.Def()}, "file": {file.Def()}, "fetch": {fetch.Def()}, "config": {config.Def()},
		"reboot": {reboot.Def()}, "wait": {wait.Def()}, "http": {http.Def(reach...)},
		"firewall": {firewall.Def()}, "dnssec": {dnssec.Def()},
		"firmware": firmware.Defs(reach...),
	}
}

// servePlugin is the process of a built-in plugin: the same path as anybody's.
func servePlugin(name string, networks []string, stderr io.Writer) int {
	var reach []netip.Prefix
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			fmt.Fprintf(stderr, "built-in plugin %s: expected networks behind its name: %v\n", name, err)
			return console.ExitInvalid
		}
		reach = append(reach, network)
	}
	defs, ok := builtinDefs(reach...)[name]
	if !ok {
		fmt.Fprintf(stderr, "no built-in plugin %q\n", name)
		return console.ExitInvalid
	}
	sdk.Serve(defs...)
	return console.ExitOK
}

// builtinPlugins says how the worker starts them, with the inner networks that http and firmware may reach. Their manifests need no process.
func builtinPlugins(reach ...netip.Prefix) ([]host.Plugin, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program itself, to start built-in plugins: %w", err)
	}
	defs := builtinDefs()
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
		m.Name, m.Version = name, version
		argv := []string{self, serveVerb, name}
		if name == "http" || name == "firmware" {
			for _, network := range reach {
				argv = append(argv, network.String())
			}
		}
		all = append(all, host.Plugin{
			Name: name, Version: version, Argv: argv, Manifest: m,
			Allow: host.Allow{Network: slices.Contains(networkBuiltins, name)},
		})
	}
	return all, nil
}
