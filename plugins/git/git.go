// Package git owns the job type git: a clone of a git repository at a commit. It imports only the
// sdk.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a clone.
type Params struct {
	URL     string `json:"url" turnus:"required,pattern=^[A-Za-z0-9/]" jsonschema:"where the repository is: https://…, ssh://…, user@host:path or a path on the host; without a password"`
	Path    string `json:"path" turnus:"required,pattern=^/" jsonschema:"folder of the clone on the host"`
	Version string `json:"version,omitempty" turnus:"default=HEAD,max=250,pattern=^[A-Za-z0-9_][A-Za-z0-9._/+-]*$" jsonschema:"branch, tag, or all 40 digits of a commit; refs/heads/NAME or refs/tags/NAME where both have the name"`
	Depth   int    `json:"depth,omitempty" turnus:"min=0" jsonschema:"how many commits to fetch; 0 is all"`
}

var commit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	if strings.Contains(p.Version, "..") || strings.HasSuffix(p.Version, "/") {
		bad.Add("/version", "expected a branch, a tag or a commit")
	}
	scheme, _, full := strings.Cut(p.URL, "://")
	switch {
	case strings.ContainsAny(p.URL, " \t\r\n") || strings.Contains(p.URL, "::"):
		bad.Add("/url", "expected https://…, ssh://…, user@host:path or a path on the host")
	case full && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "":
		bad.Add("/url", "expected https://…, ssh://…, user@host:path or a path on the host")
	case full:
		u, err := url.Parse(p.URL)
		if err != nil {
			bad.Add("/url", "this is no URL")
		} else if _, password := u.User.Password(); password || u.User != nil && scheme != "ssh" {
			bad.Add("/url", "a login in a URL is shown and stored: take it out, and give the host a deploy key or a credential helper")
		}
	}
	return bad.Err()
}

// Outputs of a clone.
type Outputs struct {
	Before string `json:"before,omitempty" jsonschema:"commit that was checked out before"`
	Commit string `json:"commit" jsonschema:"commit that is checked out, or would be"`
}

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("git", run,
		sdk.Summary("A clone of a git repository, at a branch, tag or commit"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A tag", sdk.With{"url": "https://git.example.net/app.git", "path": "/srv/app", "version": "v1.4"}),
		sdk.Example("The newest commit of a branch, without history", sdk.With{"url": "git@git.example.net:app.git", "path": "/srv/app", "version": "main", "depth": 1}),
	)
}

const description = `
Clones a repository, or brings a clone to another commit. It asks the repository which commit the
version is: with the same commit checked out nothing is done. The commit is checked out as such, so
HEAD is detached, and commits of the host stay in its reflog.

Changes to files that git tracks fail the step: commit or discard them first. Files that git does
not track stay. A folder with files and without a commit fails the step, also after git init.

git runs as the owner of the folder if the login is root: git refuses folders of others, and files
would become root's. It asks no question, so a login for the repository comes from that user's
deploy key or credential helper. A link that another user may have planted on the way to the folder
is not followed. Submodules are not fetched. A commit is fetched by its digits where
the server allows that, and else with all branches and tags.

The simulated hosts of ` + "`turnus lab`" + ` have no git, so the step fails there.

A step that was killed is finished by the next one. In check mode it also asks the repository.
`

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	vars := sdk.Vars("url", p.URL, "version", p.Version, "depth", p.Depth)
	result := r.Host().Query(ctx, asOwner(p.Path, "enter", vars, askScript))
	if err := result.Err(); err != nil {
		return fmt.Errorf("inspect %s: %w", p.Path, err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	want, ref, err := decide(p, a)
	switch {
	case err != nil && a.Has("dirty"): // no earlier step is meant to end that
		return sdk.Refuse("%s: %w", p.Path, err)
	case err != nil:
		return r.Lacks("%s: %w", p.Path, err)
	}
	head, origin := a.Value("head"), a.Value("origin")
	r.Output("before", head)
	r.Output("commit", want)
	if head == want && origin == p.URL && !a.Has("unfinished") {
		return nil
	}
	r.Changed()
	r.Explain(fmt.Sprintf("%.12s, was %.12s", want, cmp.Or(head, "nothing")))
	r.ShowDiff(p.Path, []byte(text(head, origin)), []byte(text(want, p.URL)))
	if r.Check {
		return nil
	}
	line := asOwner(p.Path, "reach", vars+sdk.Vars("want", want, "ref", ref), doScript)
	if err := r.Host().Short(ctx, sdk.Command{Run: line}).Err(); err != nil {
		return fmt.Errorf("%s: checking out %s of %s: %w", p.Path, p.Version, p.URL, err)
	}
	return nil
}

func text(commit, origin string) string {
	if commit == "" {
		return ""
	}
	if u, err := url.Parse(origin); err == nil && u.User != nil { // a clone made by hand may hold a login
		u.User = nil
		origin = u.String()
	}
	return "commit " + commit + "\norigin " + origin + "\n"
}

// decide returns the commit to check out, and the name to fetch it by; "" for a commit.
func decide(p Params, a sdk.Answer) (want, ref string, err error) {
	switch {
	case a.Has("nogit"):
		return "", "", errors.New("the host has no git: install it with the job type package")
	case a.Has("dirty"):
		return "", "", fmt.Errorf("files have local changes: commit or discard them; git status shows more: %s", strings.Join(strings.Fields(a.Text("dirty")), " "))
	case a.Has("other"):
		return "", "", errors.New("it is there, and is no clone with a commit: empty it, or give another path")
	case commit().MatchString(p.Version):
		return p.Version, "", nil
	case a.Has("failed"):
		return "", "", fmt.Errorf("asking %s for %s: %s", p.URL, p.Version, a.Value("failed"))
	}
	refs := map[string]string{}
	for line := range strings.Lines(a.Text("ref")) {
		if f := strings.Fields(line); len(f) == 2 && commit().MatchString(f[0]) {
			refs[f[1]] = f[0]
		}
	}
	tag, branch := cmp.Or(refs["refs/tags/"+p.Version+"^{}"], refs["refs/tags/"+p.Version]), refs["refs/heads/"+p.Version]
	switch {
	case refs[p.Version] != "":
		return cmp.Or(refs[p.Version+"^{}"], refs[p.Version]), p.Version, nil
	case tag != "" && branch != "" && tag != branch:
		return "", "", fmt.Errorf("%s is a branch and a tag: write version: refs/heads/%s or refs/tags/%s", p.Version, p.Version, p.Version)
	case branch != "":
		return branch, "refs/heads/" + p.Version, nil
	case tag != "":
		return tag, "refs/tags/" + p.Version, nil
	}
	return "", "", fmt.Errorf("%s has no branch and no tag %s; a commit is written with all its digits", p.URL, p.Version)
}
