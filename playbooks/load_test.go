package playbooks_test

import (
	"testing"

	"github.com/turnus/turnus/playbooks"
)

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	got, err := playbooks.Load([]string{"examples"}, options(t))
	if err != nil {
		t.Fatalf("the examples must load:\n%v", err)
	}
	if len(got) < 8 {
		t.Errorf("%d playbooks, want at least 8", len(got))
	}
}
