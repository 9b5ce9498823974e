// Package project owns the files with which a project begins: a playbook, an inventory, windows,
// the file turnus.yaml, a check for continuous integration and a README.
//
// It must not know how they are read.
package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed template
var templates embed.FS

// SchemaFile is the path of the playbooks' schema in the first playbook's editor line.
const SchemaFile = ".turnus/playbook.schema.json"

// Options define what to make.
type Options struct {
	Dir    string   // where to
	Hosts  []string // of the inventory; an example when there are none
	Schema []byte   // of playbooks, as JSON
}

// New writes the files and returns their names, relative to Dir. It replaces nothing: a file that
// exists is fs.ErrExist, and then no file is written.
func New(o Options) ([]string, error) {
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"web1.example.net", "web2.example.net"}
	}
	files := map[string][]byte{SchemaFile: o.Schema}
	names := []string{SchemaFile}
	err := fs.WalkDir(templates, "template", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, "template/"), "dot-", ".")
		files[name], err = o.render(path)
		names = append(names, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("new project: %w", err)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(o.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("new project: %s: %w", filepath.Join(o.Dir, name), errors.Join(err, fs.ErrExist))
		}
	}
	for _, name := range names {
		if err := create(filepath.Join(o.Dir, name), files[name]); err != nil {
			return nil, fmt.Errorf("new project: %w", err)
		}
	}
	return names, nil
}

func (o Options) render(path string) ([]byte, error) {
	text, err := templates.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := template.New(path).Delims("<<", ">>").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, o)
	return out.Bytes(), err
}

// create writes a new file, also below a folder that does not exist. It follows no link to another
// place.
func create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a project is for its team
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the same
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
