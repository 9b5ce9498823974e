// Package config owns the job type config.backup: a host's configuration, fetched, normalised and
// kept as a version at the worker when it differs from the version before. It imports only the sdk.
package config

import (
	"errors"
	"fmt"
	"path"
	"regexp"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a config.backup.
type Params struct {
	What     []Item       `json:"what" turnus:"required,min=1,max=64" jsonschema:"what makes up the configuration"`
	Drop     []string     `json:"drop,omitempty" turnus:"max=200" jsonschema:"lines that one of these regular expressions matches are left out: timestamps, uptimes, counters"`
	Replace  []Substitute `json:"replace,omitempty" turnus:"max=200" jsonschema:"text to put something else for, as for secrets; in order, after drop"`
	MaxSize  sdk.Size     `json:"max_size,omitempty" turnus:"default=4MiB" jsonschema:"of each of what, as the host gives it, up to 32MiB; more fails the step"`
	Timeout  sdk.Duration `json:"timeout,omitempty" turnus:"default=2m" jsonschema:"of each command"`
	Verbatim bool         `json:"verbatim,omitempty" jsonschema:"leave line endings and blanks at ends of lines as they are"`
}

// Item is one part of a configuration.
type Item struct {
	Name     string       `json:"name" turnus:"required,pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" jsonschema:"of the file that is kept"`
	Command  string       `json:"command,omitempty" jsonschema:"command line that prints it, given to /bin/sh; it must change nothing, because check mode also runs it"`
	Path     string       `json:"path,omitempty" turnus:"pattern=^/" jsonschema:"file of the host, instead of command"`
	Optional bool         `json:"optional,omitempty" jsonschema:"with path: a file that is missing is no fault; when it was kept before, that it is gone becomes a version"`
	Binary   bool         `json:"binary,omitempty" jsonschema:"keep it byte by byte: nothing is dropped, replaced or stripped. Without it a NUL byte fails the step"`
	Drop     []string     `json:"drop,omitempty" turnus:"max=200" jsonschema:"as the step's drop, for this one only"`
	Replace  []Substitute `json:"replace,omitempty" turnus:"max=200" jsonschema:"as the step's replace, for this one only, before it"`
}

// Substitute is a text for what matches.
type Substitute struct {
	Match string `json:"match" turnus:"required,min=1" jsonschema:"regular expression (RE2); ^ and $ are the ends of lines"`
	With  string `json:"with,omitempty" jsonschema:"instead; $1 or ${name} is a group of the expression, $$ a dollar sign"`
}

const mostSize = 32 << 20

// mostTotal is the size that the worker keeps in one call.
const mostTotal = 64 << 20

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad []error
	blame := func(err error, pointer string, args ...any) {
		if err != nil {
			bad = append(bad, &sdk.ParamError{Pointer: fmt.Sprintf(pointer, args...), Err: err})
		}
	}
	if p.MaxSize < 1 || p.MaxSize > mostSize {
		blame(fmt.Errorf("expected 1 byte to 32MiB, found %d bytes", p.MaxSize), "/max_size")
	}
	if p.Timeout <= 0 {
		blame(errors.New("expected more than nothing"), "/timeout")
	}
	names := map[string]int{}
	for i, item := range p.What {
		blame(item.check(), "/what/%d", i)
		if first, again := names[item.Name]; again {
			blame(fmt.Errorf("the name %q is that of /what/%d", item.Name, first), "/what/%d/name", i)
		} else {
			names[item.Name] = i
		}
		checkExpressions(item.Drop, item.Replace, blame, fmt.Sprintf("/what/%d", i))
	}
	checkExpressions(p.Drop, p.Replace, blame, "")
	return errors.Join(bad...)
}

func (i *Item) check() error {
	switch {
	case (i.Command == "") == (i.Path == ""):
		return errors.New("expected one of command and path")
	case i.Optional && i.Path == "":
		return errors.New("optional goes with path: a failed command does not show what is there")
	case i.Binary && len(i.Drop)+len(i.Replace) > 0:
		return errors.New("binary goes without drop and replace")
	case i.Path != "" && (path.Clean(i.Path) != i.Path || i.Path == "/"):
		return fmt.Errorf("expected an absolute path of a file, without . and .. in it; found %q", i.Path)
	}
	return nil
}

func checkExpressions(drop []string, replace []Substitute, blame func(error, string, ...any), at string) {
	for i, expr := range drop {
		_, err := compile(expr)
		if expr == "" {
			err = errors.New("must not be empty: it would drop every line")
		}
		blame(err, at+"/drop/%d", i)
	}
	for i, s := range replace {
		_, err := compile(s.Match)
		blame(err, at+"/replace/%d/match", i)
	}
}

// compile makes ^ and $ the ends of lines.
func compile(expr string) (*regexp.Regexp, error) { return regexp.Compile("(?m)" + expr) }

// Outputs of a config.backup.
type Outputs struct {
	Version string `json:"version" jsonschema:"that was kept; empty when nothing changed, and in check mode"`
	Files   []File `json:"files" jsonschema:"the parts of the configuration: name, size in bytes, lines, sha256, changed, gone"`
}

// File is one part of the configuration, as it would be kept.
type File struct {
	Name    string `json:"name"`
	Size    int    `json:"size" jsonschema:"bytes"`
	Lines   int    `json:"lines"`
	SHA256  string `json:"sha256" jsonschema:"of what is kept; empty when the file is gone"`
	Changed bool   `json:"changed" jsonschema:"it differs from the version before"`
	Gone    bool   `json:"gone" jsonschema:"the host has it no more"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("config.backup", run,
		sdk.Summary("Keep versions of a host's configuration"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A router's running configuration, without volatile lines and without its keys", sdk.With{
			"what":    []sdk.With{{"name": "running.conf", "command": "fwctl show running-config"}, {"name": "hosts", "path": "/etc/hosts", "optional": true}},
			"drop":    []string{`^! Last configuration change`, `uptime is`},
			"replace": []sdk.With{{"match": `^(\s*psk) .+$`, "with": "$1 <secret>"}},
		}),
		sdk.Example("A database of licences, byte by byte", sdk.With{
			"what": []sdk.With{{"name": "licence.db", "path": "/var/lib/fw/licence.db", "binary": true}}, "max_size": "16MiB",
		}),
	)
}

const description = `
Fetches the parts of a host's configuration: output of commands, and files. It normalizes them, so
that they differ only when the configuration does. If they differ from the previous version, it
keeps them as a new version in the worker's git repository. ` + "`turnus hosts config ls|show|diff`" + `
shows the versions. The outcome is ` + "`changed`" + ` with a new version, otherwise ` + "`unchanged`" + `. All parts
make one version: if one part fails, the step fails, and the previous version stays the newest.

Normalizing has these steps, in order:

1. Line endings become those of Unix (CR LF, and a lone CR).
2. Lines that match ` + "`drop`" + ` are removed.
3. ` + "`replace`" + ` puts its texts in. The replaced text is in no version, diff, output or log.
4. Blanks at the ends of lines and empty lines at the end are removed.

A command that prints no output fails the step, because a fault is more likely than an empty
configuration.

The host is not changed. Check mode also runs the commands. It shows the difference and keeps no
version.
`
