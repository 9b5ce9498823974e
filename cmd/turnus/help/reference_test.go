package help

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestReferencePage(t *testing.T) {
	root := &cobra.Command{Use: "turnus"}
	root.PersistentFlags().StringP("output", "o", "text", "format")
	jobs := &cobra.Command{
		Use: "jobs", Short: "List and change jobs", Annotations: map[string]string{Alone: "yes"}, Run: func(*cobra.Command, []string) {},
		Long: "List and change jobs. With --all of 'web*' see turnus jobs ls and turnus others; docs/api.md#export.\n\n  a  b",
	}
	for _, name := range []string{"ls", "rm", "show"} {
		sub := &cobra.Command{Use: name + " JOB [flags]", Short: "Do it", Example: "  turnus jobs " + name, Run: func(*cobra.Command, []string) {}}
		sub.Flags().String("server", "", "URL | name")
		jobs.AddCommand(sub)
	}
	jobs.AddCommand(&cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	jobs.Commands()[0].Flags().IntP("limit", "n", 50, "at most so many")
	root.AddCommand(jobs)
	const ls = "## `turnus jobs ls`\n\nDo it.\n\n```sh\nturnus jobs ls\n```\n\nUsage: `turnus jobs ls JOB`\n\n" +
		"| flag | default | meaning |\n| --- | --- | --- |\n| `-n`, `--limit` | `50` | at most so many |\n\n[Shared flags](#shared-flags): `--server`.\n\n"
	pages := Reference(root)
	for _, part := range []string{
		"# `turnus jobs`\n\nList and change jobs.\n\nUsage: `turnus jobs`\n\n" +
			"With `--all` of 'web\\*' see `turnus jobs ls` and `turnus` others; [api.md](../api.md#export).\n\n```\na  b\n```\n\n",
		ls,
		"## Shared flags\n\n| flag | default | meaning |\n| --- | --- | --- |\n| `--server` |  | URL \\| name |\n",
	} {
		if !strings.Contains(pages["jobs.md"], part) {
			t.Errorf("no %q in\n%s", part, pages["jobs.md"])
		}
	}
	if strings.Contains(pages["jobs.md"], "secret") || strings.Contains(pages["jobs.md"], "--output") {
		t.Errorf("a hidden command or a flag of all commands is on the page:\n%s", pages["jobs.md"])
	}
	if want := "| [`turnus jobs ls`](jobs.md#turnus-jobs-ls) | Do it |\n"; !strings.Contains(pages["README.md"], want) {
		t.Errorf("no %q in\n%s", want, pages["README.md"])
	}
}

func TestReferenceIsWrappedOutsideCode(t *testing.T) {
	long := strings.Repeat("word ", 30) + "`code that is kept on one line`"
	for line := range strings.SplitSeq(wrapped(long), "\n") {
		if len(line) > 100 || strings.Count(line, "`")%2 != 0 {
			t.Errorf("line %q", line)
		}
	}
}

func TestWriteReferenceReplacesFormerPages(t *testing.T) {
	folder := t.TempDir()
	former := filepath.Join(folder, "former.md")
	if err := os.WriteFile(former, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := &cobra.Command{Use: "turnus"}
	root.AddCommand(&cobra.Command{Use: "run", Run: func(*cobra.Command, []string) {}})
	if err := WriteReference(Reference(root), folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(former); !os.IsNotExist(err) {
		t.Errorf("the former page is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "run.md")); err != nil {
		t.Error(err)
	}
}
