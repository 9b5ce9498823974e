package playbooks

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// ofAnsible reports whether a file is a playbook of Ansible: a list of plays.
func ofAnsible(root *yaml.Node) bool {
	if root.Kind != yaml.SequenceNode {
		return false
	}
	plays := []string{"hosts", "tasks", "roles", "import_playbook", "ansible.builtin.import_playbook"}
	return slices.ContainsFunc(root.Content, func(n *yaml.Node) bool {
		play := yamlread.Target(n)
		for i := 0; play.Kind == yaml.MappingNode && i < len(play.Content); i += 2 {
			if slices.Contains(plays, play.Content[i].Value) {
				return true
			}
		}
		return false
	})
}

// insteadOf returns what to write in place of a module of Ansible: a job type of that name or
// purpose where there is one. It returns "" for a name that is no module that it knows.
func insteadOf(uses string, known []string) string {
	module := uses
	if parts := strings.Split(uses, "."); len(parts) >= 3 { // NAMESPACE.COLLECTION.MODULE
		module = parts[len(parts)-1]
	}
	if module == "copy" && slices.Contains(known, "file") && slices.Contains(known, "copy") {
		return "write uses: file for one file, or uses: copy for a folder; turnus plugins docs file lists the params of file"
	}
	for _, name := range []string{module, jobTypeFor()[module]} {
		if name != uses && slices.Contains(known, name) {
			return "write uses: " + name + "; turnus plugins docs " + name + " lists its params"
		}
	}
	instead := ansibleModules()[module]
	if instead == "" {
		return ""
	}
	return "the Ansible module " + module + " is not a job type here: " + instead
}

// jobTypeFor returns the job types that do the same as modules of another name, where a node has
// them.
func jobTypeFor() map[string]string {
	return map[string]string{
		"apt": "package", "yum": "package", "dnf": "package", "zypper": "package", "apk": "package", "systemd": "service", "systemd_service": "service",
		"copy": "file", "shell": "command", "raw": "command", "uri": "http", "wait_for": "wait", "wait_for_connection": "wait", "slurp": "fetch",
		"nftables": "firewall.push", "lineinfile": "line", "blockinfile": "block", "fail": "assert", "setup": "facts",
	}
}

// ansibleModules returns modules of Ansible that have no job type of that name, with what to use.
func ansibleModules() map[string]string {
	install := func(program string) string {
		return "write uses: command, become: true, with: {run: " + program + " install -y NAME, creates: /PATH/OF/A/FILE}"
	}
	service := "write uses: command, become: true, with: {run: systemctl restart NAME}, as a handler where it follows a change"
	line := "write uses: command, with: {run: COMMAND}, and creates: or removes: where a file shows that it is done"
	file := "write uses: file; turnus plugins docs file lists its params"
	template := "write uses: file with template: FILE, a Go template, or with content: that holds ${{ vars.NAME }}; turnus plugins docs file lists its params"
	facts := "expressions read the inventory, as ${{ host.vars.NAME }}, and the outputs of steps; turnus plugins docs command lists these"
	out := map[string]string{
		"template": template,
		"get_url":  "write uses: command, with: {run: curl -fsSLo FILE URL, creates: FILE}", "ping": "turnus exec all -i INVENTORY -- true checks that hosts can be reached",
		"setup": facts, "set_fact": facts, "stat": facts, "debug": "outputs of steps are shown and kept: turnus logs RUN prints them",
		"assert": "write uses: command, with: {run: test ..., changed: false}; its exit code decides", "fail": "write uses: command, with: {run: exit 1}, and when:",
		"pause": "write strategy: {pause_between: approve} or {pause_between: 10m}", "iptables": "write uses: firewall.push; turnus plugins docs firewall.push lists its params",
	}
	for module, program := range map[string]string{"apt": "apt-get", "yum": "yum", "dnf": "dnf", "package": "apt-get", "pip": "pip", "zypper": "zypper", "snap": "snap"} {
		out[module] = install(program)
	}
	for _, name := range []string{"service", "systemd", "systemd_service", "supervisorctl"} {
		out[name] = service
	}
	for _, name := range []string{"user", "group", "cron", "git", "unarchive", "mount", "sysctl", "hostname", "modprobe", "docker_container", "expect"} {
		out[name] = line
	}
	for _, name := range []string{"lineinfile", "blockinfile", "replace", "ini_file", "tempfile"} {
		out[name] = file
	}
	return out
}

// stepHints are the hints for the keys of a step: also where a key is a param, or a module.
func (d *decoder) stepHints(n *yaml.Node) map[string]string {
	words := stepWords()
	uses := d.child(n, "uses").Value
	for i, key := range yamlread.Target(n).Content {
		name := key.Value
		switch {
		case i%2 != 0 || slices.ContainsFunc(stepFields(), func(f field[draft]) bool { return f.key == name }):
		case d.isParam(uses, name):
			words[name] = fmt.Sprintf("params of %s stand under \"with\": with: {%s: …}", uses, name)
		case words[name] != "":
		case slices.Contains(d.o.TypeNames, name):
			words[name] = fmt.Sprintf("a job type stands behind \"uses\": uses: %s, with: {…}; turnus plugins docs %s lists its params", name, name)
		default:
			if instead := insteadOf(name, d.o.TypeNames); instead != "" {
				words[name] = "a job type stands behind \"uses\": " + instead
			}
		}
	}
	return words
}

func (d *decoder) isParam(uses, name string) bool {
	if d.o.Types == nil {
		return false
	}
	t, _ := d.o.Types(uses)
	typ, err := newTypeSchema(t)
	return err == nil && typ.params != nil && typ.params.Properties[name] != nil
}
