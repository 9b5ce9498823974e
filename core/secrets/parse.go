package secrets

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// MaxFile bounds a file of secrets, in bytes.
const MaxFile = 4 << 20

// File is the content of one file of secrets.
type File struct {
	Path       string
	Recipients []string // whom the file's secrets are encrypted to, in the order of the file
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

// ParseTree reads a file of a definitions tree, which may name what is in Vault, or encrypted by
// age. Errors are Problems; path is for their places only.
func ParseTree(path string, data []byte) (*File, error) { return parse(path, data, false) }

// ParseOwn reads a node's own file: all kinds, its credentials, and its Vault. Errors are as those
// of ParseTree.
func ParseOwn(path string, data []byte) (*File, error) { return parse(path, data, true) }

func parse(path string, data []byte, own bool) (*File, error) {
	r := &reader{file: path, own: own, out: &File{Path: path}}
	r.Reader = r.problems.Reader(path)
	r.Secret, r.Empty, r.Values, r.Bytes = true, true, 2*MaxFile, MaxFile // there are no aliases
	root, err := parseYAML(data)
	switch {
	case err != nil:
		r.problems = append(r.problems, yamlread.Problem{File: path, Fault: yamlread.Fault{Message: err.Error()}})
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
		return nil, yamlread.Conceal(err)
	}
	if root == nil || root.Tag == "!!null" {
		return nil, nil //nolint:nilnil // an empty file says nothing
	}
	return root, nil
}

// reader collects problems and continues, so that all are reported.
type reader struct {
	*yamlread.Reader
	file     string
	own      bool
	out      *File
	problems yamlread.Problems
}

func (r *reader) fail(n *yaml.Node, hint, format string, args ...any) {
	r.Fail(n, yamlread.Fault{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// list is Texts, of which an empty one would limit nothing.
func (r *reader) list(key string, to *[]string) yamlread.Field {
	f := r.Texts(key, to)
	read := f.Read
	f.Read = func(v *yaml.Node) {
		if v.Kind == yaml.SequenceNode && len(v.Content) == 0 {
			r.fail(v, "leave the key out if nothing is limited", "%s: the list is empty", key)
		}
		read(v)
	}
	return f
}

func (r *reader) root(root *yaml.Node) {
	known := []yamlread.Field{r.Each("recipients", maxRecipients, r.recipient), {Key: "secrets", Read: r.secrets}}
	if r.own {
		known = append(known, yamlread.Field{Key: "vault", Read: r.vault}, yamlread.Field{Key: "credentials", Read: r.credentials})
	} else {
		known = append(known, r.ownOnly("credentials"))
	}
	r.Mapping(root, "the file", known...)
}

func (r *reader) recipient(n *yaml.Node) {
	v, ok := r.Scalar(n, "an age or SSH public key")
	if !ok {
		return
	}
	_, err := parseRecipient(v.Value)
	switch {
	case err != nil:
		r.fail(n, "an age key begins with age1, an SSH key with ssh-ed25519 or ssh-rsa", "recipients: %v", err)
	case slices.Contains(r.out.Recipients, v.Value):
		r.fail(n, "", "recipients: the key is there twice")
	default:
		r.out.Recipients = append(r.out.Recipients, v.Value)
	}
}

// named reads a mapping of names.
func (r *reader) named(v *yaml.Node, what, plural string, most int, read func(yamlread.Pair)) {
	all := r.Pairs(v, plural)
	if len(all) > most {
		r.fail(v, "", "%s: %d names are too many, expected at most %d", plural, len(all), most)
		return
	}
	for _, p := range all {
		if !ValidName(p.Name) {
			r.fail(p.Key, "a name is a letter or _, then letters, digits and _ . -", "%s: %s is no name of a %s", plural, yamlread.Quote(p.Name), what)
			continue
		}
		read(p)
	}
}

func (r *reader) secrets(v *yaml.Node) {
	r.named(v, "secret", "secrets", MaxNames, func(p yamlread.Pair) {
		e := Entry{Name: p.Name, In: r.file, Line: p.Key.Line, Col: p.Key.Column}
		if r.entry(&e, p.Value) {
			r.out.Entries = append(r.out.Entries, e)
		}
	})
}

// entry reads one reference.
func (r *reader) entry(e *Entry, v *yaml.Node) bool {
	what := fmt.Sprintf("secret %q", e.Name)
	return r.ref(e, v, what, r.list("tenants", &e.Tenants), r.list("playbooks", &e.Playbooks), r.Text("hosts", &e.Hosts))
}

// ref reads where a value is, with more keys beside that.
func (r *reader) ref(e *Entry, v *yaml.Node, what string, more ...yamlread.Field) bool {
	before := len(r.problems)
	if v.Kind != yaml.MappingNode {
		r.fail(v, r.inTheClear(e.Name), "%s stands here in the clear, or is nothing at all: expected a mapping that shows where its value is", what)
		return false
	}
	known := append([]yamlread.Field{r.Text(kindVault, &e.Vault), r.encrypted(e)}, more...)
	if r.own {
		known = append(known, r.Text(kindEnv, &e.Env), r.Text(kindFile, &e.File), r.command(e))
	} else {
		known = append(known, r.ownOnly(kindEnv), r.ownOnly(kindFile), r.ownOnly(kindCommand))
	}
	r.Mapping(v, what, known...)
	if len(r.problems) > before {
		return false
	}
	switch n := e.kinds(); {
	case n == 0:
		r.fail(v, r.kindsHint(), "%s: its value has no place, expected one", what)
	case n > 1:
		r.fail(v, r.kindsHint(), "%s: its value has %d places, expected one", what, n)
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
	return fmt.Sprintf("turnus secrets encrypt %s puts it here encrypted; change a secret that was committed, because git keeps the old one", name)
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

// encrypted reads age:, and sees to it that it is ciphertext.
func (r *reader) encrypted(e *Entry) yamlread.Field {
	return yamlread.Field{Key: kindAge, Read: func(n *yaml.Node) {
		v, ok := r.Scalar(n, "armored ciphertext")
		if !ok {
			return
		}
		if _, err := stanzas(v.Value); err != nil {
			r.fail(v, r.inTheClear(e.Name), "secret %q: age: this is no armored age ciphertext (%v)", e.Name, err)
			return
		}
		e.Age = v.Value
	}}
}

func (r *reader) command(e *Entry) yamlread.Field {
	return yamlread.Field{Key: kindCommand, Read: func(v *yaml.Node) {
		if v.Kind == yaml.SequenceNode {
			r.list(kindCommand, &e.Argv).Read(v)
			return
		}
		r.Text(kindCommand, &e.Command).Read(v)
	}}
}

// ownOnly refuses a kind that a commit must not use.
func (r *reader) ownOnly(kind string) yamlread.Field {
	return yamlread.Field{Key: kind, Read: func(v *yaml.Node) {
		hint := "name it in the worker's own file (--secrets), or encrypt it here with turnus secrets encrypt"
		if kind == "credentials" {
			hint = "define them in the worker's own file (--secrets); hosts of the tree name them: credential: NAME"
		}
		r.fail(v, hint, "%s: a project cannot read environments and files of workers, nor run commands there", kind)
	}}
}
