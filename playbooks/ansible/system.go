package ansible

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// keeps notes that a file holds one setting; a second one in the same play has no equivalent.
func (t *draft) keeps(file, setting string) *doubt {
	if t.step.foreach != nil {
		return doubtf("a loop may write several settings to %s, and the job type %s keeps one in a file", file, t.step.uses)
	}
	alone := t.scope.play.alone
	if was, ok := alone[file]; ok && was != setting {
		return doubtf("%s also holds %s, and the job type %s keeps one setting in a file", file, clip(was), t.step.uses).hint("a file for each of them")
	}
	alone[file] = setting
	t.note("the whole file %s belongs to the step: what else it holds is removed", file)
	return nil
}

var shortCommit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-fA-F]{7,39}$`) })

// gitClone translates git for a repository without submodules.
func gitClone(t *draft) *doubt {
	t.step.uses = "git"
	url, d := t.need("repo", "name")
	if d != nil {
		return d
	}
	dest, d := t.target("", "dest")
	if d != nil {
		return d
	}
	if path.Clean(dest) != dest || dest == "/" {
		return doubtf("%s is not a path below / without . and ..", clip(dest))
	}
	t.step.with.add("url", url)
	t.step.with.add("path", dest)
	if version, ok, d := t.text("version"); d != nil || shortCommit().MatchString(version) {
		return cmpDoubt(d, doubtf("version: %s may be a short commit", clip(version)).hint("version: all 40 digits of the commit, or refs/heads/NAME"))
	} else if ok && version != "HEAD" {
		t.step.with.add("version", version)
	}
	if d := t.whole("depth", "depth"); d != nil {
		return d
	}
	submodules, d := t.flag(true, "recursive")
	if d != nil {
		return d
	}
	if submodules {
		return doubtf("recursive is true by default: Ansible fetches submodules, and the job type git does not").hint("recursive: false in the task, for a repository without submodules")
	}
	for _, name := range []string{"clone", "update"} {
		if on, d := t.flag(true, name); d != nil || !on {
			return cmpDoubt(d, doubtf("%s: false has no equivalent", name))
		}
	}
	if t.args.node("accept_hostkey", "accept_newhostkey", "key_file", "ssh_opts") != nil {
		return doubtf("settings of SSH have no equivalent").hint("~/.ssh/config and known_hosts of the user on the host")
	}
	t.note("HEAD is detached at the commit of the version; Ansible checks out a branch as a branch")
	if remote, d := t.literal("origin", "remote"); d != nil || remote != "origin" {
		return cmpDoubt(d, doubtf("remote: %s has no equivalent", clip(remote)))
	}
	return cmpDoubt(t.off("bare", "force", "single_branch", "track_submodules", "verify_commit"), t.noEnvironment())
}

var cronFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`) })

// cronJob translates cron where the job has a file of /etc/cron.d.
func cronJob(t *draft) *doubt {
	t.step.uses = "cron"
	file, d := t.literal("", "cron_file")
	if d != nil {
		return d
	}
	name, d := t.need("name")
	if d != nil {
		return d
	}
	if file == "" {
		return doubtf("Ansible writes the job to the crontab of a user, and the job type cron to /etc/cron.d: hosts that have it would run it twice").
			hint("cron_file and user in the task; or uses: cron, after the job is removed from the crontab")
	}
	file = strings.TrimPrefix(file, "/etc/cron.d/")
	if !cronFile().MatchString(file) {
		return doubtf("cron_file: %s is not a name without dots, and cron may skip it", clip(file)).hint("cron_file: letters, digits, - and _")
	}
	if d := cmpDoubt(t.off("env", "disabled", "backup"), t.keeps("/etc/cron.d/"+file, name)); d != nil {
		return d
	}
	t.step.with.add("name", file)
	absent, d := t.presence()
	if d != nil {
		return d
	}
	fields := [][]string{{"minute"}, {"hour"}, {"day", "dom"}, {"month"}, {"weekday", "dow"}}
	if absent {
		t.without("job", "value", "user", "special_time", "minute", "hour", "day", "dom", "month", "weekday", "dow")
		return t.noEnvironment()
	}
	special, d := t.literal("", "special_time")
	if d != nil {
		return d
	}
	if special == "annually" {
		special = "yearly"
	}
	times := make([]string, len(fields))
	for i, names := range fields {
		text, ok, d := t.text(names...)
		switch {
		case d != nil:
			return d
		case !ok:
			text = "*"
		case special != "":
			return doubtf("special_time with %s has no equivalent", names[0])
		}
		times[i] = text
	}
	if special != "" {
		t.step.with.add("special", "@"+special)
	} else {
		t.step.with.add("schedule", strings.Join(times, " "))
	}
	if t.args.node("user") == nil {
		return doubtf("cron_file without user fails in Ansible").hint("user: root in the task")
	}
	if d := t.fits(accountName(), "user", "user"); d != nil {
		return d
	}
	return t.jobLine()
}

// jobLine translates the command that a job of cron runs.
func (t *draft) jobLine() *doubt {
	job, d := t.shellArgument("job", "value")
	switch job = strings.Trim(job, "\r\n"); {
	case d != nil:
		return d
	case job == "":
		return doubtf("the argument job is not given")
	case strings.ContainsAny(job, "\r\n"):
		return doubtf("a job with a line break has no equivalent")
	}
	t.step.with.add("command", job)
	if len(t.values) > 0 {
		t.step.with.add("env", t.values)
	}
	return t.noEnvironment()
}

// hostName translates hostname.
func hostName(t *draft) *doubt {
	t.step.uses = "hostname"
	name, d := t.need("name")
	if d != nil {
		return d
	}
	t.step.with.add("name", name)
	if use := t.args.node("use"); use != nil {
		return doubtf("use has no equivalent").hint("uses: hostname, which knows systemd, /etc/hostname and OpenWrt")
	}
	return t.noEnvironment()
}

// kernelSetting translates sysctl where the setting has a file of its own.
func kernelSetting(t *draft) *doubt {
	t.step.uses = "sysctl"
	key, d := t.need("name", "key")
	if d != nil {
		return d
	}
	file, d := t.literal("/etc/sysctl.conf", "sysctl_file")
	if d != nil {
		return d
	}
	name, ok := strings.CutPrefix(file, "/etc/sysctl.d/")
	if !ok || !strings.HasSuffix(name, ".conf") || strings.Contains(name, "/") {
		return doubtf("Ansible writes %s, and the job type sysctl a file of its own in /etc/sysctl.d: the old line would stay", clip(file)).
			hint("uses: sysctl, with: {key: %s, value: …}, and uses: line, with state: absent, for the old line", clip(key))
	}
	if d := t.keeps(file, key); d != nil {
		return d
	}
	t.step.with.add("key", key)
	t.step.with.add("file", name)
	absent, d := t.presence()
	if d != nil {
		return d
	}
	if absent {
		t.without("value", "val", "reload", "sysctl_set")
		return cmpDoubt(t.off("ignoreerrors"), t.noEnvironment())
	}
	value, d := t.need("value", "val")
	if d != nil {
		return d
	}
	t.step.with.add("value", value)
	set, d := t.flag(false, "sysctl_set")
	if d != nil {
		return d
	}
	if reload, d := t.flag(true, "reload"); d != nil || !reload && !set {
		return cmpDoubt(d, doubtf("reload: false has no equivalent: the job type sysctl also sets the value now"))
	}
	return cmpDoubt(t.off("ignoreerrors"), t.noEnvironment())
}

// fileSystem translates mount.
func fileSystem(t *draft) *doubt {
	t.step.uses = "mount"
	state, d := t.literal("", "state")
	if d != nil {
		return d
	}
	switch state {
	case "mounted", "present", "unmounted":
	case "absent":
		return doubtf("state: absent also removes the folder in Ansible").hint("uses: mount, with state: absent, and uses: file, with state: absent, for the folder")
	default:
		return doubtf("state: %s has no equivalent", cmpText(clip(state), "(none)"))
	}
	kind, d := t.literal("", "fstype")
	if d != nil {
		return d
	}
	if kind == "swap" {
		return doubtf("swap has no path in the job type mount").hint("uses: mount, with: {type: swap, source: DEVICE}")
	}
	target, d := t.target("", "path", "name")
	if d != nil {
		return d
	}
	if path.Clean(target) != target {
		return doubtf("%s is not a path without . and ..", clip(target))
	}
	t.step.with.add("path", target)
	t.step.with.add("state", state)
	if t.args.node("fstab", "boot") != nil {
		return doubtf("fstab and boot have no equivalent").hint("options: noauto, where it is not mounted at a restart")
	}
	if state == "unmounted" {
		t.without("src", "opts", "dump", "passno", "fstype")
		return cmpDoubt(t.off("backup"), t.noEnvironment())
	}
	if t.args.node("src") == nil || kind == "" {
		return doubtf("the arguments src and fstype are not given")
	}
	t.step.with.add("type", kind)
	if d := t.pass("src", "source", "opts", "options"); d != nil {
		return d
	}
	for _, one := range [][2]string{{"dump", "dump"}, {"passno", "pass"}} {
		if d := t.whole(one[1], one[0]); d != nil {
			return d
		}
	}
	return cmpDoubt(t.off("backup"), t.noEnvironment())
}

// assertion translates assert.
func assertion(t *draft) *doubt {
	t.step.uses = "assert"
	n := t.args.node("that")
	if n == nil {
		return doubtf("the argument that is not given")
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var that []any
	for _, item := range items {
		cond, d := t.holding(item)
		if d != nil {
			return d
		}
		that = append(that, cond)
	}
	if len(that) == 0 {
		return doubtf("the argument that is an empty list").hint("nothing: leave the task out")
	}
	t.step.with.add("that", that)
	t.without("success_msg", "quiet")
	if n := t.args.node("fail_msg", "msg"); n != nil && n.Kind != yaml.ScalarNode {
		return doubtf("a list as fail_msg has no equivalent").hint("message: one text")
	}
	message, ok, d := t.text("fail_msg", "msg")
	if ok {
		t.step.with.add("message", message)
	}
	return cmpDoubt(d, t.noEnvironment())
}

// holding is one condition of assert.
func (t *draft) holding(n *yaml.Node) (any, *doubt) {
	v, d := scalar(n)
	if d != nil {
		return nil, d
	}
	if on, ok := v.(bool); ok {
		return on, nil
	}
	text, ok := v.(string)
	if !ok || strings.Contains(text, "{{") {
		return nil, doubtf("a condition is not a plain expression").hint("that: the expression without {{ }}")
	}
	expr, d := parse(text)
	if d != nil {
		return nil, d
	}
	cond, d := t.scope.bool(expr)
	if d != nil {
		return nil, d
	}
	if cond.text == "true" || cond.text == "false" {
		return cond.text == "true", nil
	}
	return "${{ " + cond.text + " }}", nil
}

// failure translates fail.
func failure(t *draft) *doubt {
	t.step.uses = "assert"
	t.step.with.add("that", []any{false})
	message, ok, d := t.text("msg")
	if !ok || message == "" {
		message = "Failed as requested from task"
	}
	t.step.with.add("message", message)
	if n := t.args.node("msg"); n != nil && yamlread.IsNull(n) {
		return doubtf("msg is null")
	}
	return cmpDoubt(d, t.noEnvironment())
}
