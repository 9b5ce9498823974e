// Package line owns the job type line: one line of a text file. It imports only the sdk.
package line

import (
	"context"
	"regexp"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a line.
type Params struct {
	Path    string `json:"path" turnus:"required,pattern=^/" jsonschema:"absolute path of the file"`
	Line    string `json:"line,omitempty" turnus:"secret" jsonschema:"the line, without a line end"`
	Match   string `json:"match,omitempty" jsonschema:"RE2 expression for the line to replace or remove; it must also match line"`
	State   string `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the file has the line"`
	After   string `json:"after,omitempty" jsonschema:"RE2 expression for the line after which a new line goes; by default the end of the file"`
	Before  string `json:"before,omitempty" jsonschema:"RE2 expression for the line before which a new line goes"`
	Create  bool   `json:"create,omitempty" jsonschema:"create a file that does not exist"`
	Checker string `json:"validate,omitempty" turnus:"pattern=^[^\\r\\n]*%s[^\\r\\n]*$" jsonschema:"command that checks the new file before it takes the place of the old one, such as visudo -cf %s; %s is the path of the new file"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	if strings.ContainsAny(p.Line, "\r\n") {
		bad.Add("/line", "expected one line; use the job type block for several")
	}
	for _, field := range [][2]string{{"/match", p.Match}, {"/after", p.After}, {"/before", p.Before}} {
		pointer, text := field[0], field[1]
		re, err := regexp.Compile(text)
		switch {
		case err != nil:
			bad.Add(pointer, "not an RE2 expression: %w", err)
		case pointer == "/match" && p.Match != "" && p.Line != "" && !re.MatchString(p.Line) && !strings.Contains(p.Line, "${{ secrets."): // the value of a secret is known on a host only
			bad.Add(pointer, "expected an expression that also matches line, or each run adds the line again; %q does not", text)
		}
	}
	switch {
	case p.State == "absent" && p.Line == "" && p.Match == "":
		bad.Add("", "expected line or match")
	case p.State != "absent" && p.Line == "":
		bad.Add("/line", "expected the line")
	}
	if p.State == "absent" && (p.After != "" || p.Before != "" || p.Create) {
		bad.Add("/state", "after, before and create go with state present")
	}
	if p.After != "" && p.Before != "" {
		bad.Add("", "expected only one of after and before")
	}
	return bad.Err()
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("line", run,
		sdk.Summary("One line of a text file"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("A setting", sdk.With{"path": "/etc/ssh/sshd_config", "match": `^#?PermitRootLogin\b`, "line": "PermitRootLogin no"}),
		sdk.Example("A line that must be there", sdk.With{"path": "/etc/hosts", "line": "192.0.2.1 db", "after": `^127\.0\.0\.1\s`}),
		sdk.Example("Lines that must be gone", sdk.With{"path": "/etc/hosts", "match": `\sold-db$`, "state": "absent"}),
	)
}

const description = `
Makes sure that a text file has a line, or has none. All other lines stay as they are, and so do
mode and owner of the file.

Without ` + "`match`" + ` the line is compared as a whole. With ` + "`match`" + ` the one line that matches is replaced;
if several lines match, the step fails. A new line goes to the end of the file, or after or before
the one line that ` + "`after`" + ` or ` + "`before`" + ` matches. If no line or several lines match there, the step
fails. ` + "`match`" + ` must also match the new line, or each run would add the line again: ` + "`turnus validate`" + `
checks it.

With state absent, all lines that match, or that are equal to ` + "`line`" + `, are removed.

The new file is written beside the old one and renamed, if the old one is still as it was read: if
another writer changed it in between, the step fails and that change stays. Give the file itself,
not a link. A file that does not exist fails the step without ` + "`create: true`" + `.

A new file that the command of ` + "`validate`" + ` refuses fails the step, and the old file stays. The
command runs by sh in /. The new file has a temporary name without the ending of the file, in a
folder that only this login can enter. So a command that goes by the ending, such as systemd-analyze
verify, cannot check it, nor one that looks for other files beside it. Check mode does not run the
command.

A step that fails because of the file counts as a change in check mode if an earlier step would
change the host, because that step may change the file.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	return r.EditText(ctx, sdk.TextEdit{
		Path: p.Path, Create: p.Create, Validate: p.Checker, Remove: p.State == "absent", Part: "line",
		Edit: func(text string) (string, error) { return edit(p, text) },
	})
}
