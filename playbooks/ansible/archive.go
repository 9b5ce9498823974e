package ansible

import (
	"path"
	"slices"
	"strings"
)

// sharedFolders are folders that hold more than one archive, as every folder below / does.
var sharedFolders = []string{
	"/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/share", "/usr/share", "/var/lib", "/var/tmp", "/var/www", "/var/www/html",
}

// archive translates unarchive into a folder that may belong to the archive alone.
func archive(t *draft) *doubt {
	t.step.uses = "unarchive"
	dest, d := t.target("", "dest")
	if d != nil {
		return d
	}
	if dest = strings.TrimSuffix(dest, "/"); path.Clean(dest) != dest {
		return doubtf("%s is not a path below / without . and ..", clip(dest))
	}
	if path.Dir(dest) == "/" || slices.Contains(sharedFolders, dest) {
		return doubtf("Ansible adds the files of the archive to %s, and the job type unarchive replaces the whole folder", clip(dest)).
			hint("uses: unarchive, with a folder for this archive alone (docs/job-types/unarchive.md)")
	}
	if d := t.ownFolder(dest); d != nil {
		return d
	}
	t.step.with.add("path", dest)
	if d := t.archiveFile(); d != nil {
		return d
	}
	for _, name := range []string{"creates", "mode"} {
		if t.args.node(name) != nil {
			return doubtf("%s has no equivalent: the job type unarchive compares the digest of the archive, and keeps its modes", name)
		}
	}
	if d := cmpDoubt(t.attributes(), t.off("keep_newer", "list_files")); d != nil {
		return d
	}
	if t.args.node("group") == nil {
		t.note("files have the group of the login, and without owner its user; as root, Ansible takes those of the archive")
	}
	return t.noEnvironment()
}

// ownFolder notes that a folder belongs to one archive. A second one in the same play would replace
// the first.
func (t *draft) ownFolder(dest string) *doubt {
	alone := t.scope.play.alone
	if t.step.foreach != nil || alone[dest] != "" {
		return doubtf("several archives in %s have no equivalent: the job type unarchive replaces the whole folder", clip(dest)).hint("a folder for each of them")
	}
	alone[dest] = "an archive"
	t.note("the whole folder %s belongs to the archive: the step fails if it holds other files, and another archive replaces all in it", clip(dest))
	return nil
}

// archiveFile translates src: a file beside the playbook, or one that is on the host.
func (t *draft) archiveFile() *doubt {
	remote, d := t.flag(false, "remote_src")
	if d != nil {
		return d
	}
	src, d := t.need("src")
	if d != nil {
		return d
	}
	switch {
	case strings.Contains(src, "://"):
		return doubtf("Ansible fetches %s, and the job type unarchive takes a file", clip(src)).
			hint("a step before it that fetches the file (curl -fsSLo FILE URL), and uses: unarchive, with: {archive: FILE, path: …}")
	case !slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".zip"}, func(end string) bool { return strings.HasSuffix(src, end) }):
		return doubtf("%s does not end in .tar, .tar.gz, .tgz or .zip, which the job type unarchive reads", clip(src))
	case !remote:
		if src, d = t.literal("", "src"); d != nil {
			return d
		}
		source, d := t.source(src, "files")
		if d != nil {
			return d
		}
		t.step.with.add("source", source)
		return nil
	case !t.scope.absolute(t.args.node("src").Value):
		return doubtf("%s is not an absolute path", clip(src)).hint("archive: an absolute path")
	}
	t.step.with.add("archive", src)
	return nil
}
