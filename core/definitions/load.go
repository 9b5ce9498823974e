package definitions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// loader makes one set of one tree. It collects problems and continues, so that all are reported.
type loader struct {
	ctx      context.Context //nolint:containedctx // of one call of loadTree, whose loader it is
	t        tree
	entries  []entry
	set      *Set
	problems playbooks.Diagnostics
	warnings playbooks.Diagnostics
	within   time.Duration // for selectHosts
	sources  []KnownSource // that give hosts beside the tree
	given    []string      // for selectHosts: whose hosts are how many, with those of sources
	later    []func()      // checks for when hosts and playbooks are known
}

func (l *loader) fail(d playbooks.Diagnostic) { l.problems = append(l.problems, d) }
func (l *loader) warn(d playbooks.Diagnostic) { l.warnings = append(l.warnings, d) }

// failAt reports a problem at a node of turnus.yaml.
func (l *loader) failAt(data []byte, n *yaml.Node, message, hint string) {
	l.fail(at(layoutFile, data, n.Line, n.Column, message, hint))
}

// at is a problem with the line it is about.
func at(file string, data []byte, line, col int, message, hint string) playbooks.Diagnostic {
	d := playbooks.Diagnostic{File: file, Line: line, Col: col, Message: clean(message), Hint: clean(hint)}
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return d
	}
	text := clean(strings.TrimRight(string(lines[line-1]), "\r"))
	if utf8.RuneCountInString(text) <= 140 {
		number := fmt.Sprint(line)
		d.Snippet = fmt.Sprintf("  %s | %s\n  %s | %s^", number, text, strings.Repeat(" ", len(number)), strings.Repeat(" ", max(col-1, 0)))
	}
	return d
}

// clean keeps what is quoted from steering a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' && r != '\n', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return '·'
		}
		return r
	}, text)
}

// bounded sorts problems by place and cuts them where nobody reads on.
func bounded(d playbooks.Diagnostics) playbooks.Diagnostics {
	slices.SortStableFunc(d, func(a, b playbooks.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if len(d) > maxProblems {
		more := len(d) - maxProblems + 1
		d = append(d[:maxProblems-1:maxProblems-1], playbooks.Diagnostic{File: d[maxProblems-1].File, Message: fmt.Sprintf("%d more problems are not shown", more)})
	}
	return d
}

func (l *loader) load(o Options) error {
	if err := l.find(); err != nil || len(l.problems) > 0 {
		return err
	}
	if err := l.read(); err != nil || len(l.problems) > 0 {
		return err
	}
	l.loadPlaybooks(o.Playbooks)
	l.loadWindows()
	l.loadSecrets()
	l.loadNotify()
	if err := l.loadInventory(); err != nil {
		return err
	}
	if l.set.Inventory != nil && l.set.Windows != nil {
		return l.check()
	}
	return nil
}

// find fills the layout, and chooses the files to read.
func (l *loader) find() error {
	l.set.layout = layout{}
	if i, ok := slices.BinarySearchFunc(l.entries, layoutFile, func(e entry, p string) int { return cmp.Compare(e.path, p) }); ok {
		e := l.entries[i]
		if !l.readable(e) {
			return nil
		}
		data, err := l.t.read(l.ctx, []entry{e})
		if err != nil {
			return err
		}
		l.readLayout(data[0])
	}
	if len(l.problems) == 0 {
		for _, part := range parts {
			l.convention(part)
		}
	}
	return nil
}

// readable reports what no file that is read may be.
func (l *loader) readable(e entry) bool {
	d := playbooks.Diagnostic{File: quotePath(e.path)}
	switch {
	case e.kind == link:
		d.Message, d.Expected = "the file is a symbolic link", "a regular file: a link may lead out of the tree"
	case e.kind == module:
		d.Message, d.Expected = "a submodule stands here", "files: submodules are not fetched"
	case e.kind == special:
		d.Message, d.Expected = "not a regular file", "a regular file"
	case e.size > MaxFileSize:
		d.Message, d.Hint = fmt.Sprintf("the file is larger than %d MiB", MaxFileSize>>20), "keep large files outside the folders that the project reads"
	default:
		return true
	}
	l.fail(d)
	return false
}

// read reads every document.
func (l *loader) read() error {
	var files []entry
	var size int64
	for _, e := range l.entries {
		if !l.set.layout.documents(e.path) || !l.readable(e) {
			continue
		}
		if size += e.bytes(); size > MaxSize {
			l.fail(playbooks.Diagnostic{File: e.path, Message: fmt.Sprintf("the files of the project are larger than %d MiB together", MaxSize>>20),
				Hint: "only files that the project reads count: move large files that it need not read out of its folders"})
			return nil
		}
		if files = append(files, e); len(files) > MaxDocuments {
			l.fail(playbooks.Diagnostic{File: e.path, Message: fmt.Sprintf("the project has more than %d files that are read", MaxDocuments)})
			return nil
		}
	}
	if len(l.problems) > 0 {
		return nil
	}
	data, err := l.t.read(l.ctx, files)
	if err != nil {
		return err
	}
	l.set.docs = make([]Document, len(files))
	for i, e := range files {
		l.set.docs[i] = Document{e.path, data[i]}
	}
	return nil
}

// of are the documents of a part.
func (l *loader) of(part string) []Document {
	var out []Document
	for _, d := range l.set.docs {
		if isPart(l.set.layout, part, d.Path) {
			out = append(out, d)
		}
	}
	return out
}

func (l *loader) loadPlaybooks(o playbooks.Options) {
	byName := map[string]*playbooks.Playbook{}
	for _, d := range l.of(partPlaybooks) {
		if playbooks.IsSteps(d.Path, d.Data) {
			continue
		}
		o.Steps = l.stepsBeside(d.Path)
		p, err := playbooks.Parse(d.Path, d.Data, o)
		if found, ok := errors.AsType[playbooks.Diagnostics](err); ok {
			l.problems = append(l.problems, found...)
			continue
		}
		if first := byName[p.Name]; first != nil {
			line, col := placeOf(d.Data, "playbook")
			l.fail(at(d.Path, d.Data, line, col, fmt.Sprintf("a second playbook is named %q", p.Name), "the first is in "+first.File))
			continue
		}
		byName[p.Name] = p
		l.set.Playbooks = append(l.set.Playbooks, p)
		l.warnings = append(l.warnings, p.Warnings...)
	}
	slices.SortFunc(l.set.Playbooks, func(a, b *playbooks.Playbook) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range l.set.Playbooks {
		if p.Schedule != nil {
			l.set.Schedules = append(l.set.Schedules, Schedule{p.Name, *p.Schedule})
		}
	}
}

// stepsBeside reads the files that a playbook includes: documents of the same tree.
func (l *loader) stepsBeside(playbook string) func(p string) ([]byte, error) {
	return func(p string) ([]byte, error) {
		data := l.data(path.Join(path.Dir(playbook), p))
		if data == nil {
			return nil, fmt.Errorf("the tree has no such file: %w", core.ErrNotFound)
		}
		return data, nil
	}
}

func (l *loader) loadWindows() {
	docs := core.Map(l.of(partWindows), func(d Document) windows.Document { return windows.Document{File: d.Path, Data: d.Data} })
	defs, err := windows.Parse(docs...)
	l.set.Windows, l.set.windows = defs, docs
	if found, ok := errors.AsType[windows.Problems](err); ok {
		for _, p := range found {
			l.fail(playbooks.Diagnostic{File: p.File, Line: p.Line, Col: p.Col, Message: p.Message, Snippet: p.Snippet, Hint: p.Hint})
		}
	}
}

func (l *loader) loadInventory() error {
	for _, d := range l.of(partInventory) {
		if bytes.HasPrefix(d.Data, []byte("#!")) || bytes.HasPrefix(d.Data, []byte("\x7fELF")) {
			l.fail(playbooks.Diagnostic{File: d.Path, Line: 1, Col: 1, Message: "an inventory that is a program is not run from a repository",
				Hint: "keep what it prints in a file, which a pipeline may commit"})
			return nil
		}
		if path.Ext(d.Path) == ".ini" && !slices.Contains(l.set.layout[partInventory], d.Path) { // skipped below a folder, as Ansible does: its hosts would be missing
			l.fail(playbooks.Diagnostic{File: d.Path, Message: "an .ini file in a folder of inventories is not read",
				Hint: fmt.Sprintf("rename it: git mv %s %s; a file that is no inventory: %[2]s.cfg", d.Path, strings.TrimSuffix(d.Path, ".ini"))})
		}
	}
	inv, err := inventory.LoadFS(l.ctx, newDocFS(l.set.docs), l.set.layout[partInventory])
	var many inventory.Errors
	switch {
	case l.ctx.Err() != nil:
		return l.ctx.Err()
	case errors.As(err, &many):
		for _, e := range many {
			data := l.data(e.File)
			if e.Secret {
				data = nil
			}
			l.fail(at(e.File, data, e.Line, e.Col, e.Msg, e.Hint))
		}
		return nil
	case errors.Is(err, core.ErrInvalid):
		l.fail(playbooks.Diagnostic{File: l.set.layout[partInventory][0], Message: clean(err.Error())})
		return nil
	case err != nil:
		return err
	}
	l.set.Inventory = inv
	for _, w := range inv.Warnings {
		file, rest, _ := strings.Cut(w, ":")
		l.warn(playbooks.Diagnostic{File: file, Message: clean(rest)})
	}
	return nil
}

// data is the bytes of a document.
func (l *loader) data(p string) []byte {
	i, ok := slices.BinarySearchFunc(l.set.docs, p, func(d Document, p string) int { return cmp.Compare(d.Path, p) })
	if !ok {
		return nil
	}
	return l.set.docs[i].Data
}

// placeOf is the line and column of the value at a path of keys and indexes; 0, 0 if it is
// not there. The file is known to be good.
func placeOf(data []byte, keys ...any) (line, col int) {
	n, err := yamlread.Root(data)
	if err != nil || n == nil {
		return 0, 0
	}
	for _, key := range keys {
		next := child(yamlread.Target(n), key)
		if next == nil {
			return 0, 0
		}
		n = next
	}
	return n.Line, n.Column
}

func child(n *yaml.Node, key any) *yaml.Node {
	switch key := key.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && key < len(n.Content) {
			return n.Content[key]
		}
	case string:
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
