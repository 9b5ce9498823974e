// Package scaffold owns the files with which a plugin begins: a job type, its test, an example
// playbook, a workflow of continuous integration and a manual, in each language. It generates the
// code of the wire each time, so that the code is never out of date.
//
// It must not know where plugins are kept, nor how they are run.
package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
)

//go:embed all:templates
var templates embed.FS

// SDKModule is the path of the Go module that a plugin in Go requires.
const SDKModule = "github.com/turnus/turnus/plugins/sdk"

// Languages are those in which a plugin can begin; exec is any other, by way of a script.
func Languages() []string { return []string{"go", "python", "exec"} }

// Options define what to make.
type Options struct {
	Name    string // of the plugin: a-z, 0-9 and _
	Lang    string // one of Languages
	Dir     string // where to; must be empty or missing
	Module  string // of Go; example.org/NAME when empty
	Require string // version of Turnus and of the SDK's module; "" when this is no release
	SDK     string // folder of the SDK to build against instead; "" for none
}

var name = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`) })

// ErrOptions is the error of New for options that cannot be used.
var ErrOptions = errors.New("invalid options of a new plugin")

// New writes the files, and returns their names. A folder that holds anything is left alone.
func New(o Options) ([]string, error) {
	if !name().MatchString(o.Name) {
		return nil, fmt.Errorf("%w: name %q: expected a-z, then a-z, 0-9 and _", ErrOptions, o.Name)
	}
	if !slices.Contains(Languages(), o.Lang) {
		return nil, fmt.Errorf("%w: language %q: expected one of %s", ErrOptions, o.Lang, strings.Join(Languages(), ", "))
	}
	if entries, err := os.ReadDir(o.Dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%w: %s is not empty: expected a new or an empty folder, as --dir names one", ErrOptions, o.Dir)
	}
	if o.Lang == "go" && o.Require == "" && o.SDK == "" {
		return nil, fmt.Errorf("%w: this turnus is no release, so a plugin in Go needs a copy of the SDK\nhint: turnus plugins init %s --lang go --sdk FOLDER, a checkout of Turnus", ErrOptions, o.Name)
	}
	o.Module = cmp.Or(o.Module, "example.org/"+o.Name)
	o.Require = cmp.Or(o.Require, "v0.0.0")
	files, err := o.render()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		path := filepath.Join(o.Dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // source code
			return nil, fmt.Errorf("new plugin: %w", err)
		}
		if err := os.WriteFile(path, f.content, f.mode); err != nil {
			return nil, fmt.Errorf("new plugin: %w", err)
		}
		names = append(names, f.name)
	}
	return names, nil
}

type file struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// render makes all files before one is written. The name of a template becomes the file's: dot- is
// a leading dot; a last .tmpl falls away, and has the file filled in.
func (o Options) render() ([]file, error) {
	root := "templates/" + o.Lang
	var files []file
	err := fs.WalkDir(templates, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := templates.ReadFile(path)
		if err != nil {
			return err
		}
		rel, filled := strings.CutSuffix(strings.TrimPrefix(path, root+"/"), ".tmpl")
		if filled {
			if raw, err = o.fill(path, raw); err != nil {
				return err
			}
		}
		rel = strings.ReplaceAll(rel, "dot-", ".")
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(raw, []byte("#!")) {
			mode = 0o755
		}
		files = append(files, file{filepath.FromSlash(rel), raw, mode})
		return nil
	})
	if err == nil && o.Lang == "python" {
		var wire []byte
		wire, err = pythonWire()
		files = append(files, file{"turnus_pb2.py", wire, 0o644})
	}
	if err != nil {
		return nil, fmt.Errorf("new plugin: %w", err)
	}
	return files, nil
}

func (o Options) fill(path string, raw []byte) ([]byte, error) {
	t, err := template.New(path).Delims("<<", ">>").Parse(string(raw))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, o)
	return out.Bytes(), err
}
