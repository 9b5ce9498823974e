package catalog_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/testparts"
)

// A misspelt repository or branch is reported once, and not only shown in the status.
func TestRepositoryThatCannotBeFollowedIsSaid(t *testing.T) {
	git := testparts.Need(t, "git", "git")
	empty := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), git, "init", "--quiet", empty).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for want, url := range map[string]string{"nowhere": filepath.Join(t.TempDir(), "nowhere"), "no branch main": empty} {
		fake(t, func(l *lab) {
			_, stop := l.server("s1", func(cfg *catalog.Config) {
				cfg.Follow = &definitions.FollowOptions{URL: url, Branch: "main", Dir: t.TempDir(), Every: time.Second, MinGap: time.Millisecond}
			})
			defer stop()
			reported := func() (n int) {
				for _, e := range l.said(catalog.Trouble) {
					if strings.Contains(e.Reason, "cannot be followed") && strings.Contains(e.Reason+e.Err.Error(), want) {
						n++
					}
				}
				return n
			}
			l.until("it is said", func() bool { return reported() > 0 })
			<-time.After(time.Minute)
			if n := reported(); n != 1 {
				t.Errorf("%s: reported %d times", want, n)
			}
		})
	}
}
