package ansible

import "strings"

// sameFacts are those of Ansible that host.facts has with the same value.
var sameFacts = map[string]term{
	"ansible_kernel":          {text: "host.facts.kernel.release", kinds: kindText},
	"ansible_machine":         {text: "host.facts.arch", kinds: kindText},
	"ansible_memtotal_mb":     {text: "host.facts.memory", kinds: kindInt},
	"ansible_processor_nproc": {text: "host.facts.cpus", kinds: kindInt},
	"ansible_processor_vcpus": {text: "host.facts.cpus", kinds: kindInt},
	"ansible_system":          {text: "host.facts.kernel.name", kinds: kindText},
}

// spelled is a fact with other words for the same values. Comparisons with these words convert.
type spelled struct {
	text  string
	words map[string]string
}

var spelledFacts = map[string]spelled{
	"ansible_architecture": {"host.facts.arch", map[string]string{"x86_64": "x86_64", "aarch64": "aarch64", "armv7l": "armv7l", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}},
	"ansible_distribution": {"host.facts.os.id", map[string]string{
		"AlmaLinux": "almalinux", "Alpine": "alpine", "Amazon": "amzn", "Archlinux": "arch", "CentOS": "centos", "Debian": "debian", "Fedora": "fedora",
		"OpenWrt": "openwrt", "OracleLinux": "ol", "RedHat": "rhel", "Rocky": "rocky", "Ubuntu": "ubuntu",
	}},
	"ansible_os_family": {"host.facts.os.family", map[string]string{"Alpine": "alpine", "Archlinux": "arch", "Debian": "debian", "RedHat": "redhat", "Suse": "suse"}},
}

// nearFacts are the facts to compare by hand: their values differ.
var nearFacts = map[string]string{
	"ansible_all_ipv4_addresses": "host.facts.addresses", "ansible_all_ipv6_addresses": "host.facts.addresses", "ansible_default_ipv4": "host.facts.addresses, or host.address",
	"ansible_distribution_major_version": "host.facts.os.version", "ansible_distribution_version": "host.facts.os.version", "ansible_fqdn": "host.name",
	"ansible_hostname": "host.name", "ansible_pkg_mgr": "host.facts.package_manager", "ansible_service_mgr": "host.facts.init",
}

// fact translates a name of Ansible's own, such as ansible_kernel.
func fact(name string) (term, *doubt) {
	if t, ok := sameFacts[name]; ok {
		return t, nil
	}
	if f, ok := spelledFacts[name]; ok {
		return term{}, doubtf("the values of %s and %s differ, for example Debian and debian", name, f.text).hint(`a comparison: %s == "…" (docs/facts.md)`, f.text)
	}
	if near, ok := nearFacts[name]; ok {
		return term{}, doubtf("%s has no exact equivalent", name).hint("%s, whose values may differ (docs/facts.md)", near)
	}
	return term{}, doubtf("%s is a fact or a setting of Ansible, which Turnus does not have", name).
		hint("a fact of docs/facts.md, or a step with uses: command that prints the value, and steps.NAME.stdout")
}

// spelledFact returns the fact that a node reads, if its values are spelled differently and no var
// hides it.
func (s *scope) spelledFact(n *node) (spelled, bool) {
	name := n.name
	switch {
	case n.op == "attr" && n.args[0].op == "name" && n.args[0].name == "ansible_facts":
		name = "ansible_" + name
	case n.op != "name" || s.find(name) != nil || s.result(name) != nil || s.play.set[name] != "":
		return spelled{}, false
	}
	f, ok := spelledFacts[name]
	return f, ok
}

// compareFact translates a comparison of a fact with words, such as ansible_os_family == "Debian".
// ok reports whether n is one.
func (s *scope) compareFact(n *node) (t term, ok bool) {
	left, right := n.args[0], n.args[1]
	if n.op == "==" || n.op == "!=" {
		if left.op == "lit" {
			left, right = right, left
		}
	} else if right.op != "list" {
		return term{}, false
	}
	f, ok := s.spelledFact(left)
	if !ok {
		return term{}, false
	}
	items := []*node{right}
	if right.op == "list" {
		items = right.args
	}
	words := make([]string, 0, len(items))
	for _, item := range items {
		text, _ := item.val.(string)
		word, known := f.words[text]
		if item.op != "lit" || !known {
			return term{}, false
		}
		words = append(words, quoted(word))
	}
	if len(words) == 0 {
		return term{}, false
	}
	switch n.op {
	case "in":
		return term{text: f.text + " in [" + strings.Join(words, ", ") + "]", prec: precCompare, kinds: kindBool}, true
	case "not in":
		return term{text: "!(" + f.text + " in [" + strings.Join(words, ", ") + "])", kinds: kindBool}, true
	}
	return term{text: f.text + " " + n.op + " " + words[0], prec: precCompare, kinds: kindBool}, right.op == "lit"
}
