// Package block owns the job type block: lines of a text file between two markers. It imports only
// the sdk.
package block

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a block.
type Params struct {
	Path    string `json:"path" turnus:"required,pattern=^/" jsonschema:"absolute path of the file"`
	Name    string `json:"name,omitempty" turnus:"max=100,pattern=^[A-Za-z0-9]([A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?$" jsonschema:"name of the block, which its two marker lines hold; each block of a file has its own"`
	Content string `json:"content,omitempty" turnus:"secret" jsonschema:"the lines between the markers"`
	Comment string `json:"comment,omitempty" turnus:"default=#,min=1,max=10" jsonschema:"what begins a comment in this file, such as # or // or ;"`
	Marker  string `json:"marker,omitempty" turnus:"max=200,pattern=^[^\\r\\n]*\\{mark\\}[^\\r\\n]*$" jsonschema:"whole marker line, in place of name and comment; {mark} becomes BEGIN and END, as in blockinfile of Ansible"`
	State   string `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the file has the block"`
	After   string `json:"after,omitempty" jsonschema:"RE2 expression for the line after which a new block goes; by default the end of the file"`
	Before  string `json:"before,omitempty" jsonschema:"RE2 expression for the line before which a new block goes"`
	Create  bool   `json:"create,omitempty" jsonschema:"create a file that does not exist"`
	Checker string `json:"validate,omitempty" turnus:"pattern=^[^\\r\\n]*%s[^\\r\\n]*$" jsonschema:"command that checks the new file before it takes the place of the old one, such as visudo -cf %s; %s is the path of the new file"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	for _, field := range [][2]string{{"/after", p.After}, {"/before", p.Before}} {
		if _, err := regexp.Compile(field[1]); err != nil {
			bad.Add(field[0], "not an RE2 expression: %w", err)
		}
	}
	if strings.ContainsAny(p.Comment, "\r\n") {
		bad.Add("/comment", "expected what begins a comment, on one line")
	}
	begin, end := p.markers()
	own := func(line string) bool { line = strings.TrimSpace(line); return line == begin || line == end }
	if strings.Contains(p.Content, markerText) || strings.Contains(p.Content, "END turnus ") || slices.ContainsFunc(strings.Split(p.Content, "\n"), own) {
		bad.Add("/content", "the content holds a marker of a block")
	}
	switch {
	case p.Name == "" && p.Marker == "":
		bad.Add("/name", "expected the name of the block, or its marker")
	case p.Marker != "" && (p.Name != "" || p.Comment != "" && p.Comment != "#"):
		bad.Add("/marker", "marker takes the place of name and comment: give it alone")
	}
	switch {
	case p.State == "absent" && (p.Content != "" || p.After != "" || p.Before != "" || p.Create):
		bad.Add("/state", "content, after, before and create go with state present")
	case p.State != "absent" && p.Content == "":
		bad.Add("/content", "expected the lines of the block; to remove it, set state: absent")
	}
	if p.After != "" && p.Before != "" {
		bad.Add("", "expected only one of after and before")
	}
	return bad.Err()
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("block", run,
		sdk.Summary("A block of lines in a text file, between two markers"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("Addresses of a cluster", sdk.With{"path": "/etc/hosts", "name": "cluster", "content": "192.0.2.1 db-1\n192.0.2.2 db-2\n"}),
		sdk.Example("In a file with other comments", sdk.With{"path": "/etc/php/php.ini", "name": "limits", "comment": ";", "after": `^\[PHP\]$`, "content": "memory_limit = 256M\n"}),
		sdk.Example("A block that Ansible made", sdk.With{"path": "/etc/hosts", "marker": "# {mark} ANSIBLE MANAGED BLOCK", "content": "192.0.2.1 db-1\n"}),
		sdk.Example("Gone", sdk.With{"path": "/etc/hosts", "name": "cluster", "state": "absent"}),
	)
}

const description = `
Makes sure that a text file has a block of lines, or has none, between a line ` + "`# BEGIN turnus NAME`" + `
and a line ` + "`# END turnus NAME`" + `. All other lines stay as they are, and so do mode and owner of the
file.

` + "`name`" + ` identifies a block of a file. For a block that another tool made, ` + "`marker`" + ` is the
whole line, as ` + "`# {mark} ANSIBLE MANAGED BLOCK`" + `. If the file has only one marker of the block,
has one twice, or has the end before the beginning, the step fails and changes nothing.

A new block goes to the end of the file, or after or before the one line that ` + "`after`" + ` or ` + "`before`" + `
matches. If no line or several lines match there, the step fails. A block that is there stays where
it is.

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
		Path: p.Path, Create: p.Create, Validate: p.Checker, Remove: p.State == "absent", Part: "block",
		Edit: func(text string) (string, error) {
			content, err := edit(p, text)
			if err != nil {
				return "", fmt.Errorf("block %s: %w", cmp.Or(p.Name, p.Marker), err)
			}
			return content, nil
		},
	})
}
