package playbooks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/plugins/sdk/templates"
)

// fileKeyword marks a param that names a file or folder below the playbook's folder; its value is
// "file", "folder", or "template": a file that is a Go template. Of a boolean it is "templates":
// where it is true, files *.tmpl of a folder beside it are Go templates.
const fileKeyword = "x-turnus-file"

// A file may also be named by its digest, under which workers have it.
var digestName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`) })

// sentFile reports a file or folder that is not there, so that no host is touched before that is
// known. It looks as workers do: links that lead out of the playbook's folder are not followed.
func (k *paramCheck) sentFile(v *value, s *jsonschema.Schema, param string) {
	kind, _ := s.Extra[fileKeyword].(string)
	rendered := kind == "template"
	if rendered {
		kind = "file"
	}
	name, _ := v.literal.(string)
	if k.folder == "" || kind == "" || name == "" || digestName().MatchString(name) {
		return
	}
	place := filepath.Join(k.folder, filepath.FromSlash(name))
	p := problem{message: fmt.Sprintf("%s: ", paramName(param)), expected: "a " + kind + " at " + place + ": paths are relative to the playbook's folder"}
	root, err := os.OpenRoot(k.folder)
	if err != nil {
		return // a worker may run as another user
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(strings.TrimRight(filepath.FromSlash(name), string(filepath.Separator)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.message += fmt.Sprintf("there is no %s %s", kind, quote(name))
		p.hint = nearSent(place)
	case errors.Is(err, fs.ErrPermission): // a worker may run as another user
		return
	case err != nil:
		p.message += fmt.Sprintf("%s cannot be sent: %v", quote(name), withoutPath(err))
		p.expected = "a " + kind + " below the playbook's folder " + k.folder + ", which .., / and links may not lead out of"
		p.hint = "copy it into the folder"
	case kind == "folder" && !info.IsDir():
		p.message += quote(name) + " is a file"
		p.hint = "name the folder that it is in"
	case kind == "file" && !info.Mode().IsRegular():
		p.message += quote(name) + " is not a regular file"
		p.hint = "ls -ld " + place + " shows what it is"
	case rendered && info.Size() <= min(*k.room, templates.Most): // a run refuses a larger one
		*k.room -= info.Size()
		err := parseTemplate(root, name, place)
		if err == nil {
			return
		}
		p = templateProblem(err)
	default:
		return
	}
	k.report(v, p)
}

// folderTemplates reports mistakes in the templates of the folders that a mapping names, where
// another param of it is true by which they are rendered.
func (k *paramCheck) folderTemplates(with *value, s *jsonschema.Schema) {
	var folders []*value
	rendered := false
	for _, f := range with.fields {
		sub := k.deref(s.Properties[f.name])
		if sub == nil {
			continue
		}
		switch sub.Extra[fileKeyword] {
		case "folder":
			folders = append(folders, f.value)
		case "templates":
			rendered = rendered || f.literal == true
		}
	}
	if !rendered || k.folder == "" {
		return
	}
	root, err := os.OpenRoot(k.folder)
	if err != nil {
		return // a worker may run as another user
	}
	defer func() { _ = root.Close() }()
	for _, folder := range folders {
		k.templatesBelow(root, folder)
	}
}

func (k *paramCheck) templatesBelow(root *os.Root, source *value) {
	folder, _ := source.literal.(string)
	if folder == "" {
		return // an expression
	}
	_ = fs.WalkDir(root.FS(), path.Clean(folder), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || len(k.found) == maxFound:
			return fs.SkipDir
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case path.Ext(name) != ".tmpl":
			return nil
		}
		info, err := root.Stat(filepath.FromSlash(name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > min(*k.room, templates.Most) {
			return nil //nolint:nilerr // a run refuses it
		}
		*k.room -= info.Size()
		if err := parseTemplate(root, name, filepath.Join(k.folder, filepath.FromSlash(name))); err != nil {
			k.report(source, templateProblem(err))
		}
		return nil
	})
}

// maxFound is how many mistakes in the templates of a folder are reported.
const maxFound = 20

// maxTemplates is how many bytes of templates a playbook has checked before a run.
const maxTemplates = 8 << 20

// parseTemplate returns the mistake in a template, with its place. A file that cannot be read is
// left to the run.
func parseTemplate(root *os.Root, name, place string) error {
	text, err := root.ReadFile(filepath.FromSlash(name))
	if err != nil {
		return nil //nolint:nilerr // a worker may run as another user
	}
	_, err = templates.Parse(place, string(text), strings.ToLower)
	return err
}

var noFunction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`function "(\w+)" not defined$`) })

func templateProblem(err error) problem {
	p := problem{message: "template " + err.Error(), expected: "a Go template, as docs/job-types/file.md explains it"}
	if m := noFunction().FindStringSubmatch(err.Error()); m != nil {
		p.hint = fmt.Sprintf("with vars: {%[1]s: ${{ vars.%[1]s }}} in the step, the template has {{ .Vars.%[1]s }}", m[1])
	}
	return p
}

// nearSent returns what a path that does not exist most likely meant, or how to name a file that is
// not there yet.
func nearSent(place string) string {
	entries, err := os.ReadDir(filepath.Dir(place))
	if err != nil {
		return "ls " + filepath.Dir(filepath.Dir(place)) + " lists the folders there"
	}
	if near := yamlread.Nearest(filepath.Base(place), core.Map(entries, os.DirEntry.Name)); near != "" {
		return "did you mean " + filepath.Join(filepath.Dir(place), near) + "?"
	}
	return "ls " + filepath.Dir(place) + " lists the files there; name one that the run makes by an expression: ${{ \"NAME\" }}"
}
