package ansible

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// modules are those with an exact equivalent. A converter sets the job type that does the same, and
// its params.
var modules = map[string]func(*draft) *doubt{
	"command": command, "shell": shell, "script": script, "copy": copyFile, "template": templateFile, "file": file, "fetch": fetch,
	"uri": uri, "reboot": reboot, "wait_for": waitFor, "wait_for_connection": waitForConnection, "ping": ping,
	"service": service, "systemd": service, "systemd_service": service, "apt": packages, "yum": packages, "dnf": packages, "package": packages, "apk": packages, "opkg": packages, "setup": facts, "gather_facts": facts,
	"user": account, "group": accountGroup, "authorized_key": authorizedKey, "lineinfile": lineInFile, "blockinfile": blockInFile,
	"cron": cronJob, "git": gitClone, "unarchive": archive, "mount": fileSystem, "sysctl": kernelSetting, "hostname": hostName, "assert": assertion, "fail": failure,
}

// instead maps modules that no job type does exactly to what to write in their place.
var instead = map[string]string{
	"apt_key":        "uses: file for the key in /etc/apt/keyrings",
	"apt_repository": "uses: file for a file in /etc/apt/sources.list.d",
	"yum_repository": "uses: file for a file in /etc/yum.repos.d",
	"replace":        "uses: file with the whole content, or uses: line for one line",
	"get_url":        "uses: command, with: {run: curl -fsSLo PATH URL, creates: PATH}",
	"set_fact":       "vars of the playbook, or an expression where the value is read",
	"stat":           "uses: command, with: {run: test -e PATH, changed: false, ok_codes: [0, 1]}, and steps.NAME.exit_code",
	"raw":            "uses: command",
	"pause":          "strategy: {pause_between: 10m}, or uses: wait",
	"include_vars":   "vars of the playbook, or of the inventory",
	"synchronize":    "uses: copy, with: {source: FOLDER, path: FOLDER}",
	"firewalld":      "uses: firewall.push",
	"iptables":       "uses: firewall.push",
}

func noType(module string, _ *yaml.Node) *doubt {
	short := module[strings.LastIndexByte(module, '.')+1:]
	if other := instead[short]; other != "" {
		return doubtf("%s has no exact equivalent", short).hint("%s", other)
	}
	return doubtf("Turnus has no job type that does what %s does", module).hint("uses: command, or a job type of a plugin (turnus plugins ls)")
}

func (t *draft) environment() *doubt {
	merged := map[string]any{}
	var order []string
	for _, n := range t.env {
		if n.Kind != yaml.MappingNode {
			return doubtf("the environment is not a mapping")
		}
		for _, e := range entries(n) {
			v, d := scalar(e.value)
			if d != nil {
				return d
			}
			text, ok := v.(string)
			if _, number := v.(int); number {
				text, ok = e.value.Value, true
			}
			if !ok {
				return doubtf("the environment variable %s is not a text", e.key)
			}
			if text, d = t.scope.text(text); d != nil {
				return d
			}
			if _, have := merged[e.key]; !have {
				order = append(order, e.key)
			}
			if e.key != "ENV" && codeVariable().MatchString(e.key+"=") && strings.Contains(text, "${{") {
				return doubtf("a shell reads %s as code", e.key).hint("uses: script, with the values as args")
			}
			merged[e.key] = text
		}
	}
	var env fields
	for _, key := range order {
		env.add(key, merged[key])
	}
	if env = append(env, t.values...); len(env) > 0 {
		t.step.with.add("env", env)
	}
	return nil
}

// noEnvironment refuses environment variables, which only commands have in Turnus.
func (t *draft) noEnvironment() *doubt {
	if len(t.env) > 0 {
		return doubtf("environment has no equivalent for %s", t.module)
	}
	return nil
}

// guards translates chdir, creates, removes and stdin.
func (t *draft) guards() *doubt {
	for _, key := range []string{"chdir", "creates", "removes"} {
		text, ok, d := t.text(key)
		switch {
		case d != nil:
			return d
		case !ok:
		case key != "chdir" && strings.ContainsAny(text, "*?["):
			return doubtf("%s with a pattern has no equivalent", key)
		case !t.scope.absolute(t.args.node(key).Value):
			return doubtf("%s with a relative path has no equivalent", key).hint("an absolute path")
		default:
			t.step.with.add(key, text)
		}
	}
	text, ok, d := t.text("stdin")
	if d != nil {
		return d
	}
	newline, d := t.flag(true, "stdin_add_newline")
	if ok && newline {
		text += "\n"
	}
	if ok {
		t.step.with.add("stdin", text)
	}
	return cmpDoubt(d, t.environment())
}

func command(t *draft) *doubt {
	t.step.uses = "command"
	line, d := t.commandText()
	if d != nil {
		return d
	}
	t.step.with.add("run", line)
	if d := t.refuse("strip_empty_ends", "expand_argument_vars"); d != nil {
		return d
	}
	return cmpDoubt(t.stdinDoubt(line), t.guards())
}

func (t *draft) commandText() (string, *doubt) {
	if t.args.free != nil {
		return t.commandLine(strings.TrimSpace(*t.args.free))
	}
	if argv := t.args.node("argv"); argv != nil {
		if argv.Kind != yaml.SequenceNode {
			return "", doubtf("argv is not a list of words")
		}
		var items []string
		for _, n := range argv.Content {
			v, d := scalar(n)
			if d != nil {
				return "", d
			}
			if _, ok := v.(bool); ok || v == nil {
				return "", doubtf("a word of argv is not a text")
			}
			items = append(items, n.Value)
		}
		return t.argv(items)
	}
	n := t.args.node("cmd")
	if n == nil || n.Kind != yaml.ScalarNode {
		return "", doubtf("the command is not given")
	}
	return t.commandLine(n.Value)
}

func shell(t *draft) *doubt {
	t.step.uses = "command"
	line, d := t.shellArgument("cmd")
	if t.args.free != nil {
		line, d = t.shellText(*t.args.free)
	}
	switch {
	case d != nil:
		return d
	case strings.TrimSpace(line) == "":
		return doubtf("the command is not given")
	}
	program, d := t.literal("/bin/sh", "executable")
	if d != nil {
		return d
	}
	if program != "/bin/sh" {
		if !safeWord().MatchString(program) || !strings.HasPrefix(program, "/") {
			return doubtf("the shell %s is not an absolute path", clip(program))
		}
		line = program + " -c '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
	}
	t.step.with.add("run", line)
	return cmpDoubt(t.stdinDoubt(line), t.guards())
}

// shellArgument takes an argument that a shell reads.
func (t *draft) shellArgument(names ...string) (string, *doubt) {
	n := t.args.node(names...)
	if n == nil {
		return "", nil
	}
	if v, d := scalar(n); d != nil {
		return "", d
	} else if _, ok := v.(string); !ok {
		return "", doubtf("the argument %s is not a text", names[0])
	}
	return t.shellText(n.Value)
}

func script(t *draft) *doubt {
	t.step.uses = "script"
	line := ""
	if t.args.free != nil {
		line = *t.args.free
	} else if n := t.args.node("cmd"); n != nil {
		line = n.Value
	}
	words, ok := splitWords(line)
	switch {
	case !ok || len(words) == 0:
		return doubtf("the script is not given")
	case hasJinja(line):
		return doubtf("a script with {{ }} in its line has no equivalent").hint("uses: script, with: {source: FILE, args: [${{ … }}]}")
	case shellReads(line):
		return doubtf("Ansible gives the line of a script to a shell, and args are passed as they are").hint("uses: script, and what the shell does as lines of the script")
	case strings.Count(line, words[0]) > 1:
		return doubtf("Ansible writes its path of the script at each %s in the line", clip(words[0])).hint("uses: script, with: {source: FILE, args: […]}")
	}
	source, d := t.source(words[0], "files")
	if d != nil {
		return d
	}
	t.step.with.add("source", source)
	if len(words) > 1 {
		t.step.with.add("args", words[1:])
	}
	program, d := t.literal("", "executable")
	if d != nil {
		return d
	}
	if program != "" {
		t.step.with.add("interpreter", program)
	}
	return t.guards()
}

func reboot(t *draft) *doubt {
	t.step.uses = "reboot"
	timeout, d := t.seconds(600, "reboot_timeout")
	if d != nil {
		return d
	}
	if timeout != "10m" {
		t.step.with.add("timeout", timeout)
	}
	delay, d := t.seconds(0, "pre_reboot_delay")
	if d != nil {
		return d
	}
	if delay != "" {
		t.step.with.add("delay", delay)
	}
	if after, d := t.seconds(0, "post_reboot_delay"); d != nil || after != "" {
		return cmpDoubt(d, doubtf("the argument post_reboot_delay has no equivalent").hint("test_command: a command that exits with 0 once the host is ready"))
	}
	for _, name := range []string{"test_command", "reboot_command"} {
		if n := t.args.node(name); n != nil && hasJinja(n.Value) {
			return doubtf("%s with {{ }} has no equivalent: the job type reboot has no variables for a shell", name).hint("%s: a command without {{ }}", name)
		}
	}
	return cmpDoubt(t.pass("msg", "message", "test_command", "test_command", "reboot_command", "command"), t.noEnvironment())
}

func waitFor(t *draft) *doubt {
	t.step.uses = "wait"
	state, d := t.literal("started", "state")
	if d != nil {
		return d
	}
	port, hasPort, d := t.text("port")
	if d != nil {
		return d
	}
	path, hasPath, d := t.text("path")
	if d != nil {
		return d
	}
	host, hasHost, d := t.text("host")
	if d != nil {
		return d
	}
	switch {
	case hasPort && hasPath || !hasPort && !hasPath:
		return doubtf("wait_for without a port or a path has no equivalent").hint("uses: wait, with a port, a file or a command")
	case hasPath:
		t.step.with.add("file", path)
	default:
		if !hasHost {
			host = "127.0.0.1"
		}
		t.step.with.add("address", host+":"+port)
	}
	switch state {
	case "started", "present":
	case "stopped", "absent":
		t.step.with.add("state", "absent")
	default:
		return doubtf("state: %s has no equivalent", clip(state))
	}
	return t.waits(300)
}

// waits translates the times of both modules that wait.
func (t *draft) waits(timeout int) *doubt {
	for _, one := range []struct {
		name string
		secs int
	}{{"delay", 0}, {"timeout", timeout}} {
		text, d := t.seconds(one.secs, one.name)
		if d != nil {
			return d
		}
		if text != "" && (one.name != "timeout" || text != "5m") {
			t.step.with.add(one.name, text)
		}
	}
	sleep, d := t.seconds(1, "sleep")
	if d == nil && sleep != "1s" && sleep != "" {
		t.step.with.add("interval", sleep)
	}
	return d
}

func waitForConnection(t *draft) *doubt {
	t.step.uses = "wait"
	t.step.with.add("command", "true")
	return t.waits(600)
}

// facts are read by Ansible only: a task that reads a fact is not converted.
func facts(t *draft) *doubt {
	if child(t.node, "register") != nil {
		return doubtf("the whole of the facts has no equivalent").hint("host.facts in expressions (docs/facts.md), or uses: facts")
	}
	for _, e := range t.args.list {
		t.args.took[e.key] = true
	}
	return nil
}

func ping(t *draft) *doubt {
	t.step.uses = "command"
	t.step.with.add("run", "true")
	t.step.with.add("changed", false)
	return nil
}

// service translates both modules for services. Turnus reads changed unit files again
// automatically.
func service(t *draft) *doubt {
	t.step.uses = "service"
	state, d := t.literal("", "state")
	if d != nil {
		return d
	}
	reload, d := t.flag(false, "daemon_reload", "daemon-reload")
	if d != nil {
		return d
	}
	scope, d := t.literal("system", "scope")
	if d != nil {
		return d
	}
	if scope != "system" {
		return doubtf("scope: %s has no equivalent", clip(scope)).hint("uses: command, with: {run: systemctl --user …}")
	}
	enabled := t.args.node("enabled")
	if state == "" && enabled == nil && reload {
		t.args.node("name", "service", "unit")
		t.step.uses = "command"
		t.step.with.add("run", "systemctl daemon-reload")
		t.step.with.add("changed", false)
		return t.environment()
	}
	name, d := t.need("name", "service", "unit")
	if d != nil {
		return d
	}
	t.step.with.add("name", name)
	switch state {
	case "":
	case "started", "stopped", "restarted", "reloaded":
		t.step.with.add("state", state)
	default:
		return doubtf("state: %s has no equivalent", clip(state))
	}
	if enabled != nil {
		on, d := truth(enabled)
		if d != nil {
			return d
		}
		t.step.with.add("enabled", on)
	}
	return t.noEnvironment()
}
