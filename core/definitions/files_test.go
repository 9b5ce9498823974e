package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filesIn writes a tree into a folder, and reads it without asking whether it is valid.
func filesIn(t *testing.T, tree map[string]string, known *Set) Files {
	t.Helper()
	dir := t.TempDir()
	for p, text := range tree {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "playbooks", "link.yaml")); err != nil {
		t.Fatal(err)
	}
	files, err := FolderFiles(t.Context(), dir, known)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func goodSet(t *testing.T) *Set {
	t.Helper()
	set, err := FromDocuments(t.Context(), docsOf(good()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A tree with mistakes still shows its files, none that Load would not read, and what those
// without mistakes change.
func TestFilesOfATreeWithMistakes(t *testing.T) {
	known := goodSet(t)
	tree := with(edited(good(), "windows/sets.yaml", "22:00", "23:00"), "playbooks/deep/report.yml", "playbook: report\nstepz: []\n", "playbooks/new.yaml", "playbook: [\n",
		"README.md", "other\n", ".env", "SECRET=x\n")
	files := filesIn(t, tree, known)
	list, leftOut := DiffFiles(known.Documents(), files)
	var got []string
	for _, f := range list {
		got = append(got, fmt.Sprint(f.Action, " ", f.Path, " ", f.Added, " ", f.Removed))
	}
	want := []string{"changed playbooks/deep/report.yml 1 2", "added playbooks/link.yaml 0 0", "added playbooks/new.yaml 1 0", "changed windows/sets.yaml 1 1"}
	if !slices.Equal(got, want) || leftOut != 0 {
		t.Errorf("%q, %d left out, expected %q", got, leftOut, want)
	}
	if !strings.Contains(list[0].Text, "-targets: true\n") || !strings.Contains(list[0].Text, "+stepz: []\n") || strings.Contains(list[0].Text, "+++") {
		t.Errorf("%q", list[0].Text)
	}
	if list[1].Note == "" || list[1].Text != "" {
		t.Errorf("what a link leads to: %+v", list[1])
	}
	set, err := files.Mended(t.Context(), known, Options{})
	if err != nil {
		t.Fatal(err)
	}
	changes := Diff(known, set, noon).Changes
	if len(changes) != 1 || changes[0].Kind != KindWindowSet || changes[0].Name != "sat" {
		t.Errorf("%+v", changes)
	}
}

// A layout that cannot be read hides no file: those in the usual places, and in those of the
// present revision, are compared.
func TestFilesUnderABrokenLayout(t *testing.T) {
	moved := with(good(), "turnus.yaml", "playbooks: ops\n", "ops/report.yml", good()["playbooks/deep/report.yml"], "playbooks/deep/report.yml", "")
	known, err := FromDocuments(t.Context(), docsOf(moved), Options{})
	if err != nil {
		t.Fatal(err)
	}
	files := filesIn(t, with(moved, "turnus.yaml", "playbookz: ops\n"), known)
	paths := map[string]bool{}
	for _, d := range files.Documents {
		paths[d.Path] = true
	}
	for _, p := range []string{"turnus.yaml", "ops/report.yml", "playbooks/patch.yaml", "inventory/hosts.yaml", "windows/sets.yaml"} {
		if !paths[p] {
			t.Errorf("%s is not read: %v", p, paths)
		}
	}
	if _, err := files.Mended(t.Context(), known, Options{}); err != nil {
		t.Error(err)
	}
	if all := filesIn(t, moved, nil); len(all.Documents) < 4 {
		t.Errorf("without a present revision: %+v", all)
	}
}

func TestDiffFilesIsBounded(t *testing.T) {
	t.Parallel()
	var files Files
	add := func(p, text string) { files.Documents = append(files.Documents, Document{p, []byte(text)}) }
	line := strings.Repeat("é", 50) + "\n"
	add("a-binary.yaml", "a\x00b")
	add("a-esc.yaml", "\x1b[2J\u202e<script>\n")
	add("a-grows.yaml", strings.Repeat("\x01", maxFileText))
	add("a-huge.yaml", strings.Repeat("x", maxCompared+1))
	add("a-line.yaml", strings.Repeat("é", maxFileText))
	add("a-long.yaml", strings.Repeat(line, 1000))
	for i := range 300 {
		add(fmt.Sprintf("b%03d.yaml", i), strings.Repeat(line, 100))
	}
	list, leftOut := DiffFiles(nil, files)
	if len(list) != maxFiles || leftOut != len(files.Documents)-maxFiles {
		t.Errorf("%d files, %d left out", len(list), leftOut)
	}
	total := 0
	for _, f := range list {
		total += len(f.Text)
		if len(f.Text) > maxFileText || (f.Text == "") != (f.Added == 0) || f.Text == "" && f.Note == "" {
			t.Errorf("%s: %d bytes, %d lines, %q", f.Path, len(f.Text), f.Added, f.Note)
		}
		if strings.ContainsAny(f.Text, "\x1b\x00\u202e") {
			t.Errorf("%s: %q", f.Path, f.Text)
		}
	}
	if total > maxFilesText || total < maxFilesText/2 {
		t.Errorf("%d bytes of text", total)
	}
	if f := list[5]; f.Added != 1000 || f.Note == "" || !strings.HasSuffix(f.Text, "é\n") {
		t.Errorf("%s: %d lines, %q", f.Path, f.Added, f.Note)
	}
	if same, _ := DiffFiles(files.Documents, files); len(same) != 0 {
		t.Errorf("no change is listed: %+v", same)
	}
	if gone, _ := DiffFiles([]Document{{"x", []byte("one\n")}}, Files{}); len(gone) != 1 || gone[0].Action != Removed || gone[0].Removed != 1 {
		t.Errorf("%+v", gone)
	}
}
