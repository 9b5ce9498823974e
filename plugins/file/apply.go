package file

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

const (
	newFileMode   = 0o644
	newSecretMode = 0o600
	newDirMode    = 0o755

	// givenMode has five digits, because chmod of GNU keeps setuid and setgid of a directory if
	// there are fewer.
	givenMode = "%05o"
)

// regular makes the path a file with content, mode and owner.
func regular(ctx context.Context, r *runOf, now entry) error {
	p := r.Params
	w, hasContent, err := want(ctx, r)
	if err != nil {
		return err
	}
	if now.kind == "directory" || now.kind == "other" {
		return sdk.Refuse("%s is a %s, not a file: remove it first", p.Path, now.kind)
	}
	if !hasContent {
		if now.kind != "file" {
			return sdk.Refuse("%s is no file, and no content for it is given", p.Path)
		}
		return attributes(ctx, r, now)
	}
	if len(r.Secrets) == 0 { // what may be guessed can be tried against a hash
		r.Output("sha256", w.sha256)
	}
	r.Output("size", w.size)
	if now.kind == "file" && now.sha256 == w.sha256 {
		return attributes(ctx, r, now)
	}
	r.Changed()
	if err := show(ctx, r, now, w); err != nil {
		return err
	}
	after := planned(p, now, fileMode(r))
	r.ShowDiff(p.Path+" (attributes)", []byte(now.attributes()), []byte(after.attributes()))
	if p.Backup != "" && now.kind == "file" {
		r.Output("backup", p.Path+p.Backup)
	}
	if r.Check {
		return nil
	}
	file := sdk.PutFile{Path: p.Path, Mode: after.mode, Owner: inherited(p, now), Backup: p.Backup, Validate: p.Checker}
	if now.kind != "file" {
		file.Backup = ""
	}
	return put(ctx, r.Host(), file, w)
}

// fileMode is the mode of a file that was not there: with a secret in it, it is for its owner only.
func fileMode(r *runOf) uint32 {
	if len(r.Secrets) > 0 {
		return newSecretMode
	}
	return newFileMode
}

// inherited is the owner to set on a new file: writing beside and renaming would
// otherwise hand the file to the connecting user.
func inherited(p Params, now entry) string {
	owner := p.Owner
	if now.kind != "file" || strings.Contains(owner, ":") {
		return owner
	}
	oldUser, oldGroup, _ := strings.Cut(now.numbers, ":")
	selfUser, selfGroup, _ := strings.Cut(now.self, ":")
	switch {
	case owner != "" && oldGroup != selfGroup:
		return owner + ":" + oldGroup
	case owner == "" && (oldUser != selfUser || oldGroup != selfGroup):
		return now.numbers
	}
	return owner
}

// planned is the entry as it will be.
func planned(p Params, now entry, fresh uint32) entry {
	after := now
	if now.kind == "absent" || now.kind == "link" {
		after = entry{kind: p.State, mode: fresh, owner: now.self}
	}
	if mode, ok := p.mode(); ok {
		after.mode = mode
	}
	if !now.owned(p.Owner) || now.kind == "absent" {
		user, group, hasGroup := strings.Cut(p.Owner, ":")
		_, oldGroup, _ := strings.Cut(after.owner, ":")
		if !hasGroup {
			group = oldGroup
		}
		if user != "" {
			after.owner = user + ":" + group
		}
	}
	return after
}

// attributes sets mode and owner where they differ.
func attributes(ctx context.Context, r *runOf, now entry) error {
	p := r.Params
	owner, mode := "", ""
	if !now.owned(p.Owner) {
		owner = p.Owner
	}
	if bits, ok := p.mode(); ok && (bits != now.mode || owner != "") { // a change of owner may clear setuid
		mode = fmt.Sprintf(givenMode, bits)
	} else if !ok && owner != "" && now.kind == "file" && now.mode&0o7000 != 0 {
		mode = fmt.Sprintf(givenMode, now.mode)
	}
	if owner == "" && mode == "" {
		return nil
	}
	r.ShowDiff(p.Path+" (attributes)", []byte(now.attributes()), []byte(planned(p, now, now.mode).attributes()))
	return change(ctx, r, scripted(attributesScript, "p", p.Path, "k", now.kind, "o", owner, "m", mode))
}

// change runs a command that changes the host; in check mode it only reports that there is one.
func change(ctx context.Context, r *runOf, line string) error {
	r.Changed()
	if r.Check {
		return nil
	}
	if err := r.Host().Short(ctx, sdk.Command{Run: line}).Err(); err != nil {
		return fmt.Errorf("%s: %w", r.Params.Path, err)
	}
	return nil
}

func directory(ctx context.Context, r *runOf, now entry) error {
	p := r.Params
	switch now.kind {
	case "directory":
		return attributes(ctx, r, now)
	case "absent":
	default:
		return sdk.Refuse("%s is a %s, not a directory: remove it first", p.Path, now.kind)
	}
	after, format := planned(p, now, newDirMode), givenMode
	if p.Mode == "" {
		format = "%04o" // keeps setgid of the folder around it
	}
	r.ShowDiff(p.Path, nil, []byte("directory\n"+after.attributes()))
	return change(ctx, r, scripted(directoryScript, "p", p.Path, "o", p.Owner, "m", fmt.Sprintf(format, after.mode)))
}

func link(ctx context.Context, r *runOf, now entry) error {
	p := r.Params
	switch {
	case now.kind == "link" && now.target == p.Target:
		if now.owned(p.Owner) {
			return nil
		}
	case now.kind != "link" && now.kind != "absent":
		return sdk.Refuse("%s is a %s, not a link: remove it first", p.Path, now.kind)
	}
	before := ""
	if now.kind == "link" {
		before = "link to " + now.target + "\n"
	}
	r.ShowDiff(p.Path, []byte(before), []byte("link to "+p.Target+"\n"))
	return change(ctx, r, scripted(linkScript, "p", p.Path, "l", p.Target, "o", p.Owner))
}

func absent(ctx context.Context, r *runOf, now entry) error {
	p := r.Params
	remove := "rm -f"
	switch {
	case now.kind == "absent":
		return nil
	case now.kind == "directory" && p.Recurse:
		remove = "rm -rf"
	case now.kind == "directory":
		remove = "rmdir"
	}
	r.ShowDiff(p.Path, []byte(now.kind+"\n"), nil)
	line := scripted(absentScript, "p", p.Path, "r", remove)
	if p.Backup != "" && now.kind == "file" {
		line = scripted(keepScript, "p", p.Path, "b", path.Base(p.Path)+p.Backup)
		r.Output("backup", p.Path+p.Backup)
	}
	return change(ctx, r, line)
}
