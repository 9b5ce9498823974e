package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

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

// builtinDefs are the job types of the binary, by plugin.
func builtinDefs() map[string][]sdk.Def {
	return map[string][]sdk.Def{
		"command": {command.Def()}, "script": {script.Def()}, "file": {file.Def()}, "fetch": {fetch.Def()}, "config": {config.Def()},
		"reboot": {reboot.Def()}, "wait": {wait.Def()}, "http": {http.Def()},
		"firewall": {firewall.Def()}, "dnssec": {dnssec.Def()},
		"firmware": firmware.Defs(),
	}
}

// servePlugin is the process of a built-in plugin: the same path as anybody's.
func servePlugin(name string, stderr io.Writer) int {
	defs, ok := builtinDefs()[name]
	if !ok {
		fmt.Fprintf(stderr, "no built-in plugin %q\n", name)
		return exitInvalid
	}
	sdk.Serve(defs...)
	return exitOK
}

// builtinPlugins says how the worker starts them. Their manifests need no process.
func builtinPlugins() ([]host.Plugin, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program itself, to start built-in plugins: %w", err)
	}
	defs := builtinDefs()
	var all []host.Plugin
	for _, name := range sortedKeys(defs) {
		text, err := json.Marshal(sdk.Describe(defs[name]...))
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		var m host.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		m.Name, m.Version = name, version
		all = append(all, host.Plugin{
			Name: name, Version: version, Argv: []string{self, serveVerb, name}, Manifest: m,
			Allow: host.Allow{Network: slices.Contains(networkBuiltins, name)},
		})
	}
	return all, nil
}
