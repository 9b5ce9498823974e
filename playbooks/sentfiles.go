package playbooks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// fileKeyword marks a param that names a file or folder below the playbook's folder; its value is
// "file" or "folder".
const fileKeyword = "x-turnus-file"

// A file may also be named by its digest, under which workers have it.
var digestName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`) })

// sentFile reports a file or folder that is not there, so that no host is touched before that is
// known. It looks as workers do: links that lead out of the playbook's folder are not followed.
func (k *paramCheck) sentFile(v *value, s *jsonschema.Schema, path string) {
	kind, _ := s.Extra[fileKeyword].(string)
	name, _ := v.literal.(string)
	if k.folder == "" || kind == "" || name == "" || digestName().MatchString(name) {
		return
	}
	place := filepath.Join(k.folder, filepath.FromSlash(name))
	p := problem{message: fmt.Sprintf("%s: ", paramName(path)), expected: "a " + kind + " at " + place + ": paths are relative to the playbook's folder"}
	info, err := statBelow(k.folder, name)
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
	default:
		return
	}
	k.report(v, p)
}

func statBelow(folder, name string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.Stat(strings.TrimRight(filepath.FromSlash(name), string(filepath.Separator)))
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
