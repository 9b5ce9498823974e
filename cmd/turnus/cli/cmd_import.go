package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/playbooks/ansible"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

func (a *app) importCmd() *cobra.Command {
	c := &cobra.Command{Use: "import", Short: "Translate the playbooks of another tool", Example: "  turnus import ansible site.yml --inventory hosts.ini"}
	c.AddCommand(a.importAnsibleCmd())
	return c
}

func (a *app) importAnsibleCmd() *cobra.Command {
	var into, hosts string
	c := &cobra.Command{
		Use:   "ansible SITE.yml",
		Short: "Translate an Ansible playbook: each play becomes a playbook",
		Long: `Translate an Ansible playbook: each play becomes a playbook in DIR. Roles, handlers and included
files are found beside SITE.yml. A task that has no exact equivalent becomes a step "uses: todo", with
its place and its text; a playbook with one does not validate. Nothing is guessed.
--inventory names the groups and the vars of hosts: more is converted with it. Files that exist are not
replaced. Exit code 2: something is left for you to write.`,
		Example: `  turnus import ansible site.yml --inventory hosts.ini
  turnus import ansible site.yml --into playbooks -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importAnsible(cmd.Context(), args[0], into, hosts)
		},
	}
	c.Flags().StringVar(&into, "into", "playbooks", "folder for the playbooks and the files that they use")
	c.Flags().StringVarP(&hosts, "inventory", "i", "", "the inventory that the Ansible playbook is used with")
	return c
}

func (a *app) importAnsible(ctx context.Context, site, into, hosts string) error {
	if st, err := os.Stat(site); err == nil && st.IsDir() {
		return console.Invalid("%s is a folder\nhint: turnus import ansible %s", console.Printable(site), console.Printable(shell.Quote(filepath.Join(site, "site.yml"))))
	}
	o := ansible.Options{Site: filepath.Base(site), Shown: filepath.ToSlash(filepath.Dir(site))}
	root, err := os.OpenRoot(filepath.Dir(site))
	if err != nil {
		return console.Invalid("%s: %w", console.Printable(site), err)
	}
	defer func() { _ = root.Close() }() // it was only read
	o.Tree = root.FS()
	if hosts != "" {
		inv, err := inventory.Load(ctx, []string{hosts})
		if err != nil {
			return err
		}
		o.Hosts, o.Members = append([]core.Host{}, inv.Hosts...), inv.Members
		beside, err := inventory.LoadBeside(ctx, []string{hosts}, filepath.Dir(site))
		if err != nil {
			return err
		}
		if beside != nil {
			o.Beside = append([]core.Host{}, beside.Hosts...)
		}
	}
	result, err := ansible.Convert(o)
	if err != nil {
		return err
	}
	if len(result.Playbooks) == 0 {
		return console.Invalid("%s has no task to translate", console.Printable(site))
	}
	written, err := writeImported(root, filepath.Dir(site), into, result)
	if errors.Is(err, fs.ErrExist) {
		return console.Invalid("%w\nhint: turnus import ansible %s --into NEW-FOLDER", err, site)
	}
	if err != nil {
		return err
	}
	r := importReportOf(result, written)
	if hosts == "" {
		r.hint = "with the inventory more is converted: turnus import ansible " + shell.Quote(site) + " --inventory INVENTORY --into NEW-FOLDER"
	}
	return a.reportImport(r)
}

// writeImported writes the playbooks, and copies of the files that they use, and returns the paths
// of the playbooks. If one of the files exists, it writes none.
func writeImported(root *os.Root, from, into string, result *ansible.Result) ([]string, error) {
	var written []string
	all := map[string]string{}
	for _, p := range result.Playbooks {
		path := filepath.Join(into, p.Name+".yaml")
		written = append(written, path)
		all[path] = ""
	}
	for _, name := range result.Files {
		if path := filepath.Join(into, name); !sameFile(path, filepath.Join(from, name)) {
			all[path] = name
		}
	}
	for path := range all {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("import: %s: %w", path, errors.Join(err, fs.ErrExist))
		}
	}
	for i, p := range result.Playbooks {
		if err := createFile(written[i], strings.NewReader(p.Text), 0o644); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	for path, name := range all {
		if name == "" {
			continue
		}
		if err := copyImported(root, name, path); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	return written, nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

func copyImported(root *os.Root, name, path string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return createFile(path, f, st.Mode().Perm()) // a private key stays its owner's alone
}

// createFile writes a new file, also below a folder that does not exist.
func createFile(path string, content io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a project is for its team
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// importReport is the -o json document of import.
type importReport struct {
	Tasks     int              `json:"tasks"`
	Converted int              `json:"converted"`
	Playbooks []importedReport `json:"playbooks"`
	Files     []string         `json:"files"`
	Next      string           `json:"next"`

	hint string // for a person; "" for none
}

type importedReport struct {
	File      string       `json:"file"`
	Playbook  string       `json:"playbook"`
	Source    string       `json:"source"`
	Tasks     int          `json:"tasks"`
	Converted int          `json:"converted"`
	Todos     []todoReport `json:"todos"`
	Notes     []todoReport `json:"notes"`
}

type todoReport struct {
	Place   string `json:"place"`
	What    string `json:"what,omitempty"`
	Name    string `json:"name,omitempty"`
	Reason  string `json:"reason"`
	Instead string `json:"instead,omitempty"`
}

func importReportOf(result *ansible.Result, written []string) importReport {
	r := importReport{Files: append([]string{}, result.Files...), Next: "turnus validate " + strings.Join(written, " ")}
	for i, p := range result.Playbooks {
		one := importedReport{File: written[i], Playbook: p.Name, Source: p.Source, Tasks: p.Tasks, Converted: p.Converted, Todos: []todoReport{}, Notes: []todoReport{}}
		for _, t := range p.Todos {
			one.Todos = append(one.Todos, todoReport{t.Place, t.What, t.Name, t.Reason, t.Instead})
		}
		for _, n := range p.Notes {
			one.Notes = append(one.Notes, todoReport{Place: n.Place, Reason: n.Text})
		}
		r.Tasks, r.Converted = r.Tasks+p.Tasks, r.Converted+p.Converted
		r.Playbooks = append(r.Playbooks, one)
	}
	return r
}

func (a *app) reportImport(r importReport) error {
	todos := 0
	for _, p := range r.Playbooks {
		todos += len(p.Todos)
	}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, r); err != nil {
			return err
		}
	} else {
		for _, p := range r.Playbooks {
			fmt.Fprintln(a.Out, p.File)
			a.Message(console.Printable(fmt.Sprintf("%s: %s: %d of %d tasks converted", p.Playbook, p.Source, p.Converted, p.Tasks)))
			for _, t := range p.Todos {
				a.Message(console.Printable(fmt.Sprintf("  todo %s: %s: %s", t.Place, t.What, t.Reason)))
			}
			for _, n := range p.Notes {
				a.Message(console.Printable(fmt.Sprintf("  note %s: %s", n.Place, n.Reason)))
			}
		}
		if len(r.Playbooks) > 1 {
			a.Message(fmt.Sprintf("%d plays became %d playbooks: run them in this order, one after the other", len(r.Playbooks), len(r.Playbooks)))
		}
		if todos > 0 && r.hint != "" {
			a.Message("hint: " + console.Printable(r.hint))
		}
		a.Message("next: " + console.Printable(r.Next))
	}
	if todos > 0 {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}
