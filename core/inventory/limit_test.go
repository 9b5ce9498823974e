package inventory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
)

const limitHosts = `
lone
[web]
web1.x
web2.x
web3.x
[db]
db[01:04].x
web2.x
[east]
web1.x
db01.x
[prod:children]
web
db
`

// limits are patterns that ansible also understands.
var limits = []struct{ pattern, want string }{
	{"all", "lone web1.x web2.x web3.x db01.x db02.x db03.x db04.x"},
	{"*", "lone web1.x web2.x web3.x db01.x db02.x db03.x db04.x"},
	{"lone", "lone"},
	{"web", "web1.x web2.x web3.x"},
	{"web,lone", "lone web1.x web2.x web3.x"},
	{"web:db", "web1.x web2.x web3.x db01.x db02.x db03.x db04.x"},
	{"prod:!db", "web1.x web3.x"},
	{"!db:prod", "web1.x web3.x"},
	{"!db", "lone web1.x web3.x"},
	{"prod:&east", "web1.x db01.x"},
	{"web:db:&east:!db01.x", "web1.x"},
	{"web*", "web1.x web2.x web3.x"},
	{"*2.x", "web2.x db02.x"},
	{"db0[13].x", "db01.x db03.x"},
	{"web[0]", "web1.x"},
	{"web[-1]", "web3.x"},
	{"web[0:1]", "web1.x web2.x"},
	{"web[1:]", "web2.x web3.x"},
	{"~(web|db0)1\\.x", "web1.x db01.x"},
	{"~db0[34]", "db03.x db04.x"},
	{"ungrouped", "lone"},
	{"prod,&east,!web", "db01.x"},
}

func names(hs []core.Host) string {
	var out []string
	for _, h := range hs {
		out = append(out, h.Name)
	}
	return strings.Join(out, " ")
}

func TestLimit(t *testing.T) {
	inv := loadText(t, "hosts", limitHosts)
	list := write(t, "list", "# comment\nweb1.x\n\ndb[01:02].x\n", 0o644)
	for _, tc := range append(slices.Clone(limits),
		struct{ pattern, want string }{"@" + list, "web1.x db01.x db02.x"},
		struct{ pattern, want string }{"@" + list + ",!web", "db01.x db02.x"},
		struct{ pattern, want string }{"db[02:03].x", "db02.x db03.x"},
	) {
		got, err := inv.Limit(tc.pattern)
		if err != nil || names(got) != tc.want {
			t.Errorf("%q: got %q, %v; want %q", tc.pattern, names(got), err, tc.want)
		}
	}
}

// Names that were lost on the way do not become all hosts.
func TestALimitWithoutANameIsRefused(t *testing.T) {
	inv := loadText(t, "hosts", limitHosts)
	list := write(t, "list", "# nothing\n\n", 0o644)
	for _, pattern := range []string{"", " ", ",", ":", "@" + list, "@" + list + ",!web", "lone,@" + list} {
		if got, err := inv.Limit(pattern); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "it names no host: all is every host") {
			t.Errorf("%q: got %q, %v; expected that it is refused", pattern, names(got), err)
		}
	}
}

// askAnsible lists the hosts that Ansible itself selects, for pairs of an inventory file and a
// pattern.
func askAnsible(t *testing.T, pairs [][2]string) []string {
	t.Helper()
	ansible := testparts.Need(t, "ansible", "ansible-core")
	python := testparts.Need(t, "python3", "python3")
	if head, err := os.ReadFile(ansible); err == nil { // the interpreter that has Ansible's modules
		if line, _, _ := strings.Cut(string(head), "\n"); strings.HasPrefix(line, "#!") && !strings.HasSuffix(line, "env python3") {
			python = strings.TrimSpace(line[2:])
		}
	}
	var in strings.Builder
	for _, pair := range pairs {
		in.WriteString(pair[0] + "\t" + pair[1] + "\n")
	}
	cmd := exec.Command(python, "-c", `
import sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
known = {}
for line in sys.stdin:
    source, pattern = line.rstrip("\n").split("\t")
    if source not in known:
        known[source] = InventoryManager(loader=DataLoader(), sources=[source])
    try:
        print(" ".join(h.name for h in known[source].get_hosts(pattern)))
    except Exception:
        print("refused")
`)
	cmd.Stdin = strings.NewReader(in.String())
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+t.TempDir(), "ANSIBLE_LOCAL_TEMP="+t.TempDir())
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v\n%s", err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(pairs) {
		t.Fatalf("%d answers for %d patterns", len(lines), len(pairs))
	}
	return lines
}

// The table above is what Ansible selects.
func TestLimitConformsToAnsible(t *testing.T) {
	file := write(t, "hosts", limitHosts, 0o644)
	var pairs [][2]string
	for _, tc := range limits {
		pairs = append(pairs, [2]string{file, tc.pattern})
	}
	for i, line := range askAnsible(t, pairs) {
		got, want := strings.Fields(line), strings.Fields(limits[i].want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: ansible selects %v, the table has %v", limits[i].pattern, got, want)
		}
	}
}

// GROUP[N] is the host that it is with Ansible, also where groups hold groups.
func TestFaultW7SubscriptOfAParentGroup(t *testing.T) {
	inv := loadText(t, "hosts", "[b]\nb1\nb2\n[a]\na1\n[p:children]\na\nb\n[c]\nb2\nb1\n")
	for pattern, want := range map[string]string{"p[0]": "a1", "p[-1]": "b2", "p[1:2]": "b1 b2", "c[0]": "b2", "all[0]": "b2"} {
		if got, err := inv.Limit(pattern); err != nil || names(got) != want {
			t.Errorf("%q: got %q, %v; want %q", pattern, names(got), err, want)
		}
	}
}

// A range of names that is also a subscript of other hosts is refused, unless not all of the names
// are hosts. Groups of the names add nothing to a range.
func TestARangeOfNamesIsNoSubscript(t *testing.T) {
	inv := loadText(t, "hosts", "[web]\nweb[1:5]\n[db]\ndb[0:3]\n[fw]\nfw[1:2].x\n[web3]\nweb1\n[web9]\ndb0\n")
	for pattern, want := range map[string]string{
		"web[2:4:1]": "web2 web3 web4", "web[0:1]": "web1 web2", "db[1:2]": "db1 db2", "web[3]": "web4", "fw[0:1]": "fw1.x fw2.x", "w*[1:2]": "web2 web3",
		"web[9:9:1]": "db0", "web[2:4]": "", "web[1:1]": "", "web[3:5]": "",
	} {
		got, err := inv.Limit(pattern)
		if want == "" && (err == nil || !strings.Contains(err.Error(), "hint: write "+strings.TrimSuffix(pattern, "]")+":1] for the names")) || want != "" && (err != nil || names(got) != want) {
			t.Errorf("%q: got %q, %v; want %q", pattern, names(got), err, want)
		}
	}
}

// drawInventory writes an inventory at random. A group of groups of groups has one such child at
// most: Ansible goes through several in an order of its own for each process.
func drawInventory(r *rand.Rand) string {
	var sections []string
	section := func(name string, lines []string) {
		sections = append(sections, "["+name+"]\n"+strings.Join(lines, "\n")+"\n")
	}
	var leaves, middles []string
	for g := range 2 + r.IntN(4) {
		name := fmt.Sprintf("g%d", g)
		var hosts []string
		for range 1 + r.IntN(4) {
			hosts = append(hosts, fmt.Sprintf("h%d", r.IntN(9)))
		}
		leaves = append(leaves, name)
		section(name, hosts)
	}
	some := func(from []string) []string {
		r.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		return slices.Clone(from[:1+r.IntN(len(from))])
	}
	for m := range r.IntN(3) {
		name := fmt.Sprintf("m%d", m)
		middles = append(middles, name)
		section(name+":children", some(leaves))
	}
	if len(middles) > 0 {
		children := append(some(leaves), middles[r.IntN(len(middles))])
		r.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
		section("top:children", children)
	} else {
		section("top:children", some(leaves))
	}
	r.Shuffle(len(sections), func(i, j int) { sections[i], sections[j] = sections[j], sections[i] })
	return "lone\n" + strings.Join(sections, "")
}

func TestFaultW7SubscriptsConformToAnsible(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2026))
	var pairs [][2]string
	var inventories []*Inventory
	for n := range 120 {
		text := drawInventory(r)
		file := write(t, fmt.Sprintf("hosts-%d", n), text, 0o644)
		inv := loadText(t, "hosts", text)
		for _, group := range []string{"top", "m0", "m1", "g0", "g1", "g*", "m?", "ungrouped"} {
			for _, at := range []string{"[0]", "[1]", "[-1]", "[1:2]", "[2:]"} {
				pairs, inventories = append(pairs, [2]string{file, group + at}), append(inventories, inv)
			}
		}
	}
	compared := 0
	for i, want := range askAnsible(t, pairs) {
		hosts, err := inventories[i].Limit(pairs[i][1])
		if err != nil {
			if want != "" && want != "refused" {
				t.Errorf("%s: %v; ansible selects %s", pairs[i][1], err, want)
			}
			continue
		}
		got, theirs := strings.Fields(names(hosts)), slices.Compact(slices.Sorted(slices.Values(strings.Fields(want))))
		if slices.Sort(got); !slices.Equal(got, theirs) {
			data, _ := os.ReadFile(pairs[i][0])
			t.Errorf("%s: got %v, ansible selects %v, of\n%s", pairs[i][1], got, theirs, data)
			break
		}
		compared++
	}
	if compared < 2000 {
		t.Errorf("%d answers were compared", compared)
	}
}

func TestLimitByCustomerAndSite(t *testing.T) {
	inv := loadText(t, "h.yaml", example)
	for pattern, want := range map[string]string{
		"borealis": "one.borealis", "fra,!fw*": "bastion.fra.acme lone", "acme,&edge,!core-edge": "fw003.fra fw004.fra",
	} {
		if got, err := inv.Limit(pattern); err != nil || names(got) != want {
			t.Errorf("%q: got %q, %v; want %q", pattern, names(got), err, want)
		}
	}
}

func TestLimitErrors(t *testing.T) {
	inv := loadText(t, "hosts", limitHosts)
	loop := write(t, "loop", "", 0o644)
	if err := os.WriteFile(loop, []byte("@"+loop+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"web[1:3":                             `limit "web[1:3": invalid: "web[1:3" matches no host and no group` + "\nhint: a range ends with ], as in web[1:20]",
		"wbe":                                 `limit "wbe": invalid: "wbe" matches no host and no group` + "\nhint: did you mean \"web\"?",
		"web,!db05.x":                         `hint: did you mean "db0`,
		"nope*":                               `"nope*" matches no host`,
		"~(":                                  "error parsing regexp",
		"~nope":                               "~nope matches no host",
		"~" + strings.Repeat("(a?){1000}", 9): "(a?){1000}: the pattern needs more than 10000 instructions",
		"web[7]":                              "web has 3 hosts, so [7] is none of them",
		"web[5:9]":                            "web has 3 hosts",
		"db[01:09].x":                         `"db05.x" matches no host`,
		"web,!":                               `"!" without a name`,
		"@/nowhere/x":                         "no such file",
		"@" + loop:                            "lists that name each other",
	} {
		got, err := inv.Limit(pattern)
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v; want an error with %q", pattern, names(got), err, want)
		}
	}
}

// Any launcher of a playbook may set a limit: it must not keep a service busy, whatever it is made
// of.
func TestLimitsAreBounded(t *testing.T) {
	inv := loadText(t, "hosts", "[web]\nh[1:3000]\n")
	for name, tc := range map[string]struct{ pattern, want string }{
		"as many names as one likes": {strings.Repeat("h7,", 100_000), ""},
		"some patterns":              {strings.Repeat("h?*,!h1*,&web,~h2,all,web[0:9],", 100), ""},
		"globs":                      {strings.Repeat("h?*,", 100_000), "too many patterns for 3000 hosts"},
		"expressions":                {strings.Repeat("~h,", 100_000), "too many patterns for 3000 hosts"},
		"all":                        {strings.Repeat("*,", 100_000), "too many patterns for 3000 hosts"},
		"intersections":              {strings.Repeat("&h1,", 100_000), "too many patterns for 3000 hosts"},
		"groups":                     {strings.Repeat("!web,", 100_000), "too many patterns for 3000 hosts"},
		"ranges":                     {strings.Repeat("h[1:3000],", 100_000), "too many patterns for 3000 hosts"},
		"a long one":                 {"~" + strings.Repeat("h|", 100_000), "a pattern of 200001 bytes, 4096 at most"},
		"subscripts of subscripts":   {strings.Repeat("web"+strings.Repeat("[0:1]", 500)+",", 100), "more than 100000 hosts"},
	} {
		if _, err := inv.Limit(tc.pattern); tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
