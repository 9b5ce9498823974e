package cli

import (
	"fmt"
	"strconv"

	"github.com/turnus/turnus/plugins/sdk"
)

// byteRate is a flag of bytes a second, written as sizes in playbooks are.
type byteRate int64

// Set implements pflag.Value.
func (r *byteRate) Set(text string) error {
	var size sdk.Size
	if err := size.UnmarshalJSON([]byte(text)); err != nil {
		return err
	}
	if size != 0 && size < 1024 {
		return fmt.Errorf("%s bytes a second: expected 0, or at least 1KiB", text)
	}
	*r = byteRate(size)
	return nil
}

// String implements pflag.Value.
func (r *byteRate) String() string { return strconv.FormatInt(int64(*r), 10) }

// Type implements pflag.Value.
func (r *byteRate) Type() string { return "SIZE" }
