package secrets

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// MaxFile bounds a file of secrets, in bytes.
const MaxFile = 4 << 20

// File is what one file of secrets says.
type File struct {
	Path       string
	Recipients []string // whom the file's secrets are sealed to, in the order of the file
	Entries    []Entry  // in the order of the file
	Vault      *Vault   // of a node's own file; nil: no Vault is used

	Credentials []*Credential // of a node's own file
}

// Entry is one name of a file.
type Entry struct {
	Name string
	Ref
	In        string // the file
	Line, Col int    // of the name
}

// Place is file:line:col of the name.
func (e Entry) Place() string { return fmt.Sprintf("%s:%d:%d", e.In, e.Line, e.Col) }

// ParseTree reads a file of a definitions tree, which may name what is in Vault, or sealed by age.
// Errors are Problems; path is for their places only.
func ParseTree(path string, data []byte) (*File, error) { return parse(path, data, false) }

// ParseOwn reads a node's own file: all kinds, its credentials, and its Vault. Errors are as those of ParseTree.
func ParseOwn(path string, data []byte) (*File, error) { return parse(path, data, true) }

func parse(path string, data []byte, own bool) (*File, error) {
	r := &reader{file: path, own: own, out: &File{Path: path}}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		r.problems = append(r.problems, Problem{File: path, Message: err.Error()})
	case root != nil:
		r.root(root)
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.out, nil
}

// parseYAML gives the one document's value; nil when there is none.
func parseYAML(data []byte) (*yaml.Node, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file is larger than %d MiB", MaxFile>>20)
	}
	root, err := yamlread.Root(data)
	if err != nil {
		return nil, yamlError(err)
	}
	if root == nil || root.Tag == "!!null" {
		return nil, nil //nolint:nilnil // an empty file says nothing
	}
	return root, nil
}

// yamlError keeps of the parser's message what quotes nothing of the file.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if text, _, _ = strings.Cut(text, "'"); strings.ContainsAny(text, "\"`") || len(text) > 120 {
		return errors.New("not YAML")
	}
	return fmt.Errorf("not YAML: %s", text)
}

// reader collects problems and goes on, so that all are told.
type reader struct {
	file     string
	own      bool
	out      *File
	problems Problems
}

func (r *reader) fail(n *yaml.Node, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: n.Line, Col: n.Column, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// field is what reads one key's value.
type field struct {
	key  string
	read func(v *yaml.Node)
}

// fields reads a mapping: each key once, and no other.
func (r *reader) fields(n *yaml.Node, what string, known ...field) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "", "%s: expected a mapping", what)
		return
	}
	var names []string
	for _, f := range known {
		names = append(names, f.key)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := slices.Index(names, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode || at < 0:
			hint := "expected one of: " + strings.Join(names, ", ")
			if near := yamlread.DidYouMean(k.Value, names); near != "" {
				hint = near + " " + hint
			}
			r.fail(k, hint, "%s: unknown key %q", what, cut(k.Value))
		case seen[k.Value]:
			r.fail(k, "", "%s: the key %q is there twice", what, k.Value)
		case v.Kind == yaml.AliasNode:
			r.fail(v, "write it out", "%s: %s is an alias, which is not taken here", what, k.Value)
		default:
			seen[k.Value] = true
			known[at].read(v)
		}
	}
}

func (r *reader) text(to *string, what string) field {
	return field{what, func(v *yaml.Node) {
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || v.Value == "" {
			r.fail(v, "", "%s: expected text", what)
			return
		}
		*to = v.Value
	}}
}

func (r *reader) list(to *[]string, what string) field {
	return field{what, func(v *yaml.Node) {
		items := []*yaml.Node{v}
		if v.Kind == yaml.SequenceNode {
			items = v.Content
		}
		if len(items) == 0 {
			r.fail(v, "leave the key out if nothing is limited", "%s: the list is empty", what)
		}
		for _, n := range items {
			if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
				r.fail(n, "", "%s: expected text, or a list of texts", what)
				continue
			}
			*to = append(*to, n.Value)
		}
	}}
}

func (r *reader) root(root *yaml.Node) {
	known := []field{r.recipients(), {"secrets", r.secrets}}
	if r.own {
		known = append(known, field{"vault", r.vault}, field{"credentials", r.credentials})
	} else {
		known = append(known, r.ownOnly("credentials"))
	}
	r.fields(root, "the file", known...)
}

func (r *reader) recipients() field {
	return field{"recipients", func(v *yaml.Node) {
		if v.Kind != yaml.SequenceNode {
			r.fail(v, "", "recipients: expected a list of age and SSH public keys")
			return
		}
		for _, n := range v.Content {
			if n.Kind != yaml.ScalarNode {
				r.fail(n, "", "recipients: expected an age or SSH public key")
				continue
			}
			if _, err := parseRecipient(n.Value); err != nil {
				r.fail(n, "an age key begins with age1, an SSH key with ssh-ed25519 or ssh-rsa", "recipients: %v", err)
				continue
			}
			if slices.Contains(r.out.Recipients, n.Value) {
				r.fail(n, "", "recipients: the key is there twice")
				continue
			}
			r.out.Recipients = append(r.out.Recipients, n.Value)
		}
		if len(r.out.Recipients) > maxRecipients {
			r.fail(v, "", "recipients: %d are too many, expected at most %d", len(r.out.Recipients), maxRecipients)
		}
	}}
}

func (r *reader) secrets(v *yaml.Node) {
	if v.Kind != yaml.MappingNode && v.Tag != "!!null" {
		r.fail(v, "", "secrets: expected names, and where the value of each is")
		return
	}
	if len(v.Content)/2 > MaxNames {
		r.fail(v, "", "secrets: %d names are too many, expected at most %d", len(v.Content)/2, MaxNames)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		k, ref := v.Content[i], v.Content[i+1]
		e := Entry{Name: k.Value, In: r.file, Line: k.Line, Col: k.Column}
		switch {
		case k.Kind != yaml.ScalarNode || !ValidName(k.Value):
			r.fail(k, "a name is a letter or _, then letters, digits and _ . -", "secrets: %q is no name of a secret", cut(k.Value))
		case seen[k.Value] > 0:
			r.fail(k, fmt.Sprintf("the first stands in line %d", seen[k.Value]), "secret %q is there twice", k.Value)
		case r.entry(&e, ref):
			r.out.Entries = append(r.out.Entries, e)
		}
		seen[k.Value] = k.Line
	}
}

// entry reads one reference.
func (r *reader) entry(e *Entry, v *yaml.Node) bool {
	what := fmt.Sprintf("secret %q", e.Name)
	return r.ref(e, v, what, r.list(&e.Tenants, "tenants"), r.list(&e.Playbooks, "playbooks"), r.text(&e.Hosts, "hosts"))
}

// ref reads where a value is, with more keys beside that.
func (r *reader) ref(e *Entry, v *yaml.Node, what string, more ...field) bool {
	before := len(r.problems)
	if v.Kind != yaml.MappingNode {
		r.fail(v, r.inTheClear(e.Name), "%s stands here in the clear, or is nothing at all: expected a mapping that says where its value is", what)
		return false
	}
	known := append([]field{r.text(&e.Vault, kindVault), r.sealed(e)}, more...)
	if r.own {
		known = append(known, r.text(&e.Env, kindEnv), r.text(&e.File, kindFile), r.command(e))
	} else {
		known = append(known, r.ownOnly(kindEnv), r.ownOnly(kindFile), r.ownOnly(kindCommand))
	}
	r.fields(v, what, known...)
	if len(r.problems) > before {
		return false
	}
	switch n := e.kinds(); {
	case n == 0:
		r.fail(v, r.kindsHint(), "%s: it is not said where its value is", what)
	case n > 1:
		r.fail(v, r.kindsHint(), "%s: its value is said to be in %d places, expected one", what, n)
	case e.Vault != "":
		if _, err := parseVaultPath(e.Vault); err != nil {
			r.fail(v, "write MOUNT/PATH#FIELD, such as kv/fw/api#token", "%s: vault: %v", what, err)
		}
	}
	return len(r.problems) == before
}

func (r *reader) inTheClear(name string) string {
	if r.own {
		return r.kindsHint()
	}
	return fmt.Sprintf("turnus secrets encrypt %s puts it here sealed; change a secret that was committed, for git keeps the old one", name)
}

func (r *reader) kindsHint() string {
	if r.own {
		return "give one of env, file, command, vault, age"
	}
	return "give vault or age"
}

func (e *Entry) kinds() (n int) {
	for _, set := range []bool{e.Env != "", e.File != "", e.Command != "" || len(e.Argv) > 0, e.Vault != "", e.Age != ""} {
		if set {
			n++
		}
	}
	return n
}

// sealed reads age:, and sees to it that it is ciphertext.
func (r *reader) sealed(e *Entry) field {
	return field{kindAge, func(v *yaml.Node) {
		if v.Kind != yaml.ScalarNode {
			r.fail(v, "", "age: expected armored ciphertext")
			return
		}
		if _, err := stanzas(v.Value); err != nil {
			r.fail(v, r.inTheClear(e.Name), "secret %q: age: this is no armored age ciphertext (%v)", e.Name, err)
			return
		}
		e.Age = v.Value
	}}
}

func (r *reader) command(e *Entry) field {
	return field{kindCommand, func(v *yaml.Node) {
		if v.Kind == yaml.SequenceNode {
			r.list(&e.Argv, kindCommand).read(v)
			return
		}
		r.text(&e.Command, kindCommand).read(v)
	}}
}

// ownOnly refuses a kind that a commit must not use.
func (r *reader) ownOnly(kind string) field {
	return field{kind, func(v *yaml.Node) {
		hint := "name it in the worker's own file (--secrets), or seal it here with turnus secrets encrypt"
		if kind == "credentials" {
			hint = "define them in the worker's own file (--secrets); hosts of the tree name them: credential: NAME"
		}
		r.fail(v, hint, "%s: a definitions tree cannot read environments and files of workers, nor run commands there", kind)
	}}
}

// cut keeps a message short, and a terminal from being steered.
func cut(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return '·'
		}
		return c
	}, text)
	if c := []rune(text); len(c) > 60 {
		return string(c[:60]) + "…"
	}
	return text
}
