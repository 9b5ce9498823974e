//go:build linux && labs

package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

const importedPlay = `
- name: tree
  hosts: box
  gather_facts: false
  vars:
    root: ROOT
    app: shop
    port: 8080
    parts: [a, b]
    release: "{{ root }}/releases/1.2"
  tasks:
    - name: Folders
      file: {path: "{{ root }}/{{ item }}/x", state: directory, mode: "0755"}
      loop: "{{ parts }}"
    - name: Releases # made first: where the folder above is missing, the import notes a difference
      file: {path: "{{ root }}/releases", state: directory, mode: "0755"}
    - name: Release
      file: {path: "{{ release }}", state: directory, mode: "u=rwx,g=rx,o="}
    - name: Settings
      template: {src: app.conf.j2, dest: "{{ release }}/app.conf", mode: "0640"}
      notify: [restarted]
    - name: File
      copy: {src: page.html, dest: "{{ root }}/a/", mode: "0644"}
    - name: Text
      copy:
        content: |
          {{ app }} of {{ inventory_hostname }}
          $HOME "quoted"
        dest: "{{ root }}/b/text"
        mode: "0600"
    - name: Link
      file: {src: releases/1.2, dest: "{{ root }}/current", state: link}
    - name: Words
      command: cp {{ release }}/app.conf '{{ root }}/a copy'
      args: {creates: "{{ root }}/a copy"}
    - name: Line
      shell: printf '%s' "{{ app }}" | tr a-z A-Z > {{ root }}/upper
    - name: Look
      command: cat {{ root }}/upper
      register: upper
      changed_when: false
    - name: Only if
      shell: echo "{{ upper.stdout }}" > {{ root }}/matched
      when: upper.stdout == "SHOP" and port > 80
    - name: Not then
      command: touch {{ root }}/never
      when: upper.stdout != "SHOP" or inventory_hostname in groups['nobody']
    - name: Fails
      command: test -e {{ root }}/never
      register: never
      ignore_errors: true
    - name: After it
      command: touch {{ root }}/after
      when: never is failed
    - name: Setting
      lineinfile: {path: "{{ release }}/app.conf", regexp: "^port *=", line: "port = 9{{ port }}"}
    - name: Last line
      lineinfile: {path: "{{ root }}/more", line: "{{ app }}", create: true}
    - name: Line before it
      lineinfile: {path: "{{ root }}/more", line: first, insertbefore: ^shop$}
    - name: Holds
      assert: {that: [port > 80, "app in ['shop']"], fail_msg: not here}
    - name: Never fails
      fail: {msg: the app is not shop}
      when: app != "shop"
    - name: Gone
      file: {path: "{{ root }}/b/x", state: absent}
    - name: Lines
      copy: {content: "#Port  1\nPermit\nold a\nend\nold b\n", dest: "{{ root }}/lines"}
    - name: Replaced
      lineinfile: {path: "{{ root }}/lines", regexp: '^#?Port\s+', line: "Port {{ port }}"}
    - name: Replaced at its end
      lineinfile: {path: "{{ root }}/lines", regexp: '^Permit\s', line: Permit no}
    - name: Inserted
      lineinfile: {path: "{{ root }}/lines", line: "{{ item }}", insertbefore: ^end$}
      loop: "{{ parts }}"
    - name: Lines gone
      lineinfile: {path: "{{ root }}/lines", regexp: '^old\s', state: absent}
    - name: Block
      blockinfile:
        path: "{{ root }}/lines"
        marker: "# {mark} turnus part"
        insertafter: ^end
        block: |
          {{ app }}
          last
    - name: Block between the markers of Ansible
      blockinfile: {path: "{{ root }}/lines", block: "of {{ app }}"}
    - name: Blocks of items
      blockinfile: {path: "{{ root }}/lines", marker: "<!-- {mark} {{ item }} -->", block: "{{ item }}"}
      loop: "{{ parts }}"
  handlers:
    - name: restarted
      shell: echo once >> {{ root }}/handled
`

// Ansible and Turnus make the same tree of one playbook, on a host with OpenSSH, twice in a row.
func TestLabImportedPlaybookMakesTheSameTree(t *testing.T) {
	ansible := testparts.Need(t, "ansible-playbook", "ansible-core")
	private, public := servers.NewSSHKey(t)
	sshd := servers.StartSSHD(t, servers.Authorize(public))
	l := newLab(t, fleet.Config{Hosts: 1})
	known := l.file("known_hosts", fmt.Sprintf("[%s]:%d %s\n", sshd.Addresses[0], sshd.Port, servers.AuthorizedKey(sshd.HostKey)))
	ini := l.file("hosts.ini", fmt.Sprintf("box ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file=%s ansible_python_interpreter=/usr/bin/python3\n[nobody]\nother\n",
		sshd.Addresses[0], sshd.Port, sshd.User, private))
	for _, dir := range []string{"theirs", "ours", "templates", "files"} {
		if err := os.Mkdir(filepath.Join(l.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.file("templates/app.conf.j2", "name = {{ app }}\nport = {{ port }}\nroot = {{ inventory_hostname }}\n")
	l.file("files/page.html", "<p>hello</p>\n")
	roots := map[string]string{"theirs": filepath.Join(l.dir, "theirs"), "ours": filepath.Join(l.dir, "ours")}
	for name, root := range roots {
		l.file(name+".yml", strings.Replace(importedPlay, "ROOT", root, 1))
	}
	l.start("import", "ansible", "ours.yml", "--into", "converted").wants(0)
	for range 2 {
		cmd := exec.CommandContext(t.Context(), ansible, "-i", ini, "theirs.yml")
		cmd.Dir = l.dir
		cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+l.dir+"/ansible", "ANSIBLE_LOCAL_TEMP="+l.dir+"/ansible", "ANSIBLE_HOST_KEY_CHECKING=False")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ansible-playbook: %v\n%s", err, out)
		}
		l.start("run", "converted/tree.yaml", "-i", ini, "--known-hosts", known).wants(0)
		theirs, ours := listing(t, roots["theirs"]), listing(t, roots["ours"])
		if theirs != ours || strings.Count(ours, "\n") < 14 {
			t.Fatalf("Ansible made\n%s\nTurnus made\n%s", theirs, ours)
		}
	}
	if err := os.Chmod(filepath.Join(roots["ours"], "b/text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if listing(t, roots["theirs"]) == listing(t, roots["ours"]) {
		t.Error("negative control: another mode makes no difference")
	}
}

// listing is a tree as text: kinds, modes, contents and targets.
func listing(t *testing.T, root string) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := ""
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			what, err = os.Readlink(path)
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			what = fmt.Sprintf("%x", sha256.Sum256(bytes.ReplaceAll(data, []byte(root), []byte("ROOT"))))
		}
		fmt.Fprintf(&b, "%s %s %s\n", strings.TrimPrefix(path, root), info.Mode(), what)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
