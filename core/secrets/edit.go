package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Put writes ciphertext under a name of a file's YAML, in place of what is encrypted there or as
// its last name. All else stays as it was: comments, order, limits. A name whose value is not
// encrypted is refused: it is meant to lie elsewhere.
func Put(path string, data []byte, name, encrypted string) ([]byte, error) {
	if !ValidName(name) {
		return nil, fmt.Errorf("%q is no name of a secret: expected a letter or _, then letters, digits and _ . -: %w", yamlread.Clip(name), core.ErrInvalid)
	}
	before, err := ParseOwn(path, data) // it may be the own file of a node, which allows all kinds
	if err != nil {
		return nil, err
	}
	for _, e := range before.Entries {
		if e.Name == name && e.Kind() != kindAge {
			return nil, fmt.Errorf("%s: the value of secret %q is in %s: remove that from the file to encrypt one here: %w", e.Place(), name, e.Kind(), core.ErrInvalid)
		}
	}
	for _, write := range []func([]byte, string, string) ([]byte, error){splice, reencode} {
		out, err := write(data, name, encrypted)
		if err == nil && onlyChanged(path, before, out, name, encrypted) {
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s: secret %q could not be put in without changing something else: write it as name:, and below it age: |: %w", path, name, core.ErrInvalid)
}

// onlyChanged proves an edit: the file reads as before except the one name.
func onlyChanged(path string, before *File, data []byte, name, encrypted string) bool {
	after, err := ParseOwn(path, data)
	if err != nil || !slices.Equal(before.Recipients, after.Recipients) {
		return false
	}
	refs := func(f *File) (map[string]string, []string) {
		out, names := map[string]string{}, []string(nil)
		for _, e := range f.Entries {
			names = append(names, e.Name)
			out[e.Name] = fmt.Sprintf("%+v", e.Ref)
		}
		return out, names
	}
	was, order := refs(before)
	is, now := refs(after)
	i := slices.IndexFunc(after.Entries, func(e Entry) bool { return e.Name == name })
	if i < 0 || strings.TrimSpace(after.Entries[i].Age) != strings.TrimSpace(encrypted) {
		return false
	}
	if !slices.Contains(order, name) {
		order = append(order, name)
	}
	delete(was, name)
	delete(is, name)
	return maps.Equal(was, is) && slices.Equal(order, now)
}

var errShape = errors.New("the file is written in another way")

// splice edits the text itself, so that all around stays byte by byte. It knows block mappings
// only.
func splice(data []byte, name, encrypted string) ([]byte, error) {
	root, err := parseYAML(data)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	key, names := entryOf(root, "secrets")
	if key == nil {
		return []byte(strings.Join(lines, "") + "secrets:\n" + newEntry(2, name, encrypted)), nil
	}
	if names.Kind != yaml.MappingNode && names.Tag != "!!null" || names.Style&yaml.FlowStyle != 0 {
		return nil, errShape
	}
	if len(names.Content) == 0 {
		return insert(lines, key.Line, newEntry(key.Column+1, name, encrypted)), nil
	}
	nameKey, ref := entryOf(names, name)
	if nameKey == nil {
		indent := names.Content[0].Column - 1
		last := names.Content[len(names.Content)-2]
		return insert(lines, blockEnd(lines, last.Line, indent), newEntry(indent, name, encrypted)), nil
	}
	ageKey, value := entryOf(ref, kindAge)
	if ageKey == nil || ref.Style&yaml.FlowStyle != 0 || value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return nil, errShape
	}
	indent := ageKey.Column - 1
	end := blockEnd(lines, ageKey.Line, indent)
	head := lines[ageKey.Line-1][:len(string([]rune(lines[ageKey.Line-1])[:indent]))]
	block := head + "age: |\n" + indented(indent+2, encrypted)
	return []byte(strings.Join(lines[:ageKey.Line-1], "") + block + strings.Join(lines[end:], "")), nil
}

func entryOf(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// blockEnd is the number of lines up to the end of what begins in a line (from 1) and is indented
// deeper than indent; blank lines and comments at its end are not its own.
func blockEnd(lines []string, line, indent int) int {
	end := line
	for i := line; i < len(lines); i++ {
		text := strings.TrimRight(lines[i], "\r\n")
		trimmed := strings.TrimLeft(text, " ")
		if trimmed == "" {
			continue
		}
		if len(text)-len(trimmed) <= indent {
			break
		}
		end = i + 1
	}
	return end
}

func insert(lines []string, after int, text string) []byte {
	return []byte(strings.Join(lines[:after], "") + text + strings.Join(lines[after:], ""))
}

func newEntry(indent int, name, encrypted string) string {
	pad := strings.Repeat(" ", indent)
	return pad + name + ":\n" + pad + "  age: |\n" + indented(indent+4, encrypted)
}

func indented(n int, text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString(strings.Repeat(" ", n) + line)
	}
	return b.String()
}

// reencode writes the whole file again: comments and order stay, blank lines and quotes may not.
func reencode(data []byte, name, encrypted string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return nil, errShape
	}
	root := doc.Content[0]
	key, names := entryOf(root, "secrets")
	if key == nil || names.Kind != yaml.MappingNode {
		return nil, errShape
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: encrypted}
	names.Style &^= yaml.FlowStyle
	nameKey, ref := entryOf(names, name)
	if nameKey == nil {
		ref = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		names.Content = append(names.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, ref)
	}
	if _, old := entryOf(ref, kindAge); old != nil {
		value.HeadComment, value.FootComment = old.HeadComment, old.FootComment
		*old = *value
	} else {
		ref.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: kindAge}, value}, ref.Content...)
	}
	ref.Style &^= yaml.FlowStyle
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, errShape
	}
	return out.Bytes(), nil
}

// NewFile is the text of a file without secrets, encrypted to these recipients.
func NewFile(recipients []string) ([]byte, error) {
	var b strings.Builder
	b.WriteString("# Secrets of this project, encrypted by age: turnus secrets encrypt NAME adds one.\nrecipients:\n")
	for _, r := range recipients {
		if _, err := parseRecipient(r); err != nil {
			return nil, fmt.Errorf("recipient: %w: %w", err, core.ErrInvalid)
		}
		b.WriteString("  - " + strings.TrimSpace(r) + "\n")
	}
	b.WriteString("secrets:\n")
	return []byte(b.String()), nil
}

// Opener opens encrypted secrets with a person's identities.
type Opener struct{ keys identities }

// NewOpener reads files of age identities or SSH private keys. Errors wrap core.ErrInvalid.
func NewOpener(files []string) (*Opener, error) {
	keys, err := readIdentities(files)
	if err != nil {
		return nil, err
	}
	return &Opener{keys}, nil
}

// Open decrypts armored ciphertext. Errors wrap core.ErrInvalid.
func (o *Opener) Open(encrypted string) ([]byte, error) { return bounded(o.keys.open(encrypted)) }
