// Package copytree owns the job type copy: a tree of files of the playbook's folder on a host. It
// imports only the sdk.
package copytree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a copy.
type Params struct {
	Source    string         `json:"source" turnus:"required,min=1,folder" jsonschema:"folder with the files, relative to the playbook"`
	Path      string         `json:"path" turnus:"required,pattern=^/" jsonschema:"folder on the host that gets them; made where it is missing"`
	Delete    bool           `json:"delete,omitempty" jsonschema:"remove what is in the folder of the host and not in the source"`
	Templates bool           `json:"templates,omitempty" turnus:"templates" jsonschema:"render files whose name ends in .tmpl, as Go text/template, and drop that ending"`
	Vars      map[string]any `json:"vars,omitempty" turnus:"secret" jsonschema:"for the templates, as .Vars"`
	Mode      string         `json:"mode,omitempty" turnus:"pattern=^0?[0-7]{3,4}$" jsonschema:"permission bits of all files, as quoted octal text; by default a file that is there keeps its own, a new one has 0644, and one that can be executed in the source 0755"`
	DirMode   string         `json:"dir_mode,omitempty" turnus:"pattern=^0?[0-7]{3,4}$" jsonschema:"permission bits of all folders in it; by default a folder that is there keeps its own, and a new one has 0755"`
	Owner     string         `json:"owner,omitempty" turnus:"pattern=^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?$" jsonschema:"user or user:group of all files and folders, names or numbers; by default those there keep their own"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	if clean := path.Clean(p.Source); path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		bad.Add("/source", "expected a folder below that of the playbook")
	}
	if p.Vars != nil && !p.Templates {
		bad.Add("/vars", "vars go with templates: true")
	}
	return bad.Err()
}

// bits reads permission bits; 0 where none are given.
func bits(text string) uint32 {
	n, _ := strconv.ParseUint(text, 8, 16)
	return uint32(n)
}

// Outputs of a copy.
type Outputs struct {
	Files   int `json:"files" jsonschema:"files of the source"`
	Written int `json:"written" jsonschema:"files that were written, or would be"`
	Removed int `json:"removed" jsonschema:"files and folders that were removed, or would be"`
}

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("copy", run,
		sdk.Summary("A tree of files, as in a folder of the playbook"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A folder", sdk.With{"source": "files/site", "path": "/srv/www", "owner": "www-data:www-data"}),
		sdk.Example("Exactly this folder, with templates", sdk.With{"source": "files/conf.d", "path": "/etc/app/conf.d", "delete": true, "templates": true, "vars": sdk.With{"port": 8080}}),
	)
}

const description = `
Copies the files below a folder of the playbook to a folder of the host. One query gets a hash of
each file that is there; what differs is sent as one stream, whatever the number of files, and put
in place when all of it has arrived. A file is replaced by renaming, so nobody sees half of it.
Where the disk is full nothing is replaced.

Other files of the host's folder stay, or are removed with ` + "`delete: true`" + `. Folders without files and
git's own folder are not copied. A link in the source is copied as the file that it points to. A
link of the host in the place of a file is replaced; one in the place of a folder below ` + "`path`" + ` fails
the step.

` + "`templates`" + ` renders as the job type ` + "`file`" + ` does: ` + "`.Host`" + `, ` + "`.Labels`" + `, ` + "`.Vars`" + `, and the functions
default, join, lower, upper, trim, quote.

As root it follows no link that the owner of the folder, or of one above or below it, plants. A
host without ` + "`/proc`" + ` refuses such a folder: let that user write it, with ` + "`become: {user: NAME}`" + `.
`

// wanted is a file as it shall be on the host.
type wanted struct {
	name     string // on the host, relative to the folder
	artifact string // on the worker
	template bool
	runs     bool // it can be executed
	size     int64
	sha256   string
}

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	files, err := source(ctx, r)
	if err != nil {
		return err
	}
	now, err := look(ctx, r, files)
	if err != nil {
		return err
	}
	if now.stranger {
		return r.Lacks("the host does not know the owner %s: make the user and group first, or correct their names", p.Owner)
	}
	todo, err := compare(p, files, now)
	if err != nil {
		return sdk.Refuse("%s: %w", p.Path, err)
	}
	r.Output("files", len(files))
	r.Output("written", len(todo.send))
	r.Output("removed", todo.removed)
	if len(todo.ops) > 0 {
		r.Changed()
		r.Explain(fmt.Sprintf("%d of %d files written, %d removed, mode or owner of %d set", len(todo.send), len(files), todo.removed, todo.attributes))
		if len(r.Secrets) > 0 { // what may be guessed can be tried against a hash
			todo.hide()
		}
		r.ShowDiff(p.Path, []byte(todo.before), []byte(todo.after))
	}
	if r.Check || len(todo.ops) == 0 && !now.leftover {
		return nil
	}
	return send(ctx, r, todo)
}

// source lists the files of the worker as they shall be on the host.
func source(ctx context.Context, r *runOf) ([]wanted, error) {
	p := r.Params
	list, err := r.Artifacts(ctx, p.Source)
	if err != nil {
		return nil, sdk.Refuse("source %s: %w", p.Source, err)
	}
	if len(list) == 0 {
		return nil, sdk.Refuse("source %s: the folder holds no files", p.Source)
	}
	seen := map[string]bool{}
	files := make([]wanted, 0, len(list))
	for _, f := range list {
		w := wanted{name: f.Name, artifact: path.Join(p.Source, f.Name), size: f.Size, sha256: f.SHA256, runs: f.Mode&0o111 != 0}
		if p.Templates {
			w.name, w.template = strings.CutSuffix(f.Name, ".tmpl")
		}
		if strings.ContainsAny(w.name, "\n\r\t\\") || strings.HasSuffix(w.name, "/") || strings.HasPrefix(w.name, staging) {
			return nil, sdk.Refuse("source %s: the name %q cannot be copied", p.Source, f.Name)
		}
		if seen[w.name] {
			return nil, sdk.Refuse("source %s: %s is there as a file and as a template: remove one", p.Source, w.name)
		}
		seen[w.name] = true
		if w.template {
			text, err := r.Render(ctx, w.artifact, p.Vars)
			if err != nil {
				return nil, err
			}
			w.size, w.sha256 = int64(len(text)), fmt.Sprintf("%x", sha256.Sum256(text))
		}
		files = append(files, w)
	}
	return files, nil
}

// look asks the host for what is there, in one command that changes nothing.
func look(ctx context.Context, r *runOf, files []wanted) (*tree, error) {
	p := r.Params
	var names strings.Builder
	for _, name := range paths(files) {
		names.WriteString("./" + name + "\n")
	}
	line := sdk.Vars("p", p.Path, "o", p.Owner, "delete", p.Delete) + lookScript
	out := sdk.Head{Limit: 64 << 20}
	exit, err := r.Host().Exec(ctx, sdk.Command{Run: line, ReadOnly: true, Stdin: strings.NewReader(names.String()), Stdout: &out})
	if err == nil {
		err = exit.Err()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("inspect %s: %w", p.Path, err)
	case out.Truncated():
		return nil, sdk.Refuse("%s: the folder holds too many files to compare", p.Path)
	}
	return read(bytes.Lines(out.Bytes())), nil
}
