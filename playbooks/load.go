package playbooks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Load reads files and folders (their *.yaml and *.yml, recursively), all of
// them, and returns every playbook in the order of paths and then of names, or a
// Diagnostics error with everything found. Hidden files and folders are skipped;
// a file reached twice is read once.
func Load(paths []string, o Options) ([]*Playbook, error) {
	w := &walk{met: map[string]bool{}, seen: map[string]bool{}}
	for _, path := range paths {
		w.add(path, true, 0)
	}
	var out []*Playbook
	diags := w.diags
	byName := map[string]*Playbook{}
	for _, file := range w.files {
		data, err := readFile(file)
		if err != nil {
			diags = append(diags, fileProblem(file, err))
			continue
		}
		if w.met[file] && IsSteps(file, data) {
			continue
		}
		o.Steps, o.onDisk = stepsBeside(file), true
		p, found := parse(file, data, o)
		diags = append(diags, found...)
		if p == nil {
			continue
		}
		if first := byName[p.Name]; first != nil {
			diags = append(diags, duplicate(p, first))
			continue
		}
		byName[p.Name] = p
		out = append(out, p)
	}
	if len(diags) > 0 {
		return nil, diags.sorted()
	}
	return out, nil
}

// Parse reads one file's bytes. Errors are Diagnostics.
func Parse(file string, src []byte, o Options) (*Playbook, error) {
	p, diags := parse(file, src, o)
	if len(diags) > 0 {
		return nil, diags.sorted()
	}
	return p, nil
}

func parse(file string, data []byte, o Options) (*Playbook, Diagnostics) {
	src, root, bad := readYAML(file, data)
	if bad != nil {
		return nil, Diagnostics{*bad}
	}
	d := newDecoder(src, o)
	if ofAnsible(root) {
		d.reportNode(root, problem{message: "the file is an Ansible playbook: a list of plays", expected: "a mapping with the keys playbook, targets and steps",
			hint: "convert it: turnus import ansible " + file})
		return nil, d.diags
	}
	if IsSteps(file, data) {
		d.reportNode(root, problem{message: "the file holds steps that playbooks include, and is no playbook", expected: "a mapping with the keys playbook, targets and steps",
			hint: "name a playbook that includes it: turnus validate checks both"})
		return nil, d.diags
	}
	p := &Playbook{File: file, Source: slices.Clone(data), Vars: orEmpty(maps.Clone(o.Vars)), lists: d.whole.lists}
	readFields(d, root, "the playbook", playbookFields(), playbookWords(), p)
	d.checkHandlers(root, p)
	d.checkFacts(root, p)
	d.checkScheduleVars(root, p)
	d.checkScheduleParams(root, p)
	if len(d.diags) > 0 {
		return nil, d.diags
	}
	p.known, p.Warnings = d.read, d.whole.warnings.sorted()
	p.Handlers = append(p.Handlers, d.whole.handlers...)
	p.Blocks, p.Included = d.whole.blocks, d.whole.included()
	return p, nil
}

// CheckVars refuses vars that the playbook neither declares in vars: nor reads by name in an
// expression, and text with a NUL byte: Parse refuses that in params. Errors are core.ErrInvalid.
func (p *Playbook) CheckVars(vars map[string]any) error {
	for _, name := range sortedKeys(vars) {
		if !p.known[name] {
			hint := yamlread.DidYouMean(name, sortedKeys(p.known))
			if hint == "" {
				hint = fmt.Sprintf("to give it at a launch, write vars: {%s: DEFAULT} in %s", name, p.File)
			}
			return fmt.Errorf("playbook %s has no var or param %s: %w\nhint: %s", p.Name, quote(name), core.ErrInvalid, hint)
		}
		if hasNUL(vars[name]) {
			return fmt.Errorf("playbook %s: var %s: expected %s: %w\nhint: give another value: -e %s=VALUE", p.Name, quote(name), wantNoNUL, core.ErrInvalid, name)
		}
	}
	return nil
}

// readVars reads vars and lays those of -e over them.
func (d *decoder) readVars(n *yaml.Node, p *Playbook) {
	for _, e := range d.Pairs(n, "vars") {
		d.read[e.Name] = true
		v := d.plain(e.Value, 2)
		d.checkVar(e.Value, e.Name, v)
		if _, over := p.Vars[e.Name]; !over {
			p.Vars[e.Name] = v
		}
	}
	d.vars = p.Vars
}

// checkVar reports a value in a file that a launch would refuse.
func (d *decoder) checkVar(n *yaml.Node, name string, v any) {
	if hasNUL(v) {
		d.reportNode(n, problem{message: "var " + quote(name) + " has a NUL byte", expected: wantNoNUL})
	}
}

func duplicate(p, first *Playbook) Diagnostic {
	src := newSource(p.File, string(p.Source))
	at := nameSpan(src)
	other := newSource(first.File, string(first.Source))
	d := src.diagnose(at, problem{message: fmt.Sprintf("a second playbook is named %s", quote(p.Name)), expected: "names that are unique over all files"})
	d.Hint = "the first is in " + Diagnostic{File: first.File, Line: nameSpan(other).line, Col: nameSpan(other).col}.Place()
	return d
}

// nameSpan is the place of the playbook's name in a file that is known to be good.
func nameSpan(src *source) span {
	_, root, bad := readYAML(src.file, []byte(src.text))
	if bad != nil {
		return span{}
	}
	return src.at((&decoder{src: src}).child(root, "playbook"))
}

const maxFolders = 32 // levels of folders, symbolic links followed

// walk collects the files to read.
type walk struct {
	files []string
	met   map[string]bool // files that were met in a folder, and not named
	seen  map[string]bool // real paths
	diags Diagnostics
}

// add takes a path: named by the user, or met in a folder.
func (w *walk) add(path string, named bool, depth int) {
	real, err := filepath.EvalSymlinks(path)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	switch {
	case err != nil:
		w.diags = append(w.diags, fileProblem(path, err))
	case w.seen[absolute(real)]:
	case info.IsDir():
		w.seen[absolute(real)] = true
		w.folder(path, named, depth)
	case !named && !isYAML(path):
	case !info.Mode().IsRegular():
		w.diags = append(w.diags, Diagnostic{File: path, Message: "not a regular file", Expected: "a file or a folder"})
	case len(w.files) >= MaxFiles:
		w.tooMany(path)
	default:
		w.seen[absolute(real)] = true
		w.files, w.met[path] = append(w.files, path), !named
	}
}

func (w *walk) tooMany(path string) {
	message := fmt.Sprintf("more than %d files", MaxFiles)
	if !slices.ContainsFunc(w.diags, func(d Diagnostic) bool { return d.Message == message }) {
		w.diags = append(w.diags, Diagnostic{File: path, Message: message, Hint: "name the folders that hold playbooks"})
	}
}

func (w *walk) folder(path string, named bool, depth int) {
	if depth > maxFolders {
		w.diags = append(w.diags, Diagnostic{File: path, Message: fmt.Sprintf("folders are nested deeper than %d", maxFolders)})
		return
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		w.diags = append(w.diags, fileProblem(path, err))
		return
	}
	before := len(w.files) + len(w.diags)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Type().IsRegular() && !isYAML(e.Name()) {
			continue
		}
		w.add(filepath.Join(path, e.Name()), false, depth+1)
	}
	if named && len(w.files)+len(w.diags) == before {
		w.diags = append(w.diags, Diagnostic{File: path, Message: "the folder holds no playbook", Expected: "files that end in .yaml or .yml"})
	}
}

func isYAML(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFileSize+1))
}

// stepsBeside reads the files that a playbook on the disk includes. Links that lead out of the
// playbook's folder are not followed.
func stepsBeside(file string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not waiting for a pipe
		if err != nil {
			return nil, withoutPath(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(err, errors.New("not a regular file"))
		}
		return io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	}
}

// withoutPath is an error without the path that it is about.
func withoutPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func fileProblem(path string, err error) Diagnostic {
	d := Diagnostic{File: path, Message: err.Error()}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		d.Message = pe.Err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.Message, d.Expected = "no such file or folder", "a playbook, or a folder with playbooks"
		d.Hint = nearFile(path)
	}
	return d
}

// nearFile returns what a path that does not exist most likely meant, or how to look for it.
func nearFile(path string) string {
	folder := filepath.Dir(path)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "the folder " + folder + " does not exist: pwd shows where you are"
	}
	if near := yamlread.Nearest(filepath.Base(path), core.Map(entries, os.DirEntry.Name)); near != "" {
		return "did you mean " + filepath.Join(folder, near) + "?"
	}
	return "ls " + folder + " lists the files there; turnus init DIR makes a project with a playbook"
}
