package playbooks

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxIncludes  = 8           // levels of files
	maxIncluded  = MaxFileSize // bytes of all files that a playbook includes
	wantSteps    = "a path below the playbook's folder such as steps/site.yaml"
	patternSteps = `^steps/[^\\]+\.ya?ml$` // steps/…
)

// StepsFolder is the folder beside a playbook with the files that it includes.
const StepsFolder = "steps"

// draftBlock is an include or a group while it is read.
type draftBlock struct {
	name    string
	include *yaml.Node
	path    string
	with    *yaml.Node
	when    *yaml.Node
	tags    []string
	become  *core.BecomeRule
	window  string
	facts   bool

	steps, rescue, always *yaml.Node // of a group
	recover               bool
}

func includeFields() []field[draftBlock] {
	return append([]field[draftBlock]{
		{key: "include", doc: "File of steps, below the playbook's folder. Its steps take the place of this one.", form: form{wantSteps, &jsonschema.Schema{Type: "string", Pattern: patternSteps}}, required: true,
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.include, b.path = n, d.stepsPath(n) }},
		{key: "with", doc: "Values of the params that the file declares. A text may hold ${{ expression }}.", form: form{"a mapping of params", &jsonschema.Schema{Type: "object"}},
			read: func(_ *decoder, n *yaml.Node, b *draftBlock) { b.with = n }},
	}, blockFields()...)
}

// blockFields returns the fields that a block has in common with a step.
func blockFields() []field[draftBlock] {
	return []field[draftBlock]{
		{key: "name", doc: "Name, unique in the playbook.", form: textForm("a name"),
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.name = d.stepName(n) }},
		{key: "when", doc: "Expression, asked once before the first of the steps: where it is false, all of them are skipped.", form: exprForm("an expression that is true or false"),
			read: func(_ *decoder, n *yaml.Node, b *draftBlock) { b.when = n }},
		{key: "tags", doc: "Tags of all the steps, beside their own.", form: tagsForm(),
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.tags = d.tagsOf(n) }},
		{key: "become", doc: "User of the steps that do not name one.", form: becomeForm(),
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.become = d.becomeOf(n) }},
		{key: "window", doc: "Window set of the steps that name none themselves; none lets them run at any time.", form: nameForm(),
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.window = d.nameOf(n) }},
	}
}

func blockWords() map[string]string {
	words := stepWords()
	words["uses"] = "a step has uses or include, not both"
	words["steps"], words["rescue"], words["always"] = "a group has steps, and the include is one of them", "put the include into the steps of a group", "put the include into the steps of a group"
	words["foreach"] = "write foreach on a step of the file; or include the file once for each item"
	words["needs"], words["timeout"], words["retry"] = "write it on the steps", "write it on the steps", "write it on the steps"
	words["vars"] = `params of the file are given in "with"`
	words["params"] = `params of the file are given in "with"`
	return words
}

// stepsFields are the keys of a file of steps.
func stepsFields() []field[stepsDraft] {
	return []field[stepsDraft]{
		{key: "description", doc: "Its purpose, in a sentence.", form: textForm("text"),
			read: func(d *decoder, n *yaml.Node, _ *stepsDraft) { d.textOf(n, 4096) }},
		{key: "params", doc: "Inputs, with their types: expressions read them as params.NAME; with: of the include gives them.", form: paramsForm(),
			read: func(d *decoder, n *yaml.Node, f *stepsDraft) { d.stepsParams(n, f) }},
		{key: "steps", doc: "The work on each host, in order.", form: stepsForm(), required: true,
			read: func(d *decoder, n *yaml.Node, f *stepsDraft) { d.stepsBegin(f); f.steps = d.readSteps(n) }},
		{key: "handlers", doc: "Handlers of these steps.", form: handlersForm(),
			read: func(d *decoder, n *yaml.Node, f *stepsDraft) { f.book.Handlers = d.readHandlers(n) }},
		{key: "outputs", doc: "Values that the playbook reads as steps.NAME.outputs: a text may hold ${{ expression }}.", form: form{"a mapping of names to values", &jsonschema.Schema{Type: "object"}},
			read: func(d *decoder, n *yaml.Node, f *stepsDraft) {
				if d.IsMapping(n, "outputs") {
					f.outputs = d.template(n, "outputs", d.stepScope(false), 1)
				}
			}},
	}
}

func stepsWords() map[string]string {
	outside := "it belongs to the playbook, which includes this file"
	words := map[string]string{}
	for _, f := range playbookFields() {
		words[f.key] = outside
	}
	words["tasks"], words["vars"] = `they are called "steps"`, `inputs are called "params"`
	return words
}

// stepsDraft is a file of steps while it is read.
type stepsDraft struct {
	book    Playbook // params and handlers
	steps   []Step
	outputs *value

	outer *decoder
	with  *yaml.Node
	given *value // with:, compiled in the scope of the include
}

// stepsPath reads what include names.
func (d *decoder) stepsPath(n *yaml.Node) string {
	p := d.textOf(n, 200)
	switch {
	case p == "":
	case strings.Contains(p, "${{"):
		d.reportNode(n, problem{message: "include holds an expression", expected: "a path as it is: files are included before any host is known", hint: "write one include for each file, with when:"})
		return ""
	case !fs.ValidPath(p) || strings.Contains(p, `\`) || !strings.HasPrefix(p, StepsFolder+"/") || !isYAML(p):
		d.reportNode(n, problem{message: quote(p) + " cannot be included", expected: wantSteps,
			hint: "paths are relative to the playbook's folder, also in included files; the files are in its folder steps/"})
		return ""
	}
	return p
}

// readInclude reads a step that includes a file, and returns the steps of the file.
func (d *decoder) readInclude(n *yaml.Node, index int, taken map[string]int) []Step {
	var b draftBlock
	before := len(d.diags)
	readFields(d, n, d.stepLabel(n, index), includeFields(), blockWords(), &b)
	if b.path == "" || d.Full {
		return nil
	}
	name := b.name
	if name == "" {
		name = freeName(strings.TrimSuffix(path.Base(b.path), path.Ext(b.path)), index, taken)
		taken[name] = n.Line
	}
	d.unique(name, n)
	d.hostRead = map[string]bool{}
	when := Expr{}
	if b.when != nil {
		when = d.expression(b.when, fmt.Sprintf("when of include %q", d.full(name)), d.stepScope(false), wantBool)
	}
	with := &value{src: d.src, node: b.include, fields: []named{}}
	if b.with != nil && d.IsMapping(b.with, "with") {
		with = d.template(b.with, fmt.Sprintf("with of include %q", d.full(name)), d.stepScope(false), 1)
	}
	b.facts = d.hostRead[factsField]
	d.checkPart("include "+quote(name), n, "", b.window)
	f := d.stepsFile(b.include, b.path)
	if f == nil || len(d.diags) > before {
		d.steps = append(d.steps, knownStep{name: name, line: n.Line, outputs: open(), block: "include"})
		return nil
	}
	at := len(d.whole.blocks)
	d.whole.blocks = append(d.whole.blocks, Block{Name: d.full(name), Include: b.path, First: d.whole.steps, When: when, Line: n.Line, node: n, with: with})
	c := d.inner(f, b.include, b.path, name, d.inherited.into(at, &b))
	draft := &stepsDraft{outer: d, with: b.with, given: with}
	readFields(c, f.root, b.path, stepsFields(), stepsWords(), draft)
	c.checkHandlers(f.root, &draft.book)
	d.add(c.diags)
	if c.flushed != nil && d.flushed == nil {
		d.flushed, d.flushAt = n, len(d.steps)
	}
	d.whole.handlers = append(d.whole.handlers, draft.book.Handlers...)
	block := &d.whole.blocks[at]
	end := d.whole.steps
	block.Rescue, block.Always, block.End, block.params, block.outputs = end, end, end, draft.book.Params, draft.outputs
	d.steps = append(d.steps, knownStep{name: name, line: n.Line, outputs: includeShape(d.full(name), draft.outputs), block: "include"})
	return draft.steps
}

// includeShape returns the shape of steps.NAME.outputs of an include.
func includeShape(name string, outputs *value) *shape {
	s := closedShape(fmt.Sprintf("the outputs of include %q", name))
	if outputs != nil {
		for _, f := range outputs.fields {
			s.fields[f.name] = open()
		}
	}
	return s
}

// stepsFile reads a file for an include at n; nil is a problem that was reported.
func (d *decoder) stepsFile(n *yaml.Node, p string) *stepsFile {
	switch {
	case slices.Contains(d.chain, p):
		d.reportNode(n, problem{message: "the file includes itself: " + strings.Join(append(d.chain[slices.Index(d.chain, p):], p), " -> "), expected: "includes without a loop"})
		return nil
	case len(d.chain) == maxIncludes:
		d.reportNode(n, problem{message: fmt.Sprintf("includes are nested deeper than %d files", maxIncludes), expected: fmt.Sprintf("%d at most", maxIncludes)})
		return nil
	}
	f, known := d.whole.files[p]
	if !known {
		f = d.readStepsFile(p)
		d.whole.files[p] = f
	}
	if f.bad != nil {
		problem := *f.bad
		if problem.File == "" { // the file could not be read: the place is that of the include
			problem.File = d.src.file
			at := d.src.at(n)
			problem.Line, problem.Col, problem.Snippet, problem.Included = at.line, at.col, d.src.snippet(at), d.src.included
		} else {
			problem.Included = d.src.placeOf(n)
		}
		d.add(Diagnostics{problem})
		return nil
	}
	return f
}

func (d *decoder) readStepsFile(p string) *stepsFile {
	bad := func(message, hint string) *stepsFile {
		return &stepsFile{bad: &Diagnostic{Message: fmt.Sprintf("%s cannot be included: %s", p, clip(message, 200)), Hint: hint}}
	}
	if d.whole.read == nil {
		return bad("this playbook came without its files", "give the playbook as a file of a project")
	}
	data, err := d.whole.read(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, core.ErrNotFound) {
		return bad("there is no such file", "paths are relative to the playbook's folder, also in included files: "+filepath.Join(d.whole.folder, filepath.FromSlash(p)))
	}
	if err != nil {
		return bad(core.ErrorText(err), "a regular file below the playbook's folder is expected")
	}
	if d.whole.size += len(data); d.whole.size > maxIncluded {
		return bad(fmt.Sprintf("the included files have more than %d MiB together", maxIncluded>>20), "keep large content in files that steps send")
	}
	src, root, problem := readYAML(filepath.Join(d.whole.folder, filepath.FromSlash(p)), data)
	return &stepsFile{src: src, root: root, bad: problem}
}

// inner is the decoder of a file that is included at n.
func (d *decoder) inner(f *stepsFile, n *yaml.Node, p, name string, h inherited) *decoder {
	src := *f.src
	src.included = d.src.placeOf(n)
	c := newDecoder(&src, Options{Types: d.o.Types, TypeNames: d.o.TypeNames})
	c.Bounds, c.schemas, c.whole = d.Bounds, d.schemas, d.whole
	c.within, c.inherited, c.chain = d.full(name), h, append(slices.Clone(d.chain), p)
	return c
}

// placeOf is file:line:col of a node, with where its file is included.
func (s *source) placeOf(n *yaml.Node) string {
	at := Diagnostic{File: s.file, Line: n.Line, Col: n.Column}.Place()
	if s.included != "" {
		at += includedAt + s.included
	}
	return at
}

// full is the name of a step or handler of this file in the whole playbook.
func (d *decoder) full(name string) string {
	if d.within == "" || name == "" {
		return name
	}
	return d.within + "/" + name
}

// local is the name of a step or handler of this file as the file has it.
func (d *decoder) local(name string) string {
	if d.within == "" {
		return name
	}
	return strings.TrimPrefix(name, d.within+"/")
}

// stepsParams reads the params of a file, with the values that with: of the include has as they
// are.
func (d *decoder) stepsParams(n *yaml.Node, f *stepsDraft) {
	d.readParams(n, &f.book)
	for i := range f.book.Params {
		p := &f.book.Params[i]
		at := slices.IndexFunc(f.given.fields, func(one named) bool { return one.name == p.Name })
		switch {
		case at < 0:
		case p.Type == SecretParam:
			f.outer.giveSecret(f.given.fields[at], p)
		case !f.given.fields[at].dynamic:
			f.outer.give(f.given.fields[at].node, p, f.given.fields[at].plain(), "")
		}
	}
	d.declared = f.book.Params
}

// giveSecret reads the name of a secret that an include gives: as it is, or by a param of type
// secret.
func (d *decoder) giveSecret(v named, p *Param) {
	if name := d.secretOf(v.node); name != "" {
		p.given = name
		v.literal, v.dynamic, v.parts = name, false, nil
	}
}

// stepsBegin checks what the include gives against the params of the file, before its steps.
func (d *decoder) stepsBegin(f *stepsDraft) {
	names := make([]string, len(f.book.Params))
	for i, p := range f.book.Params {
		names[i] = p.Name
		if p.Required && !slices.ContainsFunc(f.given.fields, func(one named) bool { return one.name == p.Name }) {
			f.outer.reportNode(f.given.node, problem{message: fmt.Sprintf("the required param %s of %s has no value", quote(p.Name), d.chain[len(d.chain)-1]),
				expected: p.Want(), hint: fmt.Sprintf("give it: with: {%s: VALUE}", p.Name)})
		}
	}
	for _, one := range f.given.fields {
		if !d.params[one.name] {
			expected := yamlread.OneOf(names)
			if len(names) == 0 {
				expected = "no with: the file declares no params"
			}
			f.outer.reportNode(one.key, problem{message: fmt.Sprintf("%s has no param %s", d.chain[len(d.chain)-1], quote(one.name)), expected: expected, hint: yamlread.DidYouMean(one.name, names)})
		}
	}
}

// IsSteps reports whether a file in a folder steps/ is one that playbooks include, and no playbook.
func IsSteps(file string, data []byte) bool {
	if !slices.Contains(strings.Split(path.Dir(filepath.ToSlash(file)), "/"), StepsFolder) {
		return false
	}
	root, err := yamlread.Root(data)
	return err == nil && root != nil && root.Kind == yaml.MappingNode && !new(decoder).has(root, "playbook")
}
