-- payload.lua: the payload of a small run.
-- Needs: nothing. Changes nothing.
-- ARGV: run id. Returns: {run number, payload}; {run number} where the run has keys of its own; -1
-- without the run.
local no = redis.call('HGET', kIDs, ARGV[1])
if not no then return -1 end
local text = redis.call('HGET', kSmall, no)
if not text then return { tonumber(no) } end
local payload = select(4, cmsgpack.unpack((select(16, cmsgpack.unpack(text)))))
if payload == true then payload = redis.call('HGET', kPayloads, no) or '' end
return { tonumber(no), payload }
