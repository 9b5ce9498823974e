package ansible

import (
	"bufio"
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"
)

// settings of ansible.cfg that decide what tasks do, with what to write in their place.
var settings = map[string]string{
	"become": "become: true in the playbook", "become_user": "become: {user: NAME} in the playbook", "become_method": "become: {method: doas} of a host or group (docs/become.md)",
	"remote_user": "ansible_user in the inventory", "remote_port": "ansible_port in the inventory", "executable": "run: PROGRAM -c '…' in the steps",
	"any_errors_fatal": "strategy: {stop_after: 1}", "force_handlers": "on_failure: run in the handlers", "hash_behaviour": "one whole mapping in the inventory", "jinja2_native": "values of the type that the params take",
}

// configTodos adds a todo for each setting of ansible.cfg beside the playbook that the play does
// not make itself.
func (p *play) configTodos() error {
	const file = "ansible.cfg"
	if _, ok := p.first(file); !ok {
		return nil
	}
	data, _, err := p.bytes(file)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		key, value, ok := strings.Cut(strings.Replace(lines.Text(), ":", "=", 1), "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(strings.SplitN(value, " ;", 2)[0])
		usual := map[string]string{"become_user": "root", "become_method": "sudo", "hash_behaviour": "replace", "executable": "/bin/sh", "remote_port": "22"}[key]
		off := strings.EqualFold(value, "false") || strings.EqualFold(value, "no") || value == "0" || value == usual || value == ""
		if !ok || settings[key] == "" || off || child(p.node, key) != nil {
			continue
		}
		d := doubtf("%s = %s in ansible.cfg decides how tasks run, and the import does not convert it", key, clip(value)).hint("%s; then remove this step", settings[key])
		p.blocked(file, &yaml.Node{Kind: yaml.ScalarNode, Line: n, Column: 1}, key, d)
	}
	return nil
}
