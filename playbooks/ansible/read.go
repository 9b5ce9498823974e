package ansible

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of one translation.
const (
	maxFile  = 1 << 20 // bytes of a file
	maxFiles = 500     // that are read
	maxDepth = 16      // files that include each other
	maxTasks = 5000
)

// reader reads files of the tree, within bounds that all of them share.
type reader struct {
	tree   fs.FS
	shown  string
	read   int
	most   int // files to read
	tasks  int
	bounds *yamlread.Bounds
}

func newReader(o Options) *reader {
	return &reader{tree: o.Tree, shown: o.Shown, most: maxFiles, bounds: &yamlread.Bounds{Values: 200_000, Bytes: 8 << 20}}
}

// show is a file's path in messages.
func (r *reader) show(file string) string { return path.Join(r.shown, file) }

func (r *reader) fail(file string, line, col int, f yamlread.Fault) *Error {
	return &Error{yamlread.Problem{File: r.show(file), Line: line, Col: col, Fault: f}}
}

// bytes reads a file. ok is false if there is none.
func (r *reader) bytes(file string) (data []byte, ok bool, err error) {
	if r.read++; r.read > r.most {
		return nil, false, r.fail(file, 0, 0, yamlread.Fault{Message: "more than " + strconv.Itoa(r.most) + " files are included", Hint: "import the plays one by one"})
	}
	if _, ok := r.first(file); !ok {
		return nil, false, nil
	}
	f, err := r.tree.Open(file)
	if err != nil {
		return nil, false, r.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: " + reason(err)})
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, false, r.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: " + reason(err)})
	case len(data) > maxFile:
		return nil, false, r.fail(file, 0, 0, yamlread.Fault{Message: "the file is larger than 1 MiB", Hint: "split it"})
	}
	return data, true, nil
}

// vaultHeader begins every file that Ansible Vault encrypted.
const vaultHeader = "$ANSIBLE_VAULT"

// encrypted reports whether a file is one of Ansible Vault, which Ansible decrypts before it sends
// it.
func (r *reader) encrypted(file string) (bool, error) {
	f, err := r.tree.Open(file)
	if err != nil {
		return false, r.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: " + reason(err)})
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, len(vaultHeader))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, r.fail(file, 0, 0, yamlread.Fault{Message: "cannot be read: " + reason(err)})
	}
	return string(head[:n]) == vaultHeader, nil
}

func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// yaml reads a file as YAML, with aliases and merge keys resolved. root is nil if the file is
// empty, ok is false if there is none.
func (r *reader) yaml(file string) (root *yaml.Node, ok bool, err error) {
	data, ok, err := r.bytes(file)
	if err != nil || !ok {
		return nil, ok, err
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte(vaultHeader)) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!vault", Line: 1, Column: 1}, true, nil
	}
	if line, col, bad := notUTF8(data); bad {
		return nil, true, r.fail(file, line, col, yamlread.Fault{Message: "this byte is not UTF-8", Expected: "UTF-8 text"})
	}
	first, second, err := yamlread.Decode(data)
	if err != nil {
		return nil, true, r.notYAML(file, err)
	}
	if second != nil {
		return nil, true, r.fail(file, second.Line, 1, yamlread.Fault{Message: "a second YAML document begins here", Hint: "move it to a file of its own"})
	}
	if first == nil || yamlread.IsNull(first) {
		return nil, true, nil
	}
	root, err = r.resolve(file, first)
	return root, true, err
}

func notUTF8(data []byte) (line, col int, bad bool) {
	if utf8.Valid(data) {
		return 0, 0, false
	}
	at := 0
	for at < len(data) {
		c, n := utf8.DecodeRune(data[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	before := data[:at]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1, true
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`) })

func (r *reader) notYAML(file string, err error) error {
	m := yamlLine().FindStringSubmatch(err.Error())
	if m == nil {
		return r.fail(file, 0, 0, yamlread.Fault{Message: "not YAML: " + err.Error()})
	}
	line, _ := strconv.Atoi(m[1])
	return r.fail(file, line, min(line, 1), yamlread.Fault{Message: "not YAML: " + m[2], Hint: "ansible-playbook --syntax-check " + r.show(file)})
}

// resolve returns a copy without aliases and merge keys.
func (r *reader) resolve(file string, n *yaml.Node) (*yaml.Node, error) {
	var failed error
	y := yamlread.NewReader(func(at *yaml.Node, f yamlread.Fault) {
		if failed == nil {
			failed = r.fail(file, at.Line, at.Column, f)
		}
	})
	y.Bounds, y.Empty = r.bounds, true
	out := copied(y, n, 1)
	return out, failed
}

func copied(y *yamlread.Reader, n *yaml.Node, depth int) *yaml.Node {
	target, ok := y.Follow(n)
	if !ok || y.TooDeep(n, depth) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	out := *target
	out.Anchor, out.Alias, out.Content = "", nil, nil
	if n != target { // an alias is read at its place
		out.Line, out.Column = n.Line, n.Column
	}
	switch target.Kind {
	case yaml.MappingNode:
		for _, p := range y.Pairs(target, "this") {
			out.Content = append(out.Content, p.Key, copied(y, p.Value, depth+1))
		}
	case yaml.SequenceNode:
		for _, item := range target.Content {
			out.Content = append(out.Content, copied(y, item, depth+1))
		}
	}
	return &out
}

// within joins a path that a file names to its folder. ok is false where it leaves the tree.
func within(folder, name string) (string, bool) {
	joined := path.Join(folder, name)
	return joined, fs.ValidPath(joined) && !path.IsAbs(name)
}

// first returns the first of these files that exists.
func (r *reader) first(names ...string) (string, bool) {
	for _, name := range names {
		if info, err := fs.Stat(r.tree, name); fs.ValidPath(name) && err == nil && info.Mode().IsRegular() {
			return name, true
		}
	}
	return "", false
}

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	at    *yaml.Node
	value *yaml.Node
}

func entries(n *yaml.Node) []entry {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	out := make([]entry, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, entry{n.Content[i].Value, n.Content[i], n.Content[i+1]})
	}
	return out
}

func child(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entries(n) {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

var (
	plainInt   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+]?(0|[1-9]\d{0,17})$`) })
	plainFloat = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+]?(0|[1-9]\d{0,15})\.\d{1,15}$`) })
	base60     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?$`) })
)

// scalar reads a single value as Ansible's YAML 1.1 does: yes is true.
func scalar(n *yaml.Node) (any, *doubt) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return nil, doubtf("a single value is expected")
	case n.Tag == "!vault":
		return nil, vaulted()
	case n.Tag == "!unsafe":
		return nil, doubtf("!unsafe has no equivalent")
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return n.Value, nil
	}
	switch strings.ToLower(n.Value) {
	case "yes", "true", "on":
		return true, nil
	case "no", "false", "off":
		return false, nil
	case "", "~", "null":
		return nil, nil
	}
	switch {
	case plainInt().MatchString(n.Value):
		v, err := strconv.Atoi(n.Value)
		if err != nil {
			return nil, doubtf("%s is not a number that Turnus has", n.Value)
		}
		return v, nil
	case plainFloat().MatchString(n.Value):
		v, _ := strconv.ParseFloat(n.Value, 64)
		return v, nil
	case base60().MatchString(n.Value) || n.ShortTag() != "!!str":
		return nil, doubtf("YAML 1.1 and 1.2 read %s differently", n.Value).hint("quotes around it, or the number in decimal")
	}
	return n.Value, nil
}

func vaulted() *doubt {
	return doubtf("the value is encrypted with Ansible Vault").hint("turnus secrets encrypt, and secrets: [NAME] in the step (docs/secrets.md)")
}

// literal reads a value without Jinja.
func literal(n *yaml.Node) (any, *doubt) {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, e := range entries(n) {
			v, d := literal(e.value)
			if d != nil {
				return nil, d
			}
			out[e.key] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, d := literal(item)
			if d != nil {
				return nil, d
			}
			out = append(out, v)
		}
		return out, nil
	}
	v, d := scalar(n)
	if text, ok := v.(string); ok && hasJinja(text) {
		return nil, doubtf("the value %s holds Jinja, and only a literal value converts here", clip(text))
	}
	return v, d
}

func hasJinja(text string) bool {
	return strings.Contains(text, "{{") || strings.Contains(text, "{%") || strings.Contains(text, "{#")
}

// truth reads true or false.
func truth(n *yaml.Node) (bool, *doubt) {
	v, d := literal(n)
	if d != nil {
		return false, d
	}
	switch x := v.(type) {
	case bool:
		return x, nil
	case string: // quoted, or of key=value
		switch strings.ToLower(x) {
		case "yes", "true", "on", "1":
			return true, nil
		case "no", "false", "off", "0":
			return false, nil
		}
	}
	return false, doubtf("%v is neither true nor false", v)
}

// number reads a whole number that is not negative.
func number(n *yaml.Node) (int, *doubt) {
	v, d := literal(n)
	if d != nil {
		return 0, d
	}
	i, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil || i < 0 {
		return 0, doubtf("%v is not a whole number", v)
	}
	return i, nil
}

// words reads a list of texts, or one text with commas.
func words(n *yaml.Node) ([]string, *doubt) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var out []string
	for _, item := range items {
		v, d := literal(item)
		if d != nil {
			return nil, d
		}
		for word := range strings.SplitSeq(fmt.Sprint(v), ",") {
			if word = strings.TrimSpace(word); word != "" {
				out = append(out, word)
			}
		}
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
