// Package ansible owns the translation of Ansible playbooks into Turnus playbooks. It reads files
// of one folder as YAML and returns texts. A construct without an exact equivalent becomes a step
// `uses: todo`, with which no playbook validates: nothing is guessed.
//
// It must not know how playbooks are run, and changes no file.
package ansible

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Options define what to translate.
type Options struct {
	Tree  fs.FS       // folder of the playbook and of everything that it names
	Site  string      // the playbook, relative to Tree
	Shown string      // path of Tree as messages show it; "" is the current folder
	Hosts []core.Host // the inventory; nil where none is given

	// Members returns the names of a group's hosts in Ansible's order; nil if Hosts is.
	Members func(group string) []string

	// Beside is the same hosts with the vars of group_vars and host_vars beside the playbook, as
	// Ansible sees them; nil if the inventory reads those files itself.
	Beside []core.Host
}

// Result is the output of a translation.
type Result struct {
	Playbooks []Playbook
	Files     []string // files of Tree that the playbooks read at a run, sorted
}

// Playbook is the translation of one play.
type Playbook struct {
	Name      string // of the Turnus playbook
	Source    string // file:line:col of the play
	Text      string // the playbook as YAML
	Tasks     int    // tasks and handlers of the play, also those of roles and included files
	Converted int    // those that have an exact equivalent
	Todos     []Todo
	Notes     []Note
}

// Todo is something of a play that a person has to translate.
type Todo struct {
	Place   string // file:line:col
	What    string // module or keyword
	Name    string // of the task
	Reason  string
	Instead string // what to write in Turnus; may be empty
}

// Note is a difference that a converted play has.
type Note struct {
	Place, Text string
}

// Error is an input that cannot be read. errors.Is(err, core.ErrInvalid) holds.
type Error struct {
	yamlread.Problem
}

func (e *Error) Error() string { return e.String() }

// Is makes errors.Is(err, core.ErrInvalid) hold.
func (e *Error) Is(target error) bool { return target == core.ErrInvalid }

// Convert translates a playbook. An error names the file that cannot be read, and the place.
func Convert(o Options) (*Result, error) {
	c := &converter{reader: newReader(o), names: map[string]bool{}, files: map[string]bool{}, before: map[string]string{}, hosts: o.Hosts, members: o.Members}
	if err := c.readBeside(o); err != nil {
		return nil, err
	}
	if err := c.site(o.Site, nil); err != nil {
		return nil, err
	}
	return &Result{Playbooks: c.done, Files: sortedKeys(c.files)}, nil
}

// converter is the state of one translation.
type converter struct {
	*reader
	hosts   []core.Host
	members func(group string) []string
	beside  beside
	names   map[string]bool   // of playbooks
	files   map[string]bool   // that playbooks read at a run
	before  map[string]string // names that tasks of earlier plays set, with their places
	done    []Playbook
}

// doubt is why something has no exact equivalent.
type doubt struct {
	reason, instead string
	fatal           error // an input that cannot be read
}

func (d *doubt) Error() string { return d.reason }

func doubtf(format string, args ...any) *doubt { return &doubt{reason: fmt.Sprintf(format, args...)} }

func (d *doubt) hint(format string, args ...any) *doubt {
	d.instead = fmt.Sprintf(format, args...)
	return d
}

// unread is the doubt of an input that cannot be read: it ends the translation.
func unread(err error) *doubt { return &doubt{reason: err.Error(), fatal: err} }

// place is the place of a node.
func place(file string, line, col int) string { return fmt.Sprintf("%s:%d:%d", file, line, col) }

// slug is a text as a playbook's name: small letters, digits, and dashes between words.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 60 {
			break
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-_"), "playbook")
}
