package playbooks

import (
	"strings"
	"testing"
)

func TestInsteadOfAModule(t *testing.T) {
	for _, tt := range []struct {
		uses  string
		known string
		want  string // the beginning; "" is none
	}{
		{"apt", "command,file", "the Ansible module apt is not a job type here: write uses: command"},
		{"apt", "command,package", "write uses: package;"},
		{"ansible.builtin.service", "command,service", "write uses: service;"},
		{"ansible.builtin.copy", "command,file", "write uses: file;"},
		{"ansible.builtin.copy", "command,copy,file", "write uses: file for one file, or uses: copy for a folder;"},
		{"ansible.builtin.template", "command,file", "the Ansible module template is not a job type here: write uses: file with template: FILE"},
		{"community.general.snap", "command", "the Ansible module snap is not"},
		{"shell", "command", "write uses: command;"},
		{"comand", "command", ""},
		{"acme.check", "command", ""},
	} {
		got := insteadOf(tt.uses, strings.Split(tt.known, ","))
		if !strings.HasPrefix(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("insteadOf(%q, %s) = %q, expected %q", tt.uses, tt.known, got, tt.want)
		}
	}
}
