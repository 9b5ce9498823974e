// Package unarchive owns the job type unarchive: a folder that holds what is in an archive. It
// imports only the sdk.
package unarchive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of an unarchive.
type Params struct {
	Source  string `json:"source,omitempty" turnus:"min=1,file" jsonschema:"archive, relative to the playbook: .tar, .tar.gz, .tgz or .zip"`
	Archive string `json:"archive,omitempty" turnus:"pattern=^/" jsonschema:"instead: path of an archive on the host"`
	Path    string `json:"path" turnus:"required,pattern=^/" jsonschema:"folder for what is in the archive, and for nothing else"`
	Strip   bool   `json:"strip,omitempty" jsonschema:"the archive holds one folder: take what is in that"`
	Owner   string `json:"owner,omitempty" turnus:"pattern=^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?$" jsonschema:"user or user:group of all files; by default the login that unpacks them"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	bad.Path("/path", p.Path)
	switch {
	case (p.Source == "") == (p.Archive == ""):
		bad.Add("", "expected one of source and archive")
	case format(p.Source+p.Archive) == "":
		bad.Add(map[bool]string{true: "/source", false: "/archive"}[p.Source != ""], "expected a name that ends in .tar, .tar.gz, .tgz or .zip")
	}
	return bad.Err()
}

// format is tar, tgz or zip; "" for others.
func format(name string) string {
	for _, f := range [][2]string{{".tar", "tar"}, {".tar.gz", "tgz"}, {".tgz", "tgz"}, {".zip", "zip"}} {
		if strings.HasSuffix(name, f[0]) {
			return f[1]
		}
	}
	return ""
}

// Outputs of an unarchive.
type Outputs struct {
	SHA256 string `json:"sha256" jsonschema:"of the archive"`
}

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("unarchive", run,
		sdk.Summary("A folder that holds what is in an archive"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("An archive of the repository", sdk.With{"source": "files/app-1.4.tar.gz", "path": "/opt/app", "strip": true}),
		sdk.Example("An archive that is on the host", sdk.With{"archive": "/var/cache/site.zip", "path": "/srv/site", "owner": "www-data"}),
	)
}

const description = `
Unpacks an archive into a folder of its own. The folder holds the digest of its archive in the file
` + "`.turnus-unarchive`" + `: as long as that is the same, nothing is unpacked, whatever happened to modes
and owners. With another archive the whole folder is replaced, and what else was in it is gone. A
folder that is not empty and has no such file fails the step.

It unpacks beside the folder, and then renames: until then the old folder stays in use. Where the
disk is full the old folder stays.

Archives with absolute names, with ` + "`..`" + ` in names, with links that lead out of the folder, with
devices, named pipes or line breaks in names are refused, and nothing of them is left. zip needs
unzip on the host. Check mode compares digests and does not open the archive.

As root it unpacks below folders of root alone. In a folder of a user, run the step as that user:
` + "`become: {user: NAME}`" + `.
`

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	digest, err := sourceDigest(ctx, r)
	if err != nil {
		return err
	}
	vars := sdk.Vars("p", p.Path, "a", p.Archive, "t", format(p.Source+p.Archive), "owner", p.Owner)
	result := r.Host().Query(ctx, vars+askScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("inspect %s: %w", p.Path, err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	if p.Archive != "" {
		digest, _, _ = strings.Cut(a.Value("sum"), " ")
	}
	if a.Has("planted") {
		return sdk.Refuse("%s/.turnus-unarchive is a link, which no archive brought: remove it first", p.Path)
	}
	if why := refusal(p, a); why != "" {
		return r.Lacks("%s", why)
	}
	r.Output("sha256", digest)
	mark := fmt.Sprintf("sha256:%s strip=%t owner=%s", digest, p.Strip, p.Owner)
	done := a.Value("mark") == mark
	if a.Has("open") && (!done || a.Has("leftover")) {
		return sdk.Refuse("others may write to %s, and could exchange what is unpacked there as root: run the step as the user of that folder, with become: {user: NAME}",
			a.Value("open"))
	}
	if !done && a.Has("stranger") {
		return r.Lacks("the host does not know the owner %s: make the user and group first, or correct their names", p.Owner)
	}
	if !done {
		r.Changed()
		r.ShowDiff(p.Path, []byte(a.Text("mark")), []byte(mark+"\n"))
	}
	if r.Check || done && !a.Has("leftover") {
		return nil
	}
	return unpack(ctx, r, done, vars+sdk.Vars("done", done, "strip", p.Strip, "want", digest, "mark", mark)+doScript)
}

// refusal returns why the host cannot have the folder; "" where it can.
func refusal(p Params, a sdk.Answer) string {
	switch {
	case a.Has("noarchive"):
		return fmt.Sprintf("the host has no archive %s: fetch it in an earlier step, or correct the path", p.Archive)
	case a.Has("nounzip"):
		return "the host has no unzip: install it with the job type package, or use a tar archive"
	case a.Value("kind") == "other":
		return p.Path + " is there, and is no folder: remove it first"
	case a.Value("kind") == "full" && !a.Has("mark"):
		return p.Path + " holds files that no archive brought: give a folder of its own, or empty it first"
	}
	return ""
}

// sourceDigest is the hash of the archive of the worker; "" for one of the host.
func sourceDigest(ctx context.Context, r *runOf) (string, error) {
	if r.Params.Source == "" {
		return "", nil
	}
	sum := sha256.New()
	if _, err := r.Artifact(ctx, r.Params.Source, 0, sum); err != nil {
		return "", sdk.Refuse("source %s: %w", r.Params.Source, err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// unpack runs the script with the archive as its input, which only leftovers to remove do not need.
func unpack(ctx context.Context, r *runOf, done bool, line string) error {
	p := r.Params
	in, out := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		var err error
		if p.Source != "" && !done {
			_, err = r.Artifact(ctx, p.Source, 0, out)
		}
		_ = out.CloseWithError(err)
	})
	exit, err := r.Host().Exec(ctx, sdk.Command{Run: line, Stdin: in})
	_ = in.Close()
	reading.Wait()
	if err == nil && exit.Code == refused {
		return sdk.Refuse("%s%s: the archive is refused: %s", p.Source, p.Archive, exit.LastLine)
	}
	if err == nil {
		err = exit.Err()
	}
	if err != nil {
		return fmt.Errorf("unpacking %s%s to %s: %w", p.Source, p.Archive, p.Path, err)
	}
	return nil
}
