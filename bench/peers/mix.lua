-- wrk asks for the entries of a list (see bench/climit/light.c) in turn.
--   wrk -s mix.lua URL -- LIST [DEPTH]
local requests, sequence, place, depth = {}, {}, 0, 1

function init(args)
   local f = assert(io.open(args[1]))
   depth = tonumber(args[2] or "1")
   local paths, entries = f:read("*n", "*n")
   for i = 1, paths do
      local path
      repeat path = f:read("*l") until path:match("%S")
      requests[i] = wrk.format("GET", path:match("^(%S+)"))
   end
   for i = 1, entries do sequence[i] = f:read("*n") + 1 end
   f:close()
end

function request()
   if depth > 1 then
      local batch = {}
      for i = 1, depth do
         place = place % #sequence + 1
         batch[i] = requests[sequence[place]]
      end
      return table.concat(batch)
   end
   place = place % #sequence + 1
   return requests[sequence[place]]
end

function done(summary)
   local e = summary.errors
   io.write(string.format(
      '{"requests": %d, "seconds": %.6f, "bytes": %d, "bad_status": %d, "broken": %d}\n',
      summary.requests, summary.duration / 1e6, summary.bytes, e.status, e.connect + e.read + e.write + e.timeout))
end
