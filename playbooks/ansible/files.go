package ansible

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

const maxInline = 64 << 10 // of a template that becomes the content of a step

// source finds a file that a module names, as Ansible does, and returns its path from the playbook.
func (t *draft) source(name, folder string) (string, *doubt) {
	p := t.scope.play
	if strings.HasPrefix(name, "/") {
		return "", doubtf("the file %s is outside of the folder of the playbook", clip(name))
	}
	var tried []string
	roots := []string{path.Dir(t.file), path.Dir(p.file)}
	if t.role != nil {
		roots = append([]string{t.role.folder}, roots...)
	}
	for _, root := range roots {
		for _, in := range []string{folder, ""} {
			if joined, ok := within(path.Join(root, in), name); ok {
				tried = append(tried, joined)
			}
		}
	}
	found, ok := p.first(tried...)
	if !ok {
		return "", doubtf("there is no file %s in %s", clip(name), p.show(path.Join(roots[0], folder)))
	}
	encrypted, err := p.encrypted(found)
	switch {
	case err != nil:
		return "", unread(err)
	case encrypted:
		return "", &doubt{reason: p.show(found) + " is encrypted with Ansible Vault", instead: vaulted().instead}
	}
	p.files[found] = true
	return found, nil
}

// attributes translates mode, owner and group.
func (t *draft) attributes() *doubt {
	if n := t.args.node("mode"); n != nil {
		mode, d := modeOf(n)
		if d != nil {
			return d
		}
		t.step.with.add("mode", mode)
	}
	owner, _, d := t.text("owner")
	if d != nil {
		return d
	}
	group, hasGroup, d := t.text("group")
	switch {
	case d != nil:
		return d
	case hasGroup && owner == "":
		return doubtf("group without owner has no equivalent").hint("owner: USER:%s", clip(group))
	case hasGroup:
		owner += ":" + group
	}
	if owner != "" {
		t.step.with.add("owner", owner)
	}
	return t.refuse("attributes", "selevel", "serole", "setype", "seuser", "unsafe_writes")
}

var (
	octal    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^0?[0-7]{3,4}$`) })
	symbolic = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^u=([rwx]*),g=([rwx]*),o=([rwx]*)$`) })
)

// modeOf translates a mode. Ansible takes a number without a leading 0 for a decimal one.
func modeOf(n *yaml.Node) (string, *doubt) {
	text := n.Value
	isQuoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	if m := symbolic().FindStringSubmatch(text); m != nil {
		mode := 0
		for _, part := range m[1:] {
			bits := 0
			for _, r := range part {
				bits |= map[rune]int{'r': 4, 'w': 2, 'x': 1}[r]
			}
			mode = mode<<3 | bits
		}
		return fmt.Sprintf("%04o", mode), nil
	}
	if !octal().MatchString(text) || !isQuoted && !strings.HasPrefix(text, "0") {
		return "", doubtf("the mode %s has no equivalent", clip(text)).hint(`mode: "0644", in octal and in quotes`)
	}
	if len(text) == 3 {
		text = "0" + text
	}
	return text, nil
}

// target translates dest or path, which must be absolute.
func (t *draft) target(name string, names ...string) (string, *doubt) {
	dest, d := t.need(names...)
	switch {
	case d != nil:
		return "", d
	case !t.scope.absolute(t.args.node(names...).Value):
		return "", doubtf("%s is not an absolute path", clip(dest)).hint("path: an absolute path")
	case strings.HasSuffix(dest, "/") && name != "":
		t.note("the folder %s must exist; Ansible makes it", clip(dest))
		dest += path.Base(name)
	}
	return dest, nil
}

func copyFile(t *draft) *doubt {
	t.step.uses = "file"
	content := t.args.node("content")
	src, d := t.literal("", "src")
	switch {
	case d != nil:
		return d
	case content == nil && src == "":
		return doubtf("copy without src and content has no equivalent")
	}
	dest, d := t.target(src, "dest")
	if d != nil {
		return d
	}
	t.step.with.add("path", dest)
	if content != nil {
		if content.Kind != yaml.ScalarNode {
			return doubtf("content that is not a text has no equivalent")
		}
		text, _, d := t.text("content")
		if d == nil && strings.HasSuffix(dest, "/") {
			d = doubtf("content with the folder %s fails in Ansible", clip(dest))
		}
		if d != nil {
			return d
		}
		t.step.with.add("content", text)
	} else {
		source, d := t.source(src, "files")
		if d != nil {
			return d
		}
		t.step.with.add("source", source)
	}
	return t.written()
}

// written translates what copy and template have in common.
func (t *draft) written() *doubt {
	for _, one := range []struct {
		name  string
		usual bool
	}{{"force", true}, {"backup", false}, {"remote_src", false}, {"follow", t.module == "template" && false}, {"decrypt", true}} {
		v, d := t.flag(one.usual, one.name)
		if d != nil {
			return d
		}
		if v != one.usual {
			return doubtf("%s: %t has no equivalent", one.name, v)
		}
	}
	return cmpDoubt(t.validated(), cmpDoubt(t.attributes(), t.noEnvironment()))
}

// templateFile translates a template without logic into the content of a step.
func templateFile(t *draft) *doubt {
	t.step.uses = "file"
	src, d := t.literal("", "src")
	if d != nil {
		return d
	}
	p := t.scope.play
	had := len(p.files)
	source, d := t.source(src, "templates")
	if d != nil {
		return d
	}
	dest, d := t.target(src, "dest")
	if d != nil {
		return d
	}
	t.step.with.add("path", dest)
	data, _, err := p.bytes(source)
	if err != nil {
		return unread(err)
	}
	text := string(data)
	removed := strings.Contains(text, "#jinja2:") || strings.Contains(text, "\r") // Ansible removes the header and the carriage returns
	if !hasJinja(text) && !removed {
		t.step.with.add("source", source)
		return t.written()
	}
	if len(p.files) > had {
		delete(p.files, source)
	}
	if len(data) > maxInline {
		return doubtf("the template is larger than 64 KiB").hint("a Go template: with: {template: FILE}")
	}
	if _, _, bad := notUTF8(data); bad || removed {
		return doubtf("the template has settings or bytes that have no equivalent").hint("a Go template: with: {template: FILE}")
	}
	content, d := t.scope.text(text)
	if d != nil {
		return &doubt{reason: p.show(source) + ": " + d.reason, instead: "a Go template: uses: file with template: FILE (docs/job-types.md)"}
	}
	t.step.with.add("content", content)
	return t.written()
}

func file(t *draft) *doubt {
	t.step.uses = "file"
	state, d := t.literal("", "state")
	if d != nil {
		return d
	}
	dest, d := t.target("", "path", "dest", "name")
	if d != nil {
		return d
	}
	t.step.with.add("path", strings.TrimSuffix(dest, "/"))
	switch state {
	case "directory":
		t.step.with.add("state", "directory")
		if t.args.node("mode", "owner", "group") != nil {
			defer t.noteParents()
		}
	case "absent":
		t.step.with.add("state", "absent")
		t.step.with.add("recurse", true)
	case "link":
		target, d := t.need("src")
		if d != nil {
			return d
		}
		t.step.with.add("state", "link")
		t.step.with.add("target", target)
		if t.args.node("mode") != nil {
			return doubtf("the mode of a link has no equivalent")
		}
	case "file":
	default:
		return doubtf("state: %s has no equivalent", cmpText(state, "(none)")).hint("state: file, directory, link or absent")
	}
	recurse, d := t.flag(false, "recurse")
	if d != nil {
		return d
	}
	force, d := t.flag(false, "force")
	if d != nil {
		return d
	}
	if recurse || force {
		return doubtf("recurse and force have no equivalent").hint("uses: command, with: {run: chown -R …}")
	}
	return cmpDoubt(t.attributes(), t.noEnvironment())
}

// noteParents notes that Ansible gives folders above also the mode and the owner, where it makes
// them.
func (t *draft) noteParents() {
	owner, mode := t.step.with.get("owner"), t.step.with.get("mode")
	if owner != nil || mode != nil && mode != "0755" {
		t.note("folders above it that do not exist yet get mode 0755 and the login as their owner; Ansible gives them those of the folder")
	}
}

func cmpText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func fetch(t *draft) *doubt {
	t.step.uses = "fetch"
	src, d := t.target("", "src")
	if d != nil {
		return d
	}
	t.step.with.add("path", src)
	flat, d := t.flag(false, "flat")
	if d != nil {
		return d
	}
	if flat {
		return doubtf("flat: true has no equivalent").hint("uses: fetch keeps files as FETCH-DIR/HOST/PATH")
	}
	must, d := t.flag(true, "fail_on_missing")
	if d != nil {
		return d
	}
	if !must {
		t.step.with.add("optional", true)
	}
	dest, d := t.literal("", "dest")
	if d == nil && dest != "" {
		t.note("fetched files are in the folder of --fetch-dir: give --fetch-dir %s", clip(dest))
	}
	return cmpDoubt(d, t.refuse("validate_checksum"))
}

func (t *draft) note(format string, args ...any) {
	t.notes = append(t.notes, Note{place(t.scope.play.show(t.file), t.node.Line, t.node.Column), fmt.Sprintf(format, args...)})
}

func uri(t *draft) *doubt {
	t.step.uses = "http"
	url, d := t.need("url")
	if d != nil {
		return d
	}
	method, d := t.literal("GET", "method")
	if d != nil {
		return d
	}
	method = strings.ToUpper(method)
	t.step.with.add("url", url)
	t.step.with.add("from", "host")
	if method != "GET" {
		t.step.with.add("method", method)
	}
	if d := t.uriBody(); d != nil {
		return d
	}
	if d := t.statusCodes(); d != nil {
		return d
	}
	follow, d := t.literal("safe", "follow_redirects")
	if d != nil {
		return d
	}
	switch read := method == "GET" || method == "HEAD"; {
	case follow == "safe" && read || follow == "all" && read:
		t.step.with.add("follow", true)
	case follow == "none", follow == "safe":
	default:
		return doubtf("follow_redirects: %s has no equivalent", clip(follow))
	}
	timeout, d := t.seconds(30, "timeout")
	if d != nil {
		return d
	}
	t.step.with.add("timeout", cmpText(timeout, "30s"))
	verify, d := t.flag(true, "validate_certs")
	if d != nil {
		return d
	}
	if !verify {
		t.step.with.add("tls_verify", false)
	}
	if strings.HasPrefix(url, "https:") && verify {
		t.note("the certificate is verified with the CAs of the worker, not of the host")
	}
	_, d = t.flag(false, "return_content")
	return cmpDoubt(d, t.noEnvironment())
}

func (t *draft) uriBody() *doubt {
	format, d := t.literal("raw", "body_format")
	if d != nil {
		return d
	}
	body := t.args.node("body")
	if body != nil && (body.Kind != yaml.ScalarNode || format != "raw") {
		return doubtf("a body with body_format %s has no equivalent", clip(format)).hint("body: as the text that is sent, and headers: {Content-Type: application/json}")
	}
	if d := t.pass("body", "body"); d != nil {
		return d
	}
	headers := t.args.node("headers")
	if headers == nil {
		return nil
	}
	var out fields
	for _, e := range entries(headers) {
		v, d := scalar(e.value)
		text, ok := v.(string)
		if d == nil && !ok {
			text = e.value.Value
		}
		if d == nil {
			text, d = t.scope.text(text)
		}
		if d != nil {
			return d
		}
		out.add(e.key, text)
	}
	t.step.with.add("headers", out)
	return nil
}

func (t *draft) statusCodes() *doubt {
	n := t.args.node("status_code")
	if n == nil {
		return nil
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var codes []any
	for _, item := range items {
		code, d := number(item)
		if d != nil {
			return d
		}
		codes = append(codes, code)
	}
	t.step.with.add("expect", codes)
	return nil
}
