package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	scriptTime   = 30 * time.Second // for one call
	maxStderr    = 4096             // shown of a failed one
	maxHostCalls = 1000             // of --host, for executables without _meta
	maxUnlisted  = 5                // hosts that a warning names
)

// execute runs an inventory program and reads what it prints.
func (f *file) execute(ctx context.Context, path string) error {
	if !strings.ContainsRune(path, filepath.Separator) {
		path = "." + string(filepath.Separator) + path // never looked up in PATH
	}
	out, err := f.b.run(ctx, path, "--list")
	if err != nil {
		return err
	}
	root := f.parseJSON(out)
	if root == nil {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		f.fail(1, 1, "%s --list printed no JSON object", path)
		return nil
	}
	calls := 0
	var failed error
	f.listing(root, func(e *entry) {
		if calls++; failed != nil || calls > maxHostCalls {
			return
		}
		var one []byte
		if one, failed = f.b.run(ctx, path, "--host", e.name); failed != nil {
			return
		}
		if vars := f.parseJSON(one); vars != nil {
			f.ansibleVars(vars, &e.own, nil)
		}
	})
	if calls > maxHostCalls {
		f.problem(1, 1, "the program prints no _meta.hostvars, and %d hosts are too many to ask for one by one", calls).
			Hint = "let --list print _meta: {hostvars: {…}}"
	}
	return failed
}

// run returns what a program prints. It is called once for all parts of an inventory.
func (b *builder) run(ctx context.Context, path string, args ...string) ([]byte, error) {
	call := strings.Join(append([]string{path}, args...), "\x00")
	if out, ran := b.ran[call]; ran {
		return out, nil
	}
	out, err := runScript(ctx, path, args...)
	if err == nil && b.ran != nil {
		b.ran[call] = out
	}
	return out, err
}

// runScript runs a program with bounded time and output.
func runScript(ctx context.Context, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the inventory that the operator named
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // also the processes that it started
	cmd.WaitDelay = time.Second
	out, errs := &core.Head{Most: maxFile, Full: cancel}, &core.Head{Most: maxStderr}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	call := path + " " + strings.Join(args, " ")
	switch {
	case out.Over():
		return nil, fmt.Errorf("inventory %s: %w: it printed more than %d MB", call, core.ErrInvalid, maxFile>>20)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("inventory %s: %w: not done within %v", call, core.ErrTimeout, scriptTime)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("inventory %s: %w", call, ctx.Err())
	case err != nil:
		said := strings.TrimSpace(strings.ToValidUTF8(errs.String(), "?"))
		return nil, fmt.Errorf("inventory %s: %w: %w\n%s", call, core.ErrInvalid, err, said)
	}
	return out.Bytes(), nil
}

// listing reads what Ansible's --list prints. ask gets the vars of a host when
// there is no _meta.hostvars; it may be nil. As with Ansible, vars alone make no host: a
// program removes a host by taking it out of its groups.
func (f *file) listing(root *yaml.Node, ask func(*entry)) {
	r := &reading{f: f, left: maxNodes, ansible: true}
	var vars, varsKey *yaml.Node // _meta.hostvars
	var order []*entry
	hosts := map[string]*entry{} // the same by name
	f.each(root, "the inventory", func(k, v *yaml.Node) {
		if k.Value == "_meta" {
			f.object(v, "_meta", func(k, v *yaml.Node) {
				if k.Value == "hostvars" && !yamlread.IsNull(yamlread.Target(v)) {
					varsKey, vars = k, v
				}
			})
			return
		}
		for _, e := range f.listed(r, k, v) {
			if hosts[e.name] == nil {
				hosts[e.name] = e
				order = append(order, e)
			}
		}
	})
	if vars != nil {
		f.hostvars(r, varsKey, vars, hosts)
	} else if ask != nil {
		for _, e := range order {
			ask(e)
		}
	}
}

// hostvars reads _meta.hostvars for hosts by their names.
func (f *file) hostvars(r *reading, key, vars *yaml.Node, hosts map[string]*entry) {
	var others []string
	f.each(vars, "_meta.hostvars", func(k, v *yaml.Node) {
		if err := CheckName(k.Value); err != nil {
			f.fail(k.Line, k.Column, "host %v", err)
			return
		}
		e := hosts[k.Value]
		if e == nil {
			others = append(others, k.Value)
			e = &entry{} // its vars are read also: they may be passwords, which sources must not have
		}
		if f.isObject(v, "the vars of host "+strconv.Quote(k.Value)) {
			f.varsInto(r, v, &e.own, nil)
		}
	})
	if len(others) > 0 {
		f.warn(key.Line, key.Column, "_meta.hostvars: left out %s that no group of the program lists: %s", core.Plural(len(others), "host"), core.Few(others, maxUnlisted))
	}
}

// listed reads one group of --list: a list of hosts, or hosts, vars and children. Without any of
// these keys it is the vars of one host, which has the name of the group. It returns the hosts.
func (f *file) listed(r *reading, k, v *yaml.Node) (hosts []*entry) {
	g := f.b.group(k.Value, f.at(k.Line, k.Column))
	what := "group " + strconv.Quote(shorten(k.Value))
	n := yamlread.Target(v)
	if n.Kind == yaml.SequenceNode {
		return f.listedHosts(g, n, what)
	}
	if n.Kind != yaml.MappingNode {
		f.fail(n.Line, n.Column, "%s is %s: expected a list of hosts, or an object with hosts, vars or children", what, yamlread.Kind(n))
		return nil
	}
	pairs := f.Pairs(n, what)
	if len(pairs) > 0 && !slices.ContainsFunc(pairs, func(p yamlread.Pair) bool { return slices.Contains(groupKeys, p.Name) }) {
		hosts = f.listedHosts(g, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{k}}, what)
		f.varsInto(r, n, &g.inline, g)
		return hosts
	}
	f.each(n, what, func(k, v *yaml.Node) {
		switch k.Value {
		case "hosts":
			hosts = f.listedHosts(g, v, "hosts of "+what)
		case "vars":
			if f.isObject(v, "vars of "+what) {
				f.varsInto(r, v, &g.inline, g)
			}
		case "children":
			for _, c := range f.listedNames(v, "children of "+what) {
				g.addChild(f.b.group(c.text, c.at))
			}
		default:
			f.warn(k.Line, k.Column, "%s: unknown key %q is left out", what, k.Value)
		}
	})
	return hosts
}

// groupKeys are those by which an object is a group.
var groupKeys = []string{"hosts", "vars", "children"}

func (f *file) listedHosts(g *group, n *yaml.Node, what string) (hosts []*entry) {
	if n = yamlread.Target(n); n.Kind == yaml.MappingNode { // Ansible takes one for children only
		f.fail(n.Line, n.Column, "%s is a mapping: expected a list of names", what)
		return nil
	}
	for _, s := range f.listedNames(n, what) {
		if err := CheckName(s.text); err != nil {
			f.fail(s.at.line, s.at.col, "%s: host %v", what, err)
			continue
		}
		e := f.b.host(s.text, s.at)
		if g.name != "all" {
			f.b.join(g, e)
		}
		hosts = append(hosts, e)
	}
	return hosts
}

// listedNames reads a list of names, or the keys of an object.
func (f *file) listedNames(n *yaml.Node, what string) (names []selector) {
	n = yamlread.Target(n)
	var items []*yaml.Node
	switch n.Kind {
	case yaml.SequenceNode:
		items = n.Content
	case yaml.MappingNode:
		f.each(n, what, func(k, _ *yaml.Node) { items = append(items, k) })
	default:
		f.fail(n.Line, n.Column, "%s is %s: expected a list of names", what, yamlread.Kind(n))
	}
	for _, item := range items {
		item = yamlread.Target(item)
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
			f.fail(item.Line, item.Column, "%s: %s is no name: expected text", what, yamlread.Kind(item))
			continue
		}
		names = append(names, selector{item.Value, f.at(item.Line, item.Column)})
	}
	return names
}

// isObject reports a value that is no object: unlike in YAML, null is none.
func (f *file) isObject(n *yaml.Node, what string) bool {
	n = yamlread.Target(n)
	if n.Kind != yaml.MappingNode {
		f.fail(n.Line, n.Column, "%s is %s: expected an object", what, yamlread.Kind(n))
	}
	return n.Kind == yaml.MappingNode
}

// object is each of an object.
func (f *file) object(n *yaml.Node, what string, visit func(k, v *yaml.Node)) {
	if f.isObject(n, what) {
		f.each(n, what, visit)
	}
}

// parseJSON reads JSON into the form of YAML, which keeps places. JSON is not
// quite YAML: escapes beyond the basic plane differ.
func (f *file) parseJSON(data []byte) *yaml.Node {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	j := &jsonReader{f: f, data: data, line: 1, dec: json.NewDecoder(bytes.NewReader(data))}
	j.dec.UseNumber()
	n, err := j.value(0)
	if err == nil {
		if _, more := j.dec.Token(); more == nil {
			err = errors.New("something follows the first value")
		}
	}
	if err != nil {
		line, col := j.place()
		f.fail(line, col, "not JSON: %v", err)
		return nil
	}
	return n
}

type jsonReader struct {
	f         *file
	data      []byte
	dec       *json.Decoder
	at, line  int // place is known up to at
	lineStart int
}

// place is where the last token ended.
func (j *jsonReader) place() (line, col int) {
	to := min(int(j.dec.InputOffset()), len(j.data))
	for ; j.at < to; j.at++ {
		if j.data[j.at] == '\n' {
			j.line++
			j.lineStart = j.at + 1
		}
	}
	return j.line, j.at - j.lineStart + 1
}

func (j *jsonReader) value(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errBudget
	}
	tok, err := j.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle}
	n.Line, n.Column = j.place()
	switch v := tok.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for j.dec.More() {
			c, err := j.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		_, err := j.dec.Token() // the end
		return n, err
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!int", v.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}
