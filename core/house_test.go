package core_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/turnus/turnus"

// borders lists what a room may import of Turnus (its own sub-folders are always allowed), and why.
// A path means that folder and all below it.
var borders = []struct {
	room, why string
	may       []string
}{
	{"core", "the vocabulary is a leaf: everybody speaks it, it knows nobody", nil},
	{"core/testparts", "tests everywhere use it", nil},
	{"core/testparts/servers", "private servers of tests, guarded as in production", []string{"core", "core/redisconn", "core/securefile", "core/testparts"}},
	{"core/redact", "a leaf: it takes values out of text, wherever they come from", []string{"core"}},
	{"core/yamlread", "reads YAML by tables of fields, and finds the nearest known name; it must not know whose keys and names these are", []string{"core"}},
	{"core/securefile", "files that only this user may access, and TLS from such files: whoever reads, watches, connects or listens asks it", []string{"core", "core/testparts"}},
	{"windows", "a pure value calculus; iCalendar and civil time stand below it, and its YAML is read with core/yamlread", []string{"core/yamlread"}},
	{"windows/civil", "wall clocks and cron: a leaf that schedules use without knowing windows", nil},
	{"plugins/sdk", "a module of its own, so that a plugin does not depend on what the runner does", []string{"plugins/sdk/wire", "plugins/sdk/words", "plugins/sdk/shell", "plugins/sdk/templates"}},
	{"plugins", "tests of all built-ins as one real plugin", []string{"plugins", "core"}},
	{"plugins/sdk/plugintest", "the author's kit knows the sdk only", []string{"plugins/sdk", "plugins/sdk/wire", "plugins/sdk/shell"}},
	{"plugins/sdk/wire", "generated messages", nil},
	{"plugins/sdk/words", "a leaf: how errors of decoders read for people, whatever is decoded", nil},
	{"plugins/sdk/shell", "a leaf: what several scripts for hosts share", nil},
	{"plugins/sdk/templates", "a leaf: a playbook checks the files that job types render", nil},
	{"plugins/sdk/outward", "a leaf: keeping connections out of a machine's own network, whoever makes them", nil},
	{"plugins/host", "keeps processes and gives them hosts; it must not know runs", []string{"core", "core/telemetry", "core/redact", "core/transport", "plugins/sdk", "plugins/sdk/wire", "plugins/sdk/words", "plugins/sdk/plugintest", "core/testparts"}},
	{"plugins/host/sandbox", "confines a process, whatever it is; it must not know plugins", []string{"core"}},
	{"plugins/exec", "makes scripts plugins: like anybody's plugin it stands on the sdk", []string{"plugins/sdk", "plugins/sdk/words"}},
	{"plugins/scaffold", "writes the files of a new plugin; the wire is rendered for other languages", []string{"plugins/sdk/wire"}},
	{"plugins/conformance", "a plugin's process and simulated hosts, over the worker's own host services; it must not know the sdk", []string{"core", "core/transport", "core/transport/fleet", "plugins/host", "plugins/sdk/wire", "plugins/sdk/words"}},
	{"core/login", "who a person is by an OpenID provider's word; it must not know HTTP routes, nor how sessions are kept", []string{"core", "core/securefile", "core/yamlread", "core/testparts"}},
	{"core/redisconn", "how rooms talk to Redis, whatever they keep there", []string{"core", "core/redisconn", "core/testparts", "core/securefile"}},
	{"core/board", "a leaf: documents and messages for every worker and watcher; it must not know queues", []string{"core"}},
	{"core/queue", "the contract schedules names and bytes; it must not know boards, nor what an event means", []string{"core"}},
	{"core/queue/memory", "a backend in memory, of queues and boards", []string{"core", "core/board", "core/queue"}},
	{"core/queue/redis", "a backend on Redis, of queues and boards", []string{"core", "core/board", "core/queue", "core/redisconn", "core/testparts"}},
	{"core/queue/queuetest", "tests of any queue, and a run that the engine drives through it; it must not know implementations", []string{"core", "core/admission", "core/engine", "core/launch", "core/queue"}},
	{"core/keyring", "keys, and bytes encrypted with them; it must not know what they are", []string{"core", "core/securefile"}},
	{"core/queue/encrypted", "a decorator of any queue, which encrypts what leaves the process", []string{"core", "core/board", "core/keyring", "core/queue", "core/redisconn", "core/testparts"}},
	{"core/rollout", "pure decisions", []string{"core", "windows"}},
	{"core/admission", "whether a host's steps may start now, and windows on their way to workers; it must not know runs, nor who edits windows", []string{"core", "core/board", "core/queue", "playbooks", "windows"}},
	{"core/schedule", "recurrence; what is launched, and how, is its caller's", []string{"core", "core/ledger", "windows/civil"}},
	{"core/telemetry", "what is measured and traced; it must not know who counts or makes spans", []string{"core"}},
	{"core/api", "what clients read; it must not know how it is made", []string{"core"}},
	{"core/server", "what the service knows, told over HTTP; it must not know how runs are driven or hosts reached", []string{
		"core", "core/board", "core/api", "core/catalog", "core/configs", "core/controller", "core/definitions", "core/forecast", "core/admission", "core/inventory/sources", "core/launch", "core/snapshot", "core/ledger", "core/login", "core/telemetry", "core/queue", "core/rollout", "core/schedule", "core/yamlread", "core/testparts", "playbooks", "windows", "windows/ics", "core/notify",
	}},
	{"core/pages", "what a browser shows; it asks the API and must not know how one answers", []string{"core", "core/api", "core/client", "core/keyring", "core/login", "core/pictures", "core/testparts", "plugins/sdk/shell"}},
	{"core/pictures", "pictures from plain values, for pages and the command line", []string{"core", "core/api"}},
	{"core/client", "a program that asks a server; it must not know how one answers", []string{"core", "core/telemetry", "core/api"}},
	{"core/definitions", "what a git tree says, and following it; what is done with it is its caller's", []string{"core", "core/admission", "core/inventory", "core/secrets", "core/securefile", "core/yamlread", "core/testparts", "playbooks", "windows", "core/notify/policy"}},
	{"core/configs", "versions of files by host; it must not know who fetched them", []string{"core", "core/testparts"}},
	{"core/secrets", "where values of secrets are, and which logins a node has; it must not know how hosts are reached", []string{"core", "core/securefile", "core/yamlread", "core/testparts"}},
	{"cmd/turnus/service/scale", "how many workers there should be, from plain values, and telling it", []string{"core"}},
	{"core/notify", "tells people what the ledger has to be told; it must not know how runs are driven, nor who asks", []string{"core", "core/ledger", "core/notify/policy", "plugins/sdk/outward"}},
	{"core/notify/policy", "who is told of what, as plain values: playbooks and definitions read it", []string{"core/yamlread"}},
	{"core/forecast", "an estimate and a calendar, from plain values", []string{"core", "core/api", "core/rollout", "windows"}},
	{"core/ledger", "the durable record keeps names and opaque bytes, encrypted where there is a key ring; it must not know queues. How long it keeps runs is a YAML file", []string{"core", "core/securefile", "core/keyring", "core/testparts", "core/yamlread", "windows"}},
	{"core/backup", "copies of a ledger and its outputs; it must not know what rows mean. Keys it knows by name, its tests by ring", []string{"core", "core/keyring", "core/ledger"}},
	{"core/inventory", "a list of hosts, however it is used", []string{"core", "core/yamlread", "core/testparts"}},
	{"core/inventory/sources", "hosts that other systems keep, and their generations in the ledger; it must not know playbooks or runs", []string{"core", "core/inventory", "core/ledger", "core/secrets", "core/securefile", "core/yamlread", "plugins/host/sandbox", "plugins/sdk/shell"}},
	{"playbooks/ansible", "Ansible's playbooks as Turnus' playbooks, text to text; it must not know how playbooks run", []string{"core", "core/yamlread", "playbooks"}},
	{"core/hostkeys", "how host keys come to be trusted; it must not know how hosts are dialled", []string{"core", "core/securefile", "core/transport"}},
	{"core/transport", "SSH, whoever asks for it", []string{"core", "core/securefile", "core/testparts", "core/telemetry", "plugins/sdk/shell"}},
	{"playbooks", "job types reach it as a function, hosts as values; cron and zones are civil time's", []string{"core", "core/notify/policy", "core/rollout", "core/yamlread", "plugins/sdk/templates", "windows/civil"}},
	{"core/snapshot", "what a worker needs of a launch; it must not know what launches", []string{"core", "core/admission", "core/queue", "core/secrets", "playbooks"}},
	{"core/launch", "from files to a run; it must not know how hosts are reached", []string{"core", "core/snapshot", "core/forecast", "core/queue", "core/rollout", "core/admission", "core/inventory", "core/redact", "core/secrets", "core/yamlread", "playbooks", "windows"}},
	{"core/worker", "the node; it asks rooms by what they do", []string{"core", "core/board", "core/telemetry", "core/api", "core/configs", "core/queue", "core/snapshot", "core/admission", "core/redact", "core/secrets", "core/testparts", "plugins/host", "playbooks", "windows"}},
	{"core/catalog", "what the service runs by, and its schedules; it must not know HTTP", []string{"core", "core/board", "core/telemetry", "core/controller", "core/definitions", "core/admission", "core/inventory", "core/inventory/sources", "core/launch", "core/snapshot", "core/ledger", "core/queue", "core/schedule", "playbooks", "windows"}},
	{"core/engine", "what follows in a run: decisions without I/O", []string{"core", "core/admission", "core/launch", "core/queue", "core/rollout", "core/snapshot", "playbooks", "windows"}},
	{"core/controller", "between ledger and queue; it must not know HTTP, nor how hosts are reached", []string{"core", "core/board", "core/telemetry", "core/engine", "core/forecast", "core/admission", "core/launch", "core/snapshot", "core/ledger", "core/queue", "playbooks"}},
	{"cmd/turnus/console", "what a command prints passes through it; it must not know what that is", []string{"core"}},
	{"cmd/turnus/help", "what people read about commands and job types; it must not know what a command does", []string{"cmd/turnus/console", "core", "core/inventory", "core/ledger", "core/yamlread", "playbooks", "plugins/host", "windows", "plugins/sdk/shell"}},
	{"cmd/turnus/runview", "shows runs, of this process and of a server; it must not start them", []string{"cmd/turnus/console", "core", "core/api", "core/client", "core/engine", "core/admission", "core/launch", "core/pictures", "core/worker", "plugins/sdk/shell"}},
	{"cmd/turnus/project", "the files with which a project begins; it must not know how they are read", nil},
	{"cmd/turnus/settings", "where settings come from; it must not know what they are for", []string{"cmd/turnus/console", "core", "core/securefile", "core/yamlread"}},
	{"cmd/turnus/node", "assembles a worker node; it must not know where queues are", []string{"cmd/turnus/console", "cmd/turnus/settings", "core", "plugins", "playbooks"}},
	{"cmd/turnus/service", "assembles up and server from settings; it must not know verbs", []string{"cmd/turnus/console", "cmd/turnus/node", "cmd/turnus/runview", "cmd/turnus/settings", "core", "core/board", "core/api", "core/backup", "core/catalog", "core/client", "core/configs", "core/controller", "core/definitions", "core/admission", "core/inventory", "core/inventory/sources", "core/keyring", "core/launch", "core/snapshot", "core/ledger", "core/login", "core/telemetry", "core/notify", "core/pages", "core/queue", "core/redisconn", "core/schedule", "core/secrets", "core/securefile", "core/server", "core/worker", "playbooks", "plugins/host", "windows"}},
	{"cmd/turnus/service/systemd", "a leaf: telling systemd how the process does", []string{"core"}},
	{"cmd/turnus/localrun", "drives runs in this process; it must not know how a service keeps runs, only opens its queue", []string{"cmd/turnus/console", "cmd/turnus/node", "cmd/turnus/runview", "cmd/turnus/service", "cmd/turnus/settings", "core", "core/api", "core/client", "core/controller", "core/definitions", "core/engine", "core/forecast", "core/admission", "core/inventory", "core/launch", "core/snapshot", "core/ledger", "core/queue", "core/secrets", "core/securefile", "core/worker", "core/yamlread", "playbooks", "plugins/host", "windows"}},
	{"cmd/turnus/remote", "the client side of commands; it must not know what a command asks for", []string{"cmd/turnus/console", "cmd/turnus/localrun", "cmd/turnus/service", "cmd/turnus/settings", "core", "core/api", "core/client", "core/login", "core/securefile", "core/server", "core/telemetry"}},
	{"cmd/turnus/keyview", "shows host keys; it must not know how they are scanned, nor flags", []string{"cmd/turnus/console", "cmd/turnus/runview", "core", "core/api", "core/hostkeys", "core/transport"}},
	{"cmd/turnus/planview", "shows what a run would do, and windows; it must not know flags", []string{"cmd/turnus/console", "core", "core/api", "core/forecast", "core/admission", "core/launch", "core/snapshot", "core/pictures", "core/queue", "core/rollout", "playbooks", "windows"}},
	{"cmd/turnus/bench", "measures rooms and assemblies; it must not know other verbs", []string{"cmd/turnus/console", "cmd/turnus/localrun", "cmd/turnus/node", "cmd/turnus/runview", "cmd/turnus/service", "cmd/turnus/settings", "core", "plugins", "playbooks", "windows"}},
	{"cmd/turnus/bench/schedulebench", "measures schedules on any ledger; it must not know flags or printing", []string{"core", "core/ledger", "core/schedule"}},
	{"cmd/turnus/lab", "simulated hosts that stay up, and the demo on them; it must not know other verbs", []string{"cmd/turnus/console", "cmd/turnus/localrun", "cmd/turnus/node", "cmd/turnus/runview", "cmd/turnus/settings", "core", "core/inventory", "core/launch", "core/queue", "core/rollout", "core/securefile", "core/transport/fleet", "core/yamlread", "playbooks"}},
	{"cmd/turnus/bench/queuebench", "measures any queue; it must not know flags or printing", []string{"core", "core/queue"}},
	{"cmd/turnus", "the one place that wires parts together", []string{"core", "plugins", "playbooks", "windows"}},
	{"cmd/turnus/e2e", "it starts the binary, and looks at what it leaves behind", []string{"cmd/turnus/bench/schedulebench", "core", "core/board", "core/api", "core/client", "core/ledger", "core/queue", "core/redisconn", "cmd/turnus/service/scale", "core/transport", "core/testparts", "core/secrets", "core/keyring"}},
}

// testKits may be used by the tests of every room.
var testKits = []string{"core/testparts", "core/testparts/language", "core/testparts/servers", "core/transport/fleet", "plugins/sdk/plugintest", "core/queue/queuetest", "core/board/boardtest"}

// besides is the room that the tests of another may use, and nothing else of it.
var besides = map[string]string{"core/worker": "core/launch"}

type listed struct {
	ImportPath                         string
	Doc                                string
	Dir                                string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func within(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

// border finds the rule of a package: the most specific room that holds it.
func border(path string) (may []string, why string, ok bool) {
	best := ""
	for _, b := range borders {
		if within(path, b.room) && len(b.room) > len(best) {
			best, may, why, ok = b.room, append([]string{b.room}, b.may...), b.why, true
		}
	}
	if best == "core" && path != "core" {
		return nil, "", false // a new room needs a line of its own
	}
	if best == "plugins" && path != "plugins" {
		return []string{"plugins/sdk", "plugins/sdk/plugintest", "plugins/sdk/outward", "plugins/sdk/shell"}, "built-ins take the same path as anybody's plugin", true
	}
	return may, why, ok
}

func mayImport(may []string, dep string) bool {
	return slices.ContainsFunc(may, func(room string) bool {
		switch room {
		case "core": // the leaf, not every room below it
			return dep == room || slices.Contains(may, "plugins") && within(dep, room)
		case "plugins/sdk": // not its wire, which job types need not know
			return dep == room
		}
		return within(dep, room)
	})
}

func TestImportsFollowTheHouse(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		may, why, ok := border(path)
		if !ok {
			t.Errorf("%s is in no room: add it to borders with its reason", path)
			continue
		}
		for i, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, dep := range imports {
				dep, ours := strings.CutPrefix(dep, module+"/")
				if i > 0 && (slices.Contains(testKits, dep) || besides[path] == dep) {
					continue
				}
				if ours && dep != path && !mayImport(may, dep) {
					t.Errorf("%s imports %s; it may import %v: %s", path, dep, may, why)
				}
			}
		}
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment with what it owns", path)
		}
	}
}

// The negative control: the rule itself notices a wrong import.
func TestImportRuleNoticesAWrongImport(t *testing.T) {
	for _, wrong := range [][2]string{{"core", "core/queue"}, {"plugins/sdk", "core"}, {"plugins/command", "core"}, {"plugins/packages", "core"}, {"core/queue/redis", "core/worker"}, {"core/queue", "core/board"}, {"core/worker", "core/launch"}, {"core/board", "core/queue"}, {"playbooks", "core/inventory"}, {"plugins/command", "plugins/sdk/wire"}, {"plugins/sdk", "plugins/host"}} {
		if may, _, ok := border(wrong[0]); !ok || mayImport(may, wrong[1]) {
			t.Errorf("%s may import %s", wrong[0], wrong[1])
		}
	}
	if _, _, ok := border("core/misc"); ok {
		t.Error("a room that nobody named is accepted")
	}
}

// root is the top of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func goFiles(t *testing.T, each func(path string, src []byte)) {
	t.Helper()
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root(t) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") || strings.HasSuffix(path, ".connect.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			each(strings.TrimPrefix(path, root(t)+"/"), src)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesStayReadable(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		if n := bytes.Count(src, []byte("\n")); n > 600 {
			t.Errorf("%s has %d lines; split it by concern (600 at most)", path, n)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && i.Methods.NumFields() > 6 {
				t.Errorf("%s has an interface of %d methods; six at most", path, i.Methods.NumFields())
			}
			return true
		})
	})
}

func TestFaultT2NoTestSleeps(t *testing.T) {
	sleep := []byte("time." + "Sleep(")
	goFiles(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") && bytes.Contains(src, sleep) {
			t.Errorf("%s sleeps: wait on a condition, or use testing/synctest", path)
		}
	})
}

var (
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+|-bench '?([A-Z]\w+)`)
	declaredTest = regexp.MustCompile(`(?m)^func (Test|Fuzz|Benchmark)\w+`)
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```")
)

// unknownTests returns the tests and benchmarks that a page names, outside of code blocks, and that
// no test's name contains, as `go test -run` takes them.
func unknownTests(page string, tests []string) (unknown []string) {
	for _, found := range namedTest.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		name, kind := cmp.Or(found[1], found[0]), "func " // of a benchmark without its command
		if found[1] != "" {
			kind = "func Benchmark"
		}
		if !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, kind) && strings.Contains(test, name) }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func TestTestsThatTheDocsNameExist(t *testing.T) {
	var tests []string
	goFiles(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") {
			tests = append(tests, declaredTest.FindAllString(string(src), -1)...)
		}
	})
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, path := range append(pages, filepath.Join(root(t), "ARCHITECTURE.md"), filepath.Join(root(t), "README.md"), filepath.Join(root(t), "core/queue/redis/DESIGN.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if unknown := unknownTests(string(text), tests); len(unknown) > 0 && filepath.Base(path) != "CHANGELOG.md" {
			t.Errorf("%s names tests that do not exist: %v", filepath.Base(path), unknown)
		}
	}
	if got := unknownTests("run TestOldName, TestTestsThat and -bench 'OldName/a' or -bench Cycle", tests); !slices.Equal(got, []string{"TestOldName", "OldName"}) {
		t.Errorf("unknown %v", got)
	}
}

var invariantRow = regexp.MustCompile(`(?m)^\| (\d+)\. [^|]+ \|([^|]+)\|([^|]+)\|$`)

// incomplete returns the invariants, by number, that name no test or no negative control, or a test
// that does not exist.
func incomplete(page string, tests []string) (bad []string) {
	exists := func(names string) bool {
		for _, name := range namedTest.FindAllString(names, -1) {
			if strings.HasPrefix(name, "Test") && !slices.Contains(tests, "func "+name) {
				return false
			}
		}
		return true
	}
	for _, row := range invariantRow.FindAllStringSubmatch(page, -1) {
		control := strings.Contains(row[3], "in it") || strings.Contains(row[3], "`Test")
		if !strings.Contains(row[2], "`Test") || !control || !exists(row[2]) || !exists(row[3]) {
			bad = append(bad, row[1])
		}
	}
	return bad
}

func TestEachInvariantNamesItsTestAndItsControl(t *testing.T) {
	var tests []string
	goFiles(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") {
			tests = append(tests, declaredTest.FindAllString(string(src), -1)...)
		}
	})
	text, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(invariantRow.FindAllString(string(text), -1)); n != 15 {
		t.Errorf("%d invariants are listed, expected 15", n)
	}
	if bad := incomplete(string(text), tests); len(bad) > 0 {
		t.Errorf("invariants without an existing test and negative control: %v", bad)
	}
	forged := "| 1. a | `TestNoTest` | in it |\n| 2. a | `TestFaultT2NoTestSleeps` | none |\n| 3. a | - | in it |\n| 4. a | `TestFaultT2NoTestSleeps` | in it |\n"
	if bad := incomplete(forged, tests); !slices.Equal(bad, []string{"1", "2", "3"}) {
		t.Errorf("negative control: %v", bad)
	}
}

var (
	faultTest  = regexp.MustCompile(`\bfunc Test(?:Lab)?FaultS(\d+)[A-Z]`)
	namedFault = regexp.MustCompile("`Test(?:Lab)?FaultS(\\d+)[A-Z]")
)

// unnamedFaults returns the numbers of faults that no test named on the page attacks.
func unnamedFaults(page string, faults []int) (unnamed []int) {
	named := map[string]bool{}
	for _, test := range namedFault.FindAllStringSubmatch(page, -1) {
		named[test[1]] = true
	}
	for _, fault := range faults {
		if !named[strconv.Itoa(fault)] {
			unnamed = append(unnamed, fault)
		}
	}
	return unnamed
}

func TestThreatModelNamesATestOfEachFault(t *testing.T) {
	var faults []int
	goFiles(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, test := range faultTest.FindAllStringSubmatch(string(src), -1) {
			fault, err := strconv.Atoi(test[1])
			if err != nil {
				t.Fatal(err)
			}
			faults = append(faults, fault)
		}
	})
	slices.Sort(faults)
	if faults = slices.Compact(faults); len(faults) != 17 {
		t.Errorf("tests attack the faults %v, expected S1 to S17", faults)
	}
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	if unnamed := unnamedFaults(string(text), faults); len(unnamed) > 0 {
		t.Errorf("docs/security.md names no test of the faults %v; add one to Tests of these guards", unnamed)
	}
	forged := namedFault.ReplaceAllStringFunc(string(text), func(test string) string {
		return strings.Replace(test, "FaultS2", "FaultS1", 1)
	})
	if unnamed := unnamedFaults(forged, faults); !slices.Equal(unnamed, []int{2}) {
		t.Errorf("negative control: a page without S2 lacks %v, expected [2]", unnamed)
	}
}
