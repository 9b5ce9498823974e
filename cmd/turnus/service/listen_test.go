package service

import (
	"strings"
	"testing"
)

func TestTakenAddressSaysWhatToDo(t *testing.T) {
	t.Parallel()
	first, err := listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if _, err = listen(t.Context(), "--listen", first.Addr().String()); err == nil || !strings.Contains(err.Error(), "hint: another process has this address") {
		t.Error(err)
	}
}
