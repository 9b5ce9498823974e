package redisconn

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// rightsText asks for each command whether the user may call it, with the key where it takes one.
// Nothing is called.
const rightsText = `
local key, missing = table.remove(ARGV, 1), {}
for _, name in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(name, '[^|]+') do words[#words + 1] = word end
  if #words == 1 then words[2] = key end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not (known and may) then missing[#missing + 1] = name end
end
return missing`

// Missing are those of the commands, as get or client|id, that the user of the connection may not
// call on a key: a script that met such a one half-way would leave its work half done.
func (c *Conn) Missing(ctx context.Context, key string, commands []string) ([]string, error) {
	args := []any{key} // no key of the script: a user that may not touch it could not ask
	for _, name := range commands {
		args = append(args, name)
	}
	v, err := c.Eval(ctx, NewScript("rights", rightsText), nil, args...)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: rights: the server answers with a %T: %w", c.room, v, core.ErrUnknown)
	}
	return core.Map(list, func(name any) string { return fmt.Sprint(name) }), nil
}

// Lacking is the error for commands that are missing on some keys; nil where none is.
func (c *Conn) Lacking(missing []string, keys string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the user of this connection may not call %s on %s, and that is needed: %w%s", c.room, core.Few(missing, 6), keys, core.ErrInvalid, aclHint)
}
