// Package file owns the job type file: one path of a host, as it should be. It
// imports only the sdk.
package file

import (
	"context"
	"strconv"
	"strings"
	"unicode"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a file.
type Params struct {
	Path     string         `json:"path" turnus:"required,pattern=^/" jsonschema:"absolute path on the host"`
	State    string         `json:"state,omitempty" turnus:"default=file,enum=file|absent|directory|link" jsonschema:"what is at the path"`
	Content  *string        `json:"content,omitempty" turnus:"secret" jsonschema:"the content, as text"`
	Template string         `json:"template,omitempty" turnus:"min=1,template" jsonschema:"content: a Go text/template, relative to the playbook"`
	Vars     map[string]any `json:"vars,omitempty" turnus:"secret" jsonschema:"for the template, as .Vars"`
	Source   string         `json:"source,omitempty" turnus:"min=1,file" jsonschema:"content: a file relative to the playbook, or its digest"`
	Target   string         `json:"target,omitempty" turnus:"min=1" jsonschema:"what a link points to"`
	Mode     string         `json:"mode,omitempty" turnus:"pattern=^0?[0-7]{3,4}$" jsonschema:"permission bits, as quoted octal text such as \"0644\"; by default those of the old file, or 0644 (0755 for a directory)"`
	Owner    string         `json:"owner,omitempty" turnus:"pattern=^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?$" jsonschema:"user or user:group, names or numbers; by default those of the old file"`
	Backup   string         `json:"backup,omitempty" turnus:"pattern=^[A-Za-z0-9._~-]+$" jsonschema:"suffix; the old file is kept under it"`
	Checker  string         `json:"validate,omitempty" turnus:"pattern=^[^\\r\\n]*%s[^\\r\\n]*$" jsonschema:"command that checks the new file before it takes the place of the old one, such as visudo -cf %s; %s is the path of the new file"`
	Recurse  bool           `json:"recurse,omitempty" jsonschema:"with state absent: remove a directory and all in it"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	sources := 0
	for _, given := range []bool{p.Content != nil, p.Template != "", p.Source != ""} {
		if given {
			sources++
		}
	}
	switch {
	case p.State == "file" && sources > 1:
		bad.Add("", "expected only one of content, template and source")
	case p.State == "file" && sources == 0 && p.Mode == "" && p.Owner == "":
		bad.Add("", "expected one of content, template and source; or mode or owner of a file that is there")
	case p.State != "file" && sources > 0:
		bad.Add("/state", "content, template and source go with state file, not %s", p.State)
	}
	if (p.State == "link") != (p.Target != "") {
		bad.Add("/target", "state link and target go together")
	}
	if strings.ContainsFunc(p.Target, unicode.IsControl) {
		bad.Add("/target", "expected a path without control characters; found %q", p.Target)
	}
	if p.State == "link" && p.Mode != "" {
		bad.Add("/mode", "a link has no mode of its own")
	}
	if p.Checker != "" && sources == 0 {
		bad.Add("/validate", "validate goes with content, template or source")
	}
	if p.Vars != nil && p.Template == "" {
		bad.Add("/vars", "vars go with template")
	}
	if p.Recurse && p.State != "absent" {
		bad.Add("/recurse", "recurse goes with state absent")
	}
	return bad.Err()
}

// mode is the wanted mode; ok is false where none is given.
func (p *Params) mode() (bits uint32, ok bool) {
	if p.Mode == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(p.Mode, 8, 16)
	return uint32(n), err == nil
}

// Outputs of a file.
type Outputs struct {
	SHA256 string `json:"sha256,omitempty" jsonschema:"of the content, as wanted"`
	Size   int64  `json:"size,omitempty" jsonschema:"of the content, in bytes"`
	Backup string `json:"backup,omitempty" jsonschema:"path of the old file"`
}

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("file", run,
		sdk.Summary("A file, directory or link as it should be"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Content", sdk.With{"path": "/etc/motd", "content": "Managed by Turnus\n", "mode": "0644", "owner": "root:root"}),
		sdk.Example("From a template", sdk.With{"path": "/etc/ntp.conf", "template": "ntp.conf.tmpl", "vars": sdk.With{"servers": []string{"192.0.2.1"}}, "backup": ".orig"}),
		sdk.SecretExample("From a template, with a secret", sdk.With{"path": "/etc/app.conf", "template": "app.conf.tmpl", "mode": "0600", "vars": sdk.With{"password": "${{ secrets.DB_PASSWORD }}"}}, "DB_PASSWORD"), //nolint:gosec // a name
		sdk.Example("A file of the repository", sdk.With{"path": "/usr/local/bin/check", "source": "files/check", "mode": "0755"}),
		sdk.Example("A directory", sdk.With{"path": "/srv/app", "state": "directory", "mode": "0750", "owner": "app:app"}),
		sdk.Example("A link", sdk.With{"path": "/srv/current", "state": "link", "target": "releases/42"}),
		sdk.Example("Nothing there", sdk.With{"path": "/etc/old.conf", "state": "absent"}),
	)
}

const description = `
Brings a path of the host to the wanted state, and changes it only if it differs. It compares the
content by SHA-256, then mode and owner.

A file is written beside its path, verified by its hash on the host, and renamed. So readers never
see a part of it, and a link at the path is replaced, not followed. ` + "`backup`" + ` keeps the old file.
A new file that the command of ` + "`validate`" + ` refuses fails the step, and the old file stays. The
command runs by sh in /. The new file has a temporary name without the ending of the file, in a
folder that only this login can enter. So a command that goes by the ending, such as systemd-analyze
verify, cannot check it, nor one that looks for other files beside it. Check mode does not run the
command.

Without a parameter, mode, owner and group stay those of the old file. The folder may belong to
another user: links and files that this user puts there are not followed. Nor is a link of another
user on the way to it, unless it leads to a folder of its own owner.

` + "`template`" + ` is a Go text/template with ` + "`.Host`" + ` (the name of the host), ` + "`.Labels`" + ` and ` + "`.Vars`" + `. A
missing name is an error. For a name that may be missing write
` + "`{{default \"x\" (index .Labels \"env\")}}`" + `. Its functions are default, join, lower, upper, trim, and
quote for a word of a shell. ` + "`content`" + ` may contain expressions of the playbook.

A directory that is not empty is removed only with ` + "`recurse: true`" + `. Check mode reads the path and
shows the difference.

For a step that lists secrets, neither the difference nor the hash of the content is shown, because
the old content may contain the earlier secret. A new file then has mode 0600.
`

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	now, err := observe(ctx, r.Host(), p.Path, p.Owner)
	switch {
	case err != nil:
		return err
	case p.State == "absent":
	case now.stranger:
		return r.Lacks("%s: the host does not know the owner %s: make the user and group first, or correct their names", p.Path, p.Owner)
	case now.noFolder && p.State != "directory":
		return r.Lacks("the folder of %s does not exist: create it with an earlier step", p.Path)
	}
	switch p.State {
	case "absent":
		return absent(ctx, r, now)
	case "directory":
		return directory(ctx, r, now)
	case "link":
		return link(ctx, r, now)
	}
	return regular(ctx, r, now)
}
