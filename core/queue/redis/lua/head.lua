-- head.lua: what the scripts use of Lua. scripts.go puts the rest of a script into a function
-- behind this: making a closure costs a search for each local variable of its own function that it
-- uses, and nothing for those of the functions around.

local call = redis.call
local byte, sub, char, floor, min, max = string.byte, string.sub, string.char, math.floor, math.min, math.max
local pack, unpk, spack, sunpack = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack
local concat, format = table.concat, string.format

-- wall: what Redis' clock says, for what is due at a time of day. now: never goes back; it is wall
-- until that goes back, and ahead of it by as much from then on; for what is due after a time. age:
-- counts what passed between calls, for sessions.
local wall, now, ahead, age
local seq, bseq, vt, tkat, tks -- the rest of kMeta
local waiters -- jobs blocked on locks, in the whole pool
local R, T, S, lk, lkdirty = {}, {}, {}, {}, {} -- runs, tenants, sessions' leases, locks of this script
local classes, smallset, smalldone, duedel = {}, {}, {}, {} -- see small.lua; runs to take out of kDue
local news = {} -- ids of runs of which the pool's log gets a hint
local phaseLease -- set while leasing: a flow that becomes ready then joins the heap
-- What is called by functions that come before them.
local onready, strip, flushrun, smallrun, smallruns, grow, closespan, flushsmall, flushsmalls, flushspans
